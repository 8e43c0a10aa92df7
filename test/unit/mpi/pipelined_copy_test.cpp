// Copies of pageable memory in pieces, on the emulated device.
#include "mpi/staging/pipelined_copy.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/params.h"
#include "mpi/staging/pinned_pool.h"

namespace gpucoll::coll {
namespace {

constexpr size_t kPiece = 4096, kGuard = 32;

uint8_t byte(size_t i, uint8_t salt) { return static_cast<uint8_t>(i * 131 + i / 4096 * 7 + salt); }

class PipelinedCopy : public testing::Test {
 protected:
  void SetUp() override {
    auto opened = gpu::emu_platform().open(0);
    ASSERT_TRUE(opened.ok());
    device_ = *opened;
  }
  void TearDown() override {
    release();
    PinnedPool::instance().clear();
  }
  void release() {
    if (!memory_) return;
    EXPECT_TRUE(device_->user_release(memory_).ok());
    memory_ = nullptr;
  }
  // Device memory of so many bytes between guards.
  uint8_t* device_memory(size_t bytes) {
    release();
    auto made = device_->user_allocate(bytes + 2 * kGuard);
    EXPECT_TRUE(made.ok());
    memory_ = static_cast<uint8_t*>(*made);
    EXPECT_TRUE(device_->fill(memory_, 0xee, bytes + 2 * kGuard).ok());
    return memory_ + kGuard;
  }
  size_t copy(void* dst, const void* src, size_t bytes) {
    auto pieces = copy_pipelined(*device_, dst, src, bytes, kPiece);
    EXPECT_TRUE(pieces.ok()) << pieces.status().what();
    return pieces.ok() ? *pieces : 0;
  }
  // Down to the device and up again.
  void round_trip(size_t bytes, size_t pieces) {
    SCOPED_TRACE(bytes);
    std::vector<uint8_t> sent(bytes), around(bytes + 2 * kGuard), got(bytes + 2, 0x77);
    for (size_t i = 0; i < bytes; ++i) sent[i] = byte(i, static_cast<uint8_t>(bytes));
    uint8_t* const there = device_memory(bytes);
    EXPECT_EQ(copy(there, sent.data(), bytes), pieces);
    ASSERT_TRUE(device_->copy(around.data(), memory_, around.size()).ok());
    for (size_t i = 0; i < around.size(); ++i)
      ASSERT_EQ(around[i], i < kGuard || i >= kGuard + bytes ? 0xee : sent[i - kGuard]) << i;
    EXPECT_EQ(copy(got.data() + 1, there, bytes), pieces);
    for (size_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i], i < 1 || i > bytes ? 0x77 : sent[i - 1]) << i;
  }

  gpu::Device* device_ = nullptr;
  uint8_t* memory_ = nullptr;
};

TEST_F(PipelinedCopy, CutsWhatIsLarge) {
  for (size_t bytes : {size_t{1}, kPiece, 3 * kPiece - 1}) round_trip(bytes, 1);
  round_trip(3 * kPiece, 3);
  round_trip(3 * kPiece + 1, 4);
  round_trip(8 * kPiece - 1, 8);
  round_trip(57 * kPiece + 1234, 58);
}

TEST_F(PipelinedCopy, GivesItsMemoryBack) {
  for (int i = 0; i < 300; ++i) round_trip(4 * kPiece + 7, 5);
}

TEST_F(PipelinedCopy, GoesStraightWhereNoMemoryCanBePinned) {
  const int64_t least = 65536;  // of the parameter
  ASSERT_TRUE(set_param("staging_bytes", std::to_string(least).c_str(), "test").ok());
  void* const all = PinnedPool::instance().get(device_, static_cast<size_t>(least));
  EXPECT_TRUE(PinnedPool::instance().is_pinned(all));
  EXPECT_TRUE(PinnedPool::instance().is_pinned(static_cast<uint8_t*>(all) + least - 1));
  EXPECT_FALSE(PinnedPool::instance().is_pinned(static_cast<uint8_t*>(all) + least));
  round_trip(10 * kPiece + 3, 1);
  PinnedPool::instance().put(all);
  EXPECT_FALSE(PinnedPool::instance().is_pinned(all)) << "somebody else's now";
  round_trip(10 * kPiece + 3, 11);
}

TEST_F(PipelinedCopy, LeavesItsRoomToCallsThatRunOnTheDevice) {
  constexpr size_t kMost = 1 << 20;
  PinnedPool& pool = PinnedPool::of_calls();
  ASSERT_TRUE(set_param("staging_bytes", "65536", "test").ok());
  ASSERT_TRUE(set_param("pinned_bytes", std::to_string(kMost).c_str(), "test").ok());
  EXPECT_EQ(pool.get_pinned(*device_, kMost + 1).host, nullptr);
  const gpu::HostBlock half = pool.get_pinned(*device_, kMost / 2);
  ASSERT_NE(half.host, nullptr);
  EXPECT_EQ(pool.get_pinned(*device_, kMost).host, nullptr);
  pool.put(half.host);
  const gpu::HostBlock all = pool.get_pinned(*device_, kMost);
  EXPECT_NE(all.host, nullptr) << "half of it was not given back";
  pool.put(all.host);
  pool.clear();
}

}  // namespace
}  // namespace gpucoll::coll
