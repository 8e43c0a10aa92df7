// Tuning files: what is read, what is refused and with which words, and times between and beyond the measured ones.
#include "core/plan/tuning_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <string>

#include "core/plan/tuner.h"

namespace gpucoll::core {
namespace {

constexpr const char* kGood =
    "gpucoll-tuning 1\n"
    "# made by hand\n"
    "device cuda ranks 4\n"
    "allreduce ring simple 8 30.5   # a remark\n"
    "allreduce ring simple 1008 40.5\n"
    "\n"
    "broadcast tree ll 0 9\n"
    "device emu ranks 2\n"
    "limit copy_engine_bytes 4096\n"
    "allgather ring simple 100 7\n";

TEST(TuningFile, IsRead) {
  auto file = parse_tuning(kGood);
  ASSERT_TRUE(file.ok()) << file.status().what();
  ASSERT_EQ(file->tables.size(), 2u);
  const TuningTable& first = file->tables[0];
  EXPECT_FALSE(first.emulated);
  EXPECT_EQ(first.n_ranks, 4);
  EXPECT_TRUE(file->tables[1].emulated);
  EXPECT_EQ(file->tables[1].us(Function::all_gather, Algorithm::ring, Protocol::simple, 100), 7);
  EXPECT_EQ(file->tables[1].limit(Limit::copy_engine_bytes), 4096u);
  EXPECT_EQ(file->tables[1].limit(Limit::zero_copy_bytes), 0u);
  EXPECT_EQ(file->tables[0].limit(Limit::copy_engine_bytes), 0u);
  EXPECT_LT(file->tables[1].us(Function::all_reduce, Algorithm::ring, Protocol::simple, 100), 0);
}

TEST(TuningFile, GivesTimesBetweenAndBeyondThePoints) {
  auto file = parse_tuning(kGood);
  ASSERT_TRUE(file.ok());
  auto us = [&](uint64_t bytes) {
    return file->tables[0].us(Function::all_reduce, Algorithm::ring, Protocol::simple, bytes);
  };
  EXPECT_DOUBLE_EQ(us(0), 30.5);
  EXPECT_DOUBLE_EQ(us(8), 30.5);
  EXPECT_DOUBLE_EQ(us(508), 35.5);
  EXPECT_DOUBLE_EQ(us(1008), 40.5);
  EXPECT_DOUBLE_EQ(us(2016), 81);
  auto empty_only = [&](uint64_t bytes) {
    return file->tables[0].us(Function::broadcast, Algorithm::tree, Protocol::ll, bytes);
  };
  EXPECT_DOUBLE_EQ(empty_only(0), 9);
  EXPECT_GE(empty_only(5), 9);
}

TEST(TuningFile, SurvivesWritingAndReading) {
  auto file = parse_tuning(kGood);
  ASSERT_TRUE(file.ok());
  const std::string text = format_tuning(file->tables, "again");
  auto again = parse_tuning(text);
  ASSERT_TRUE(again.ok()) << again.status().what() << "\n" << text;
  EXPECT_EQ(format_tuning(again->tables, "again"), text);
  EXPECT_EQ(again->tables[1].limit(Limit::copy_engine_bytes), 4096u);
  EXPECT_EQ(again->tables[0].us(Function::all_reduce, Algorithm::ring, Protocol::simple, 508), 35.5);
}

TEST(TuningFile, HashTellsTextsApart) {
  auto one = parse_tuning(kGood), other = parse_tuning(std::string(kGood) + "#"), same = parse_tuning(kGood);
  ASSERT_TRUE(one.ok() && other.ok() && same.ok());
  EXPECT_NE(one->hash, other->hash);
  EXPECT_EQ(one->hash, same->hash);
  EXPECT_NE(one->hash, 0u);
}

TEST(TuningFile, IsRefusedWithTheLineAndTheReason) {
  const std::string head = "gpucoll-tuning 1\n", section = head + "device emu ranks 2\n";
  struct Bad {
    std::string text, sentence;
  };
  for (const Bad& bad : {
           Bad{"", "heading"},
           Bad{"gpucoll-tuning 2\n", "line 1: this is not the heading"},
           Bad{"\n\nwhat is this", "line 3: this is not the heading"},
           Bad{head + "allreduce ring simple 8 1\n", "line 2: a time before the first section"},
           Bad{head + "device gpu ranks 2\n", "line 2: 'gpu' is neither cuda nor emu"},
           Bad{head + "device emu ranks none\n", "line 2: 'none' is no number of ranks"},
           Bad{head + "device emu 2\n", "line 2: a section begins with"},
           Bad{section + "device emu ranks 2\n", "line 3: there is a section for emu and 2 ranks already"},
           Bad{section + "allreduce ring simple 8\n", "line 3: a time is"},
           Bad{section + "allred ring simple 8 1\n", "line 3: there is no function 'allred'"},
           Bad{section + "allreduce star simple 8 1\n", "line 3: there is no algorithm 'star'"},
           Bad{section + "allreduce ring complex 8 1\n", "line 3: there is no protocol 'complex'"},
           Bad{section + "allreduce ring simple -8 1\n", "line 3: '-8' is no number of bytes"},
           Bad{section + "allreduce ring simple 8k 1\n", "line 3: '8k' is no number of bytes"},
           Bad{section + "allreduce ring simple 8 nan\n", "line 3: 'nan' is no number of microseconds"},
           Bad{section + "allreduce ring simple 8 0\n", "line 3: '0' is no number of microseconds"},
           Bad{head + "limit copy_engine_bytes 8\n", "line 2: a limit before the first section"},
           Bad{section + "limit copy_engine_bytes\n", "line 3: a limit is 'limit PARAMETER BYTES'"},
           Bad{section + "limit channels 8\n", "line 3: there is no limit 'channels'"},
           Bad{section + "limit copy_engine_bytes 0\n", "line 3: '0' is no number of bytes above 0"},
           Bad{section + "limit copy_engine_bytes 4K\n", "line 3: '4K' is no number of bytes above 0"},
           Bad{section + "allreduce ring simple 8 1\nallreduce ring simple 8 2\n", "line 4: the bytes"},
       }) {
    auto file = parse_tuning(bad.text);
    ASSERT_FALSE(file.ok()) << bad.text;
    EXPECT_NE(std::string(file.status().what()).find(bad.sentence), std::string::npos) << file.status().what();
  }
}

// Of which there is no end, or none to come.
TEST(TuningFile, IsNoFifoAndNoDevice) {
  const std::string fifo = testing::TempDir() + "gpucoll-tuning-" + std::to_string(getpid());
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  for (const std::string& path : {fifo, std::string("/dev/zero"), std::string("/dev/tty"), std::string("/tmp")}) {
    const auto file = read_tuning(path);
    ASSERT_FALSE(file.ok()) << path;
    EXPECT_NE(std::string(file.status().what()).find("tuning file " + path + ": "), std::string::npos)
        << file.status().what();
  }
  unlink(fifo.c_str());
}

TEST(TuningFile, ErrorsNameTheFile) {
  auto missing = read_tuning("/nonexistent/tuning");
  ASSERT_FALSE(missing.ok());
  EXPECT_NE(std::string(missing.status().what()).find("/nonexistent/tuning: No such file"), std::string::npos)
      << missing.status().what();
  const std::string path = testing::TempDir() + "gpucoll_tuning_test";
  std::FILE* out = std::fopen(path.c_str(), "w");
  ASSERT_NE(out, nullptr);
  std::fputs("gpucoll-tuning 1\nnonsense\n", out);
  std::fclose(out);
  auto bad = read_tuning(path);
  std::remove(path.c_str());
  ASSERT_FALSE(bad.ok());
  EXPECT_NE(std::string(bad.status().what()).find(path + ": line 2: "), std::string::npos) << bad.status().what();
  EXPECT_FALSE(read_tuning(testing::TempDir()).ok());  // a directory
}

}  // namespace
}  // namespace gpucoll::core
