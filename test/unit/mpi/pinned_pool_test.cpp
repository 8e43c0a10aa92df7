// Memory that the pool keeps for the next call.
#include "mpi/staging/pinned_pool.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <vector>

#include "base/params.h"

namespace gpucoll::coll {
namespace {

constexpr size_t kBytes = 1 << 20;

size_t page() { return static_cast<size_t>(sysconf(_SC_PAGESIZE)); }

class PinnedPoolTest : public testing::Test {
 protected:
  void TearDown() override { pool_.clear(); }
  // Returns how many pages the system had to clear while each of `blocks` was written.
  long faults_of_writing(const std::vector<void*>& blocks) {
    rusage before, after;
    getrusage(RUSAGE_SELF, &before);
    for (void* block : blocks) std::memset(block, 1, kBytes);
    getrusage(RUSAGE_SELF, &after);
    return after.ru_minflt - before.ru_minflt;
  }
  std::vector<void*> reserve(size_t count) {
    std::vector<void*> blocks;
    for (size_t i = 0; i < count; ++i) {
      blocks.push_back(pool_.reserve(nullptr, kBytes));
      EXPECT_NE(blocks.back(), nullptr);
    }
    return blocks;
  }
  PinnedPool& pool_ = PinnedPool::instance();
};

TEST_F(PinnedPoolTest, KeepsThePagesOfMemoryThatWasUsed) {
  constexpr size_t kBlocks = 16;
  const std::vector<void*> first = reserve(kBlocks);
  const long fresh = faults_of_writing(first);
  EXPECT_GE(fresh, static_cast<long>(kBlocks * kBytes / page() / 2));
  for (void* block : first) pool_.put(block);
  const std::vector<void*> again = reserve(kBlocks);
  EXPECT_LT(faults_of_writing(again), fresh / 4);
  for (void* block : again) pool_.put(block);
}

TEST_F(PinnedPoolTest, GivesEachBlockToOneCaller) {
  for (void* block : reserve(3)) pool_.put(block);
  std::vector<void*> blocks = reserve(4);
  for (int large = 0; large < 2; ++large) blocks.push_back(pool_.get(nullptr, 4 * kBytes + 1));
  for (size_t i = 0; i < blocks.size(); ++i)
    std::memset(blocks[i], static_cast<int>(i), i < 4 ? kBytes : 4 * kBytes + 1);
  for (size_t i = 0; i < blocks.size(); ++i) {
    EXPECT_EQ(static_cast<uint8_t*>(blocks[i])[0], i);
    EXPECT_EQ(static_cast<uint8_t*>(blocks[i])[(i < 4 ? kBytes : 4 * kBytes + 1) - 1], i);
  }
  for (void* block : blocks) pool_.put(block);
}

// Returns the bytes of this process's address space.
size_t address_space() {
  unsigned long pages = 0;
  FILE* const file = std::fopen("/proc/self/statm", "r");
  EXPECT_EQ(std::fscanf(file, "%lu", &pages), 1);
  std::fclose(file);
  return pages * page();
}

TEST_F(PinnedPoolTest, KeepsNoMoreThanEightTimesStagingBytes) {
  const size_t most = 8 * static_cast<size_t>(params().staging_bytes), large = most / 2;
  const size_t before = address_space();
  std::vector<void*> blocks;
  for (int i = 0; i < 4; ++i) {
    blocks.push_back(pool_.get(nullptr, large));
    ASSERT_NE(blocks.back(), nullptr);
    static_cast<uint8_t*>(blocks.back())[size_t{1} << 21] = 1;
    static_cast<uint8_t*>(blocks.back())[1 << 16] = 1;
  }
  for (void* block : blocks) pool_.put(block);
  EXPECT_LE(address_space() - before, most + (size_t{8} << 20));
}

}  // namespace
}  // namespace gpucoll::coll
