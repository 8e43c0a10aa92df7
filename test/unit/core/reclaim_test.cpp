// When communicators that are finished go: not beside what is under way, on which the driver would wait.
#include "core/comm/reclaim.h"

#include <gtest/gtest.h>

#include "../in_flight.h"
#include "gpu/device.h"
#include "wireup_ranks.h"

namespace gpucoll::core {
namespace {

const gpu::Kernel kNone = {"none", nullptr, [](const gpu::EmuBlock&, const proto::Plan&) {}};

std::unique_ptr<Communicator> finished_communicator() {
  gpucoll_test::ThreadsExchange alone(1);
  gpucoll_test::ThreadsBootstrap bootstrap(alone, 0, 1);
  auto made = Communicator::create(**gpu::emu_platform().open(0), {{&kNone, 1}, &kNone, &kNone}, bootstrap);
  EXPECT_TRUE(made) << made.status().what();
  EXPECT_TRUE((*made)->finish(nullptr).ok());
  return *std::move(made);
}

using gpucoll_test::FakeInFlight;

TEST(Reclaim, GoAtOnceWhereNothingFlies) {
  reclaim(finished_communicator(), 0);
  EXPECT_TRUE(drain_reclaimed(0, nullptr));
}

TEST(Reclaim, StayAsLongAsAnythingFlies) {
  FakeInFlight work;
  work.busy = true;
  reclaim(finished_communicator(), 0);
  reclaim(finished_communicator(), 20);
  EXPECT_FALSE(drain_reclaimed(0, nullptr));
  work.busy = false;
  EXPECT_TRUE(drain_reclaimed(0, nullptr));
}

TEST(Reclaim, GoAtTheEndOfMpiWhateverFlies) {
  FakeInFlight work;
  work.busy = true;
  reclaim(finished_communicator(), 0);
  EXPECT_TRUE(drain_reclaimed(20, nullptr));
}

}  // namespace
}  // namespace gpucoll::core
