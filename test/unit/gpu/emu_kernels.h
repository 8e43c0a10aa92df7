// Kernels for tests of the emulated device: what they are told lies behind the plan's pointer.
#pragma once
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "gpu/device.h"
#include "gpu/emu/pool.h"
#include "gpu/emu/thread_block.h"

namespace gpucoll::gpu {

// What the kernels below are told, through the plan's pointer.
struct Orders {
  std::vector<int> log;                         // written by thread 0 of block 0: the queue must keep launches apart
  std::array<std::atomic<int>, 512> entered{};  // threads of the launch with this value that have begun
  std::atomic<int> gate{0}, other_gate{0};
  std::atomic<int> wrong{0};
};

inline proto::Plan plan_for(Orders& orders, uint64_t value = 0) {
  proto::Plan plan{};
  plan.done_word = reinterpret_cast<uint64_t*>(&orders);
  plan.channel_mask = value;
  return plan;
}
inline Orders& orders_of(const proto::Plan& plan) { return *reinterpret_cast<Orders*>(plan.done_word); }

// Appends the plan's value; checks that the launch is alone and all of its threads are there.
inline void log_value(const EmuBlock& block, const proto::Plan& plan) {
  Orders& orders = orders_of(plan);
  const emu::ThreadBlock coop(block);
  const int all = block.n_blocks * block.n_threads;
  if (coop.size() != block.n_threads || coop.rank() != block.thread) ++orders.wrong;
  std::atomic<int>& entered = orders.entered[plan.channel_mask];
  entered.fetch_add(1);
  if (coop.any(block.thread == block.n_threads - 1) != true) ++orders.wrong;
  while (entered.load() < all) proto::pause();  // all threads of a launch run at once
  coop.sync();
  if (block.block == 0 && block.thread == 0) orders.log.push_back(static_cast<int>(plan.channel_mask));
  coop.sync();
}

inline void open_gate(const EmuBlock&, const proto::Plan& plan) { orders_of(plan).gate.store(1); }
inline void wait_for_gate(const EmuBlock&, const proto::Plan& plan) {
  const emu::Pool::Waiting waiting;
  while (orders_of(plan).gate.load() == 0) proto::pause();
}
// Two kernels that each wait for the other.
inline void meet_first(const EmuBlock&, const proto::Plan& plan) {
  orders_of(plan).other_gate.store(1);
  while (orders_of(plan).gate.load() == 0) proto::pause();
}
inline void meet_second(const EmuBlock&, const proto::Plan& plan) {
  while (orders_of(plan).other_gate.load() == 0) proto::pause();
  orders_of(plan).gate.store(1);
}

inline Kernel kernel(const char* name, void (*function)(const EmuBlock&, const proto::Plan&)) {
  return {name, nullptr, function};
}
inline const Kernel kLog = kernel("log", log_value), kOpen = kernel("open", open_gate),
                    kWait = kernel("wait", wait_for_gate), kFirst = kernel("first", meet_first),
                    kSecond = kernel("second", meet_second);

// With these kernels prepared.
inline Device& device(int index = 0) {
  Device& device = **emu_platform().open(index);
  for (const Kernel* known : {&kLog, &kOpen, &kWait, &kFirst, &kSecond}) EXPECT_TRUE(device.prepare(*known));
  return device;
}

// Waits until all that is on streams has ended, or waits for something: then what has not begun cannot begin.
inline void await_rest() {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!emu::Pool::instance().rests()) {
    if (std::chrono::steady_clock::now() > end) return (void)(ADD_FAILURE() << "the device does not come to rest");
    std::this_thread::yield();
  }
}

inline Stream new_stream(int index = 0) {
  auto stream = device(index).create_stream();
  EXPECT_TRUE(stream);
  return *stream;
}

}  // namespace gpucoll::gpu
