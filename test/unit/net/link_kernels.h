// Plays the kernels at both ends of a link, for tests of the transports between nodes.
#pragma once
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "net/transport.h"

namespace gpucoll_test {

using namespace gpucoll;
using namespace gpucoll::net;
using proto::kSteps;
using proto::ReceiveBlock;

template <class T>
T* at(void* block, size_t offset) {
  return reinterpret_cast<T*>(static_cast<uint8_t*>(block) + offset);
}

class HostMemoryPort : public MemoryPort {
 public:
  Result<void*> allocate(size_t, LinkBlob*) override { return Status::error(Code::unsupported, "not here"); }
  void release(void*) noexcept override {}
  Result<void*> open(const LinkBlob&) override { return Status::error(Code::unsupported, "not here"); }
  void close(void*) noexcept override {}
  Result<void*> map_host(void* host, size_t) override { return host; }
  void unmap_host(void*, void*, size_t) noexcept override {}
};

// The bytes of a lane's data, at a place that counts them all.
inline uint8_t byte_of(int lane, uint64_t place) { return static_cast<uint8_t>(place * 7 + place / 251 + 31 * lane); }

struct Slice {
  int steps;
  size_t bytes;
};
// Returns equal slices on both sides: of 1, 2 or 4 steps, of any size from none to all of their slots.
inline std::vector<Slice> slices_of(int lane, int n, size_t slot_bytes) {
  std::mt19937 random(static_cast<unsigned>(lane) + 1);
  std::vector<Slice> slices;
  for (int i = 0; i < n; ++i) {
    const int steps = 1 << random() % 3;
    const size_t most = static_cast<size_t>(steps) * slot_bytes;
    const size_t bytes[] = {0, 1, most, random() % (most + 1)};
    slices.push_back({steps, bytes[random() % 4]});
  }
  return slices;
}

inline const std::atomic<bool> kNeverBroken{false};

// Does what a kernel of the sending side does, by the rules of format/connection.h.
// Ends early once the link is broken.
inline void send_slices(const proto::Connector& connector, int lane, const std::vector<Slice>& slices,
                        size_t slot_bytes, const std::atomic<bool>& broken = kNeverBroken) {
  uint64_t step = 0, place = 0;
  for (const Slice& slice : slices) {
    const uint32_t record = proto::slice_record(slice.bytes, slice.steps);
    const uint64_t begin = proto::slice_begin(step, record), end = begin + static_cast<uint64_t>(slice.steps);
    while (end - __atomic_load_n(at<uint64_t>(connector.send, proto::SendBlock::kHeadOffset), __ATOMIC_ACQUIRE) >
           kSteps) {
      if (broken) return;
      std::this_thread::yield();
    }
    uint8_t* const slot = connector.receive + ReceiveBlock::kSlotsOffset + begin % kSteps * slot_bytes;
    for (size_t i = 0; i < slice.bytes; ++i) slot[i] = byte_of(lane, place + i);
    proto::Note* const note = at<proto::Note>(connector.receive, ReceiveBlock::kNotesOffset) + step % kSteps;
    __atomic_store_n(&note->low, place, __ATOMIC_RELAXED);
    __atomic_store_n(&note->high, step, __ATOMIC_RELAXED);
    __atomic_store_n(at<uint32_t>(connector.receive, ReceiveBlock::kSizesOffset) + step % kSteps, record,
                     __ATOMIC_RELAXED);
    __atomic_store_n(at<uint64_t>(connector.receive, ReceiveBlock::kTailOffset), end, __ATOMIC_RELEASE);
    step = end;
    place += slice.bytes;
  }
}

// Does what one of the receiving side does. Returns how many bytes were wrong.
inline uint64_t receive_slices(const proto::Connector& connector, int lane, const std::vector<Slice>& slices,
                               size_t slot_bytes, const std::atomic<bool>& broken = kNeverBroken) {
  uint64_t step = 0, place = 0, wrong = 0;
  for (const Slice& slice : slices) {
    const uint32_t record = proto::slice_record(slice.bytes, slice.steps);
    const uint64_t begin = proto::slice_begin(step, record), end = begin + static_cast<uint64_t>(slice.steps);
    while (__atomic_load_n(at<uint64_t>(connector.receive, ReceiveBlock::kTailOffset), __ATOMIC_ACQUIRE) < end) {
      if (broken) return wrong + 1;
      std::this_thread::yield();
    }
    const uint8_t* const slot = connector.receive + ReceiveBlock::kSlotsOffset + begin % kSteps * slot_bytes;
    for (size_t i = 0; i < slice.bytes; ++i) wrong += slot[i] != byte_of(lane, place + i);
    const proto::Note* const note = at<proto::Note>(connector.receive, ReceiveBlock::kNotesOffset) + step % kSteps;
    wrong += __atomic_load_n(&note->low, __ATOMIC_RELAXED) != place;
    wrong += __atomic_load_n(&note->high, __ATOMIC_RELAXED) != step;
    __atomic_store_n(at<uint64_t>(connector.send, proto::SendBlock::kHeadOffset), end, __ATOMIC_RELEASE);
    step = end;
    place += slice.bytes;
  }
  return wrong;
}

struct Pair {
  std::unique_ptr<LinkEnd> sender, receiver;
};

// Waits until both ends are there, or one says why not.
inline void establish(Pair& pair) {
  for (bool there = false; !there; std::this_thread::yield()) {
    auto one = pair.sender->established(), other = pair.receiver->established();
    EXPECT_TRUE(one && other);
    there = !one || !other || (*one && *other);
  }
}

inline void connect_ends(Pair& pair) {
  EXPECT_TRUE(pair.sender->connect(pair.receiver->blob()) && pair.receiver->connect(pair.sender->blob()));
  establish(pair);
  if (!pair.sender->needs_trial()) return;
  EXPECT_TRUE(pair.sender->begin_trial() && pair.receiver->begin_trial());
  establish(pair);
}

inline Pair make_pair(Transport& transport, const LinkShape& shape, MemoryPort& sending, MemoryPort& receiving) {
  auto sender = transport.make_end(Side::send, shape, sending);
  auto receiver = transport.make_end(Side::receive, shape, receiving);
  EXPECT_TRUE(sender && receiver);
  return {*std::move(sender), *std::move(receiver)};
}

inline Pair connect_pair(Transport& transport, const LinkShape& shape, MemoryPort& memory) {
  Pair pair = gpucoll_test::make_pair(transport, shape, memory, memory);
  connect_ends(pair);
  return pair;
}

inline void await(const std::function<bool()>& condition) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!condition() && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  EXPECT_TRUE(condition());
}

