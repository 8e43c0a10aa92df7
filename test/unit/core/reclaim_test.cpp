// When communicators that are finished go: not beside what is under way, on which the driver would wait.
#include "core/comm/reclaim.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <thread>

#include "../forwarding_device.h"
#include "../in_flight.h"
#include "base/mutant.h"
#include "idle_communicators.h"

namespace gpucoll::core {
namespace {

using gpucoll_test::communicator_on;
using gpucoll_test::emulated;
using gpucoll_test::one_task;

std::unique_ptr<Communicator> finished_communicator() {
  auto communicator = communicator_on(emulated());
  EXPECT_TRUE(communicator->finish(nullptr).ok());
  return communicator;
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

// A program may make no communicator any more, nor give one back.
TEST(Reclaim, TheProxyDestroysThemLater) {
  FakeInFlight work;
  work.busy = true;
  reclaim(finished_communicator(), 0);
  EXPECT_TRUE(Quiescence::instance().has_leftovers());
  work.busy = false;
  for (int i = 0; i < 5000 && Quiescence::instance().has_leftovers(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_FALSE(Quiescence::instance().has_leftovers());
}

TEST(Reclaim, GoAtTheEndOfMpiWhateverFlies) {
  FakeInFlight work;
  work.busy = true;
  reclaim(finished_communicator(), 0);
  EXPECT_TRUE(drain_reclaimed(20, nullptr));
}

// Its host memory goes when the test lets it.
class SlowToRelease : public gpucoll_test::ForwardingDevice {
 public:
  SlowToRelease() : ForwardingDevice(emulated()) {}
  void release_host(const gpu::HostBlock& block) noexcept override {
    inside = true;
    while (!goes_on) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    ForwardingDevice::release_host(block);
  }
  std::atomic<bool> inside{false}, goes_on{false};
};

// Gives a communicator back, and returns when the proxy is destroying it, which lasts until the device is told to go
// on.
void leave_to_the_proxy(SlowToRelease& device, FakeInFlight& work) {
  work.busy = true;
  auto communicator = communicator_on(device);
  EXPECT_TRUE(communicator->finish(nullptr).ok());
  reclaim(std::move(communicator), 0);
  work.busy = false;
  while (!device.inside) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

// drain_reclaimed() must not take for gone what the proxy is destroying.
TEST(Reclaim, CountWhatIsBeingDestroyed) {
  static SlowToRelease device;  // outlives what a failed test leaves to the proxy
  FakeInFlight work;
  leave_to_the_proxy(device, work);
  EXPECT_FALSE(drain_reclaimed(0, nullptr));
  device.goes_on = true;
  EXPECT_TRUE(drain_reclaimed(10000, nullptr));
}

// Many communicators given back beside one that takes long to destroy wait for that one once, about a second.
TEST(Reclaim, WaitOnceForAllForWhatOthersDestroy) {
  static SlowToRelease device;
  FakeInFlight work;
  leave_to_the_proxy(device, work);
  work.busy = true;
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 8; ++i) reclaim(finished_communicator(), 0);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(6));
  work.busy = false;
  device.goes_on = true;
  EXPECT_TRUE(drain_reclaimed(10000, nullptr));
}

// The program's own work in front of its launch may never end. MPI_Finalize has waited for it long enough then.
TEST(Reclaim, TheEndOfMpiDoesNotWaitForLaunchesThatNeverBegin) {
  gpucoll_test::HeldStream stream;
  auto communicator = communicator_on(emulated());
  ASSERT_TRUE(communicator->run(one_task(stream.get())));
  communicator->give_up(Status::error(Code::aborted, "enough"));
  communicator->finish(nullptr).ignore();
  reclaim(std::move(communicator), 0);
  EXPECT_FALSE(drain_reclaimed(0, nullptr));
  EXPECT_TRUE(drain_reclaimed(2000, nullptr));
  stream.let_go();
  EXPECT_TRUE(drain_reclaimed(10000, nullptr));
  EXPECT_FALSE(Quiescence::instance().has_leftovers());
}

SlowToRelease* device_at_exit;
FakeInFlight* work_at_exit;

// Runs behind at_exit(), as the end of the device's runtime does.
void nothing_goes_any_more() {
  // Some looks of the watchdog, which wakes the proxy; the mutant is waited for.
  const auto patience = std::chrono::milliseconds(gc_mutant(430) ? 10'000 : 500);
  const auto deadline = std::chrono::steady_clock::now() + patience;
  work_at_exit->busy = false;
  while (!device_at_exit->inside && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  _exit(device_at_exit->inside ? 1 : 0);
}

void leave_with_one() {
  device_at_exit = new SlowToRelease;
  device_at_exit->goes_on = true;
  work_at_exit = new FakeInFlight;
  work_at_exit->busy = true;
  std::atexit(nothing_goes_any_more);
  auto communicator = communicator_on(*device_at_exit);
  communicator->finish(nullptr).ignore();
  reclaim(std::move(communicator), 0);
  std::exit(2);
}

TEST(Reclaim, TheProxyDestroysNothingAtExit) {
  ::testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_EXIT(leave_with_one(), ::testing::ExitedWithCode(0), "");
}

// Its launches wait until the test lets them go on.
class SlowDevice : public gpucoll_test::ForwardingDevice {
 public:
  SlowDevice() : ForwardingDevice(emulated()) {}
  Status launch(const gpu::Kernel& kernel, const proto::Plan& plan, int blocks, int threads, Stream stream) override {
    inside = true;
    while (!goes_on) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    Status status = ForwardingDevice::launch(kernel, plan, blocks, threads, stream);
    launched = true;
    return status;
  }
  std::atomic<bool> inside{false}, goes_on{false}, launched{false};
};

// Peers take what finish() tells them for the end of all that this rank launches.
TEST(Finish, WaitsForAThreadThatIsAboutToLaunch) {
  SlowDevice device;
  const auto communicator = communicator_on(device);
  std::thread launching([&] { communicator->run(one_task(*device.create_stream())).ignore(); });
  while (!device.inside) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  std::thread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(gc_mutant(425) ? 5000 : 100));
    device.goes_on = true;
  });
  communicator->give_up(Status::error(Code::aborted, "enough"));
  communicator->finish(nullptr).ignore();
  EXPECT_TRUE(device.launched);
  later.join();
  launching.join();
}

}  // namespace
}  // namespace gpucoll::core
