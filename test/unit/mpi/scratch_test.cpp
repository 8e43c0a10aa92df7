// Scratch memory: given back where nothing is under way, on which the driver would wait.
#include "mpi/staging/scratch.h"

#include <gtest/gtest.h>

#include "../forwarding_device.h"
#include "../in_flight.h"

namespace gpucoll::coll {
namespace {

class Counter final : public gpucoll_test::ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;
  void release(void* address) noexcept override {
    ++released;
    ForwardingDevice::release(address);
  }
  int released = 0;
};

using gpucoll_test::FakeInFlight;

TEST(Scratch, IsKeptUntilMoreIsNeeded) {
  Counter device(**gpu::emu_platform().open(0));
  {
    Scratch scratch;
    uint8_t* const first = *scratch.get(device, 5000);
    EXPECT_EQ(*scratch.get(device, 4999), first);
    EXPECT_EQ(device.released, 0);
    ASSERT_TRUE(scratch.get(device, 5001));
    EXPECT_EQ(device.released, 1);
  }
  EXPECT_EQ(device.released, 2);
}

TEST(Scratch, IsGivenBackBesideNothingThatFlies) {
  Counter device(**gpu::emu_platform().open(0));
  FakeInFlight work;
  Scratch scratch;
  ASSERT_TRUE(scratch.get(device, 5000));
  work.busy = true;
  ASSERT_TRUE(scratch.get(device, 50000));
  scratch.release();
  EXPECT_EQ(device.released, 0);
  work.busy = false;
  core::Quiescence::instance().release_pending();
  EXPECT_EQ(device.released, 2);
}

}  // namespace
}  // namespace gpucoll::coll