// Carries slices of any size on all lanes of a new link at once, and compares what comes. Returns what broke it.
inline Status carry_over(Pair& pair, const LinkShape& shape, int n_slices) {
  const auto late = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  Status why[2];
  std::atomic<bool> over{false}, broken{false};
  std::atomic<uint64_t> wrong{0};
  std::vector<std::thread> threads;
  for (const bool sends : {false, true})
    threads.emplace_back([&, sends] {
      LinkEnd& end = sends ? *pair.sender : *pair.receiver;
      while (!over && !broken) {
        auto moved = end.progress();
        if (!moved) why[sends] = moved.status();
        if (!moved || std::chrono::steady_clock::now() > late) broken = true;
        if (!moved || *moved != StepProgress::moved) std::this_thread::yield();
      }
    });
  std::vector<std::thread> kernels;
  for (int lane = 0; lane < shape.lanes; ++lane) {
    const std::vector<Slice> slices = slices_of(lane, n_slices, shape.slots.simple);
    kernels.emplace_back(
        [&, lane, slices] { send_slices(pair.sender->connector(lane), lane, slices, shape.slots.simple, broken); });
    kernels.emplace_back([&, lane, slices] {
      wrong += receive_slices(pair.receiver->connector(lane), lane, slices, shape.slots.simple, broken);
    });
  }
  for (std::thread& kernel : kernels) kernel.join();
  over = true;
  for (std::thread& thread : threads) thread.join();
  if (!why[0] || !why[1]) return why[0] ? why[1] : why[0];
  EXPECT_FALSE(broken) << "nothing moved";
  EXPECT_EQ(wrong, 0u);
  return {};
}

inline void carry_slices(Transport& transport, int lanes, int n_slices) {
  HostMemoryPort memory;
  const LinkShape shape = {lanes, proto::connection_shape(4096)};
  Pair pair = connect_pair(transport, shape, memory);
  const Status carried = carry_over(pair, shape, n_slices);
  EXPECT_TRUE(carried) << carried.what();
}

}  // namespace gpucoll_test
