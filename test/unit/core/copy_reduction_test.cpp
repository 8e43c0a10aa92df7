// Large reductions on streams that share one queue, as streams of a GPU may: what waits holds up all that was put
// behind it, on whatever stream. Nobody may wait for what stands behind himself.
#include "core/copy_engine/copy_reduction.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "../../patience.h"
#include "../forwarding_device.h"
#include "wireup_ranks.h"

using namespace gpucoll;
using namespace gpucoll::core;
using namespace gpucoll_test;

namespace {

using namespace std::chrono_literals;

constexpr int kGroups = 5;
const gpu::Kernel kReduce = {"reduce", nullptr, nullptr};  // never launched

// All streams are one.
class OneQueue final : public ForwardingDevice {
 public:
  explicit OneQueue(gpu::Device& to) : ForwardingDevice(to), stream_(*to.create_stream()), to_(to) {}
  ~OneQueue() override { EXPECT_TRUE(to_.destroy_stream(stream_).ok()); }
  Result<Stream> create_stream() override { return stream_; }
  Result<Stream> create_waiting_stream() override { return stream_; }
  Status destroy_stream(Stream) override { return {}; }
  Status stream_wait(Stream, Stream) override { return {}; }

 private:
  const Stream stream_;
  gpu::Device& to_;
};

// Notes in which order copies are put, and what orders them behind the group's stream.
class Recorder final : public ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;
  Status stream_wait(Stream stream, Stream other) override {
    if (other == group_stream) ordered_ = true;
    return ForwardingDevice::stream_wait(stream, other);
  }
  Status copy_async(void* dst, const void* src, size_t bytes, Stream stream) override {
    if (!ordered_) ++n_unordered;
    return ForwardingDevice::copy_async(dst, src, bytes, stream);
  }
  Stream group_stream = nullptr;
  int n_unordered = 0;

 private:
  bool ordered_ = false;
};

CommProperties shape_of(int n) {
  CommProperties shape;
  shape.n_ranks = n;
  shape.threads = 1;
  shape.emulated = true;
  shape.copies.reductions = 1;
  shape.copies.piece = copy_piece_bytes(128);
  return shape;
}

// As the launcher does, but for the launches.
void put(CopyReduction& path, const TaskQueue& queue, const CommProperties& shape, gpu::Stream stream) {
  std::vector<PlannedLaunch> launches;
  auto some = path.begin(queue, shape, &launches);
  ASSERT_TRUE(some.ok() && *some);
  ASSERT_TRUE(path.put_ready(stream, 0).ok());
  for (uint32_t step = 0; step < launches.size(); ++step) {
    ASSERT_TRUE(path.put_waits(stream, step).ok());
    ASSERT_TRUE(path.put_ready(stream, step + 1).ok());
  }
  ASSERT_TRUE(path.put_end(stream).ok());
}

// A group without such a reduction is none of the path's business, and leaves what is under way as it is.
void expect_nothing_of_others(CopyReduction& path, CommProperties shape) {
  TaskQueue queue;
  CollectiveTask task{};
  task.function = Function::all_gather;
  task.count = task.element_bytes = 4;
  queue.add(task);
  std::vector<PlannedLaunch> launches(1);
  const auto some = path.begin(queue, shape, &launches);
  EXPECT_TRUE(some.ok() && !*some);
  EXPECT_EQ(launches.size(), 1u);
  EXPECT_EQ(path.groups(), uint64_t{kGroups});
}

bool ends(CopyReduction& path) {
  const auto end = std::chrono::steady_clock::now() + gpucoll_test::patience(20s);
  while (path.passed() < path.groups() && std::chrono::steady_clock::now() < end) std::this_thread::sleep_for(1ms);
  const bool ended = path.passed() >= path.groups();
  for (; path.passed() < path.groups(); std::this_thread::sleep_for(1ms)) path.give_up();
  return ended;
}

struct Call {
  Function function;
  uint32_t root;
};

// Each group has all of these calls.
void run_groups(MeetingRank& self, gpu::Device& device, gpu::Stream stream, const std::vector<Call>& calls,
                uint64_t count) {
  const auto n = static_cast<size_t>(self.peers.size());
  const CommProperties shape = shape_of(self.peers.size());
  PeerPages pages(device, self.peers);
  void* own = *device.allocate(landing_bytes(shape));
  std::vector<void*> landing(n);
  ASSERT_TRUE(self.bootstrap.allgather(&own, landing.data(), sizeof own).ok());
  std::vector<uint8_t> in(n * count * 4), out(count * 4);
  TaskQueue queue;
  for (const Call& call : calls) {
    CollectiveTask task{};
    task.function = call.function;
    task.root = call.root;
    task.kernels.plan = task.kernels.local = &kReduce;
    task.send = in.data();
    task.recv = out.data();
    task.count = count;
    task.element_bytes = 4;
    task.stream = stream;
    queue.add(task);
  }
  {
    CopyReduction path({device, self.fault, self.peers, pages}, landing);
    for (int group = 0; group < kGroups; ++group) put(path, queue, shape, stream);
    expect_nothing_of_others(path, shape);
    EXPECT_TRUE(ends(path)) << "rank " << self.rank << " waits for what stands behind";
    char mine = 0;
    std::vector<char> all(n);
    self.bootstrap.allgather(&mine, all.data(), 1).ignore();  // nobody's landing memory goes before
  }
  device.release(own);
}

}  // namespace

TEST(CopyReduction, GetsOnWhereAllStreamsShareAQueue) {
  for (int n : {2, 3, 4, 9})
    for (Function function : {Function::all_reduce, Function::reduce, Function::reduce_scatter})
      for (uint64_t count : {1, 100, 3000}) {
        if (n > 2 && function == Function::reduce) continue;  // it goes by kernels
        SCOPED_TRACE(testing::Message() << n << " ranks, function " << static_cast<int>(function) << " of " << count);
        on_meeting_ranks(n, [&](MeetingRank& self) {
          OneQueue device(self.device);
          run_groups(self, device, *device.create_stream(), {{function, 0}}, count);
        });
        if (HasFailure()) return;
      }
}

// A rank that receives nothing of one call tells what it has used before it waits for the next one.
TEST(CopyReduction, GetsOnWithSeveralCallsOfAGroup) {
  for (int n : {2, 3, 4, 9})
    on_meeting_ranks(n, [&](MeetingRank& self) {
      OneQueue device(self.device);
      std::vector<Call> calls = {{Function::all_reduce, 0}, {Function::reduce_scatter, 0}, {Function::all_reduce, 0}};
      if (n == 2)
        calls.insert(calls.begin() + 1, {{Function::reduce, 0}, {Function::reduce, 1}, {Function::reduce, 0}});
      run_groups(self, device, *device.create_stream(), calls, 3000);
    });
}

// Also of a rank that has nothing to send at first.
TEST(CopyReduction, CopiesNothingBeforeTheGroupsStreamHasComeToIt) {
  for (int n : {2, 3})
    on_meeting_ranks(n, [&](MeetingRank& self) {
      Recorder device(self.device);
      device.group_stream = *self.device.create_stream();
      const Function function = n == 2 ? Function::reduce : Function::reduce_scatter;
      run_groups(self, device, device.group_stream, {{function, 0}, {function, 1}}, 3000);
      EXPECT_EQ(device.n_unordered, 0) << "rank " << self.rank;
      EXPECT_TRUE(self.device.destroy_stream(device.group_stream).ok());
    });
}
