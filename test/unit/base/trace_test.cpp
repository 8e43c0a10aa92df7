// The trace of a process: what is in its file, however the process ends.
#include "base/observe/trace.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <functional>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "base/params.h"

using namespace gpucoll;

namespace {

constexpr uint64_t kRecords = 1024;

class Directory {
 public:
  Directory() { (void)!mkdtemp(path_); }
  ~Directory() { (void)!system(("rm -rf " + std::string(path_)).c_str()); }
  std::string path() const { return path_; }
  // The content of the file that process `pid` has made.
  std::string trace_of(pid_t pid) const {
    char host[64] = "?";
    gethostname(host, sizeof host - 1);
    std::ostringstream content;
    content << std::ifstream(path() + "/trace." + host + "." + std::to_string(pid)).rdbuf();
    return content.str();
  }

 private:
  char path_[32] = "/tmp/gpucoll-trace-XXXXXX";
};

// Runs a process of its own, as a process starts its trace once; returns its id and how it has ended.
std::pair<pid_t, int> in_process(const std::function<void()>& body) {
  const pid_t pid = fork();
  if (pid == 0) {
    body();
    exit(0);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  return {pid, status};
}

void start_in(const Directory& directory) {
  set_param("trace", (directory.path() + "/trace").c_str(), "test").ignore();
  set_param("trace_bytes", std::to_string(kRecords * sizeof(trace::Record)).c_str(), "test").ignore();
  trace::start();
}

trace::Header header_of(const std::string& content) {
  trace::Header header = {};
  if (content.size() >= sizeof header) std::memcpy(&header, content.data(), sizeof header);
  return header;
}

std::vector<trace::Record> records_of(const std::string& content) {
  std::vector<trace::Record> records(kRecords);
  const size_t at = trace::kHeaderBytes + trace::kTextBytes;
  if (content.size() < at + kRecords * sizeof(trace::Record)) return {};
  std::memcpy(records.data(), content.data() + at, kRecords * sizeof(trace::Record));
  std::erase_if(records, [](const trace::Record& record) { return record.sequence == 0; });
  return records;
}

TEST(Trace, IsOffWithoutAFile) {
  const auto ended = in_process([] {
    trace::start();
    { const trace::Span span(trace::What::plan); }
    exit(trace::on());
  });
  EXPECT_EQ(ended.second, 0);
}

TEST(Trace, HasWhatBeganBeforeTheProcessDied) {
  const Directory directory;
  const auto [pid, status] = in_process([&] {
    start_in(directory);
    trace::name_group(77, 3, 4, "somebody");
    trace::begin({.what = trace::What::call, .label = trace::label("MPI_Allreduce"), .group = 77, .number = 5});
    trace::Waiting waiting(77, 5);
    waiting.on_rank(0);
    waiting.on_rank(0);
    waiting.on_rank(2);
    kill(getpid(), SIGKILL);
  });
  EXPECT_TRUE(WIFSIGNALED(status));
  const std::string content = directory.trace_of(pid);
  const trace::Header header = header_of(content);
  EXPECT_EQ(std::memcmp(header.magic, trace::kMagic, sizeof header.magic), 0);
  EXPECT_EQ(header.pid, pid);
  EXPECT_EQ(header.end.realtime_ns, 0);
  EXPECT_NE(content.find("group\t77\t3\t4\tsomebody"), std::string::npos);
  const auto records = records_of(content);
  ASSERT_EQ(records.size(), 3u);
  EXPECT_STREQ(content.data() + trace::kHeaderBytes + records[0].label, "MPI_Allreduce");
  EXPECT_EQ(records[0].duration_ns, trace::kOpen);
  EXPECT_EQ(records[1].peer, 0);
  EXPECT_GE(records[1].duration_ns, 0);
  EXPECT_EQ(records[2].peer, 2);
  EXPECT_EQ(records[2].duration_ns, trace::kOpen);
}

TEST(Trace, KeepsTheLatestRecordsOfAllThreads) {
  const Directory directory;
  constexpr uint64_t kEach = 3000, kThreads = 4;
  const auto [pid, status] = in_process([&] {
    start_in(directory);
    std::vector<std::thread> threads;
    for (uint64_t t = 0; t < kThreads; ++t)
      threads.emplace_back([t] {
        for (uint64_t i = 1; i <= kEach; ++i)
          trace::add(monotonic_ns(), {.what = trace::What::copy, .number = t * kEach + i, .bytes = i});
      });
    for (std::thread& thread : threads) thread.join();
    // A late end finds that its record has been replaced.
    const uint64_t first = trace::begin({.what = trace::What::call, .number = 1});
    for (uint64_t i = 0; i < kRecords; ++i) trace::add(monotonic_ns(), {.what = trace::What::plan, .bytes = i});
    trace::end(first, trace::Way::failed);
  });
  EXPECT_EQ(status, 0);
  const std::string content = directory.trace_of(pid);
  EXPECT_EQ(header_of(content).recorded, kThreads * kEach + 1 + kRecords);
  EXPECT_NE(header_of(content).end.realtime_ns, 0);
  std::set<uint64_t> sequences;
  for (const trace::Record& record : records_of(content)) {
    sequences.insert(record.sequence);
    EXPECT_EQ(record.what, static_cast<uint16_t>(trace::What::plan));
    EXPECT_EQ(record.way, 0);
  }
  EXPECT_EQ(sequences.size(), kRecords);
  EXPECT_EQ(*sequences.begin(), kThreads * kEach + 2);
}

TEST(Trace, OfAForkedChildIsNone) {
  const Directory directory;
  const auto [pid, status] = in_process([&] {
    start_in(directory);
    const uint64_t open = trace::begin({.what = trace::What::call});
    std::optional<trace::Span> span(std::in_place, trace::What::plan);
    const auto child = in_process([&] {
      trace::add(monotonic_ns(), {.what = trace::What::copy});
      trace::end(open);
      trace::end(trace::begin({.what = trace::What::copy}));
      span.reset();
      _exit(trace::on());
    });
    if (child.second != 0 || !trace::on()) _exit(1);
    kill(getpid(), SIGKILL);  // leaves both open
  });
  EXPECT_TRUE(WIFSIGNALED(status)) << "a forked child records into its parent's file";
  const std::string content = directory.trace_of(pid);
  EXPECT_EQ(header_of(content).recorded, 2u) << "a forked child records into its parent's file";
  for (const trace::Record& record : records_of(content)) EXPECT_EQ(record.duration_ns, trace::kOpen);
}

TEST(Trace, TakesNoRoomThatItDoesNotNeed) {
  const Directory directory;
  const auto [pid, status] = in_process([&] {
    set_param("trace_bytes", "16M", "test").ignore();
    set_param("trace", (directory.path() + "/trace").c_str(), "test").ignore();
    trace::start();
    trace::add(monotonic_ns(), {.what = trace::What::plan});
  });
  char host[64] = "?";
  gethostname(host, sizeof host - 1);
  struct stat info = {};
  ASSERT_EQ(stat((directory.path() + "/trace." + host + "." + std::to_string(pid)).c_str(), &info), 0);
  EXPECT_LT(info.st_blocks * 512, 1 << 20);
}

// Its process would end by SIGBUS, if it were cut.
TEST(Trace, OfAnotherProcessIsLeftAlone) {
  const Directory directory;
  char host[64] = "?";
  gethostname(host, sizeof host - 1);
  const std::string name = directory.path() + "/trace." + host + ".";
  const auto [pid, status] = in_process([&] {
    const std::string path = name + std::to_string(getpid());
    const int its = open(path.c_str(), O_RDWR | O_CREAT, 0644);
    exit(write(its, "its", 3) == 3 && flock(its, LOCK_EX) == 0 ? (start_in(directory), !trace::on()) : 2);
  });
  EXPECT_EQ(status, 0);
  EXPECT_EQ(directory.trace_of(pid), "its");
  EXPECT_EQ(access((name + std::to_string(pid) + ".1").c_str(), R_OK), 0);
}

// A program that closes all descriptors and opens its own would find its file with holes.
TEST(Trace, KeepsNoDescriptorButItsLock) {
  const Directory directory;
  const auto [pid, status] = in_process([&] {
    const int before = dup(0);
    close(before);
    start_in(directory);
    const int after = dup(0);
    char host[64] = "?";
    gethostname(host, sizeof host - 1);
    const std::string path = directory.path() + "/trace." + host + "." + std::to_string(getpid());
    const int its = open(path.c_str(), O_RDWR);
    const bool locked = flock(its, LOCK_EX | LOCK_NB) != 0;
    exit(after == before && locked ? 0 : 1);
  });
  EXPECT_EQ(status, 0);
}

// All sruns of an allocation have one id of the job; what Open MPI spawns belongs to the job.
TEST(Trace, NamesTheJob) {
  using Variables = std::vector<std::pair<const char*, const char*>>;
  const std::vector<std::pair<Variables, std::string>> cases = {
      {{{"OMPI_MCA_ess_base_jobid", "327681"}, {"PMIX_NAMESPACE", "327681"}}, "orte-5"},
      {{{"PMIX_NAMESPACE", "prterun-x-1@2"}}, "prterun-x-1"},
      {{{"SLURM_JOB_ID", "7"}, {"SLURM_STEP_ID", "3"}}, "7.3"}};
  for (const auto& each : cases) {
    const Directory directory;
    const auto [pid, status] = in_process([&] {
      for (const char* name : {"OMPI_MCA_ess_base_jobid", "PMIX_NAMESPACE", "SLURM_JOB_ID", "SLURM_STEP_ID"})
        unsetenv(name);
      for (const auto& [name, value] : each.first) setenv(name, value, 1);
      start_in(directory);
    });
    EXPECT_EQ(header_of(directory.trace_of(pid)).job, each.second);
  }
}

// Its writer would end by SIGXFSZ.
TEST(Trace, IsNoneWhereFilesMayNotBeAsLarge) {
  const Directory directory;
  const auto [pid, status] = in_process([&] {
    const rlimit limit = {10000, 10000};
    setrlimit(RLIMIT_FSIZE, &limit);
    start_in(directory);
    exit(trace::on());
  });
  EXPECT_EQ(status, 0);
  EXPECT_EQ(directory.trace_of(pid), "");
}

}  // namespace
