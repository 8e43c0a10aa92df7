// The engine of messages. This process sends messages to itself, as it would to another process of the node.
#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "abi/pt2pt.h"
#include "gpu/device.h"
#include "mpi/mpi_process.h"
#include "pt2pt/outboxes.h"

namespace gpucoll::pt2pt {
namespace {

const gc_pt2pt_abi& g_engine = *gpucoll_pt2pt_abi(GC_ABI_VERSION);
gc_process_blob g_blob;  // of this process

// Some bytes of device memory.
class Memory {
 public:
  explicit Memory(size_t bytes) : bytes_(bytes) {
    device_ = *gpu::emu_platform().open(0);
    data_ = *device_->user_allocate(bytes);
  }
  ~Memory() { free(); }
  void free() {
    if (!data_) return;
    EXPECT_TRUE(device_->user_release(data_));
    data_ = nullptr;
  }
  void write(const std::vector<uint8_t>& from) { ASSERT_TRUE(device_->copy(data_, from.data(), from.size())); }
  std::vector<uint8_t> read() const {
    std::vector<uint8_t> there(bytes_);
    EXPECT_TRUE(device_->copy(there.data(), data_, bytes_));
    return there;
  }
  gc_message_data as_message() const { return {data_, nullptr, bytes_, 1}; }

 private:
  gpu::Device* device_;
  size_t bytes_;
  void* data_;
};

std::vector<uint8_t> pattern(size_t bytes, int from) {
  std::vector<uint8_t> made(bytes);
  for (size_t i = 0; i < bytes; ++i) made[i] = static_cast<uint8_t>(i * 7 + i / 251 + static_cast<size_t>(from));
  return made;
}

class Messages : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    ASSERT_TRUE(coll::MpiProcess::instance().open(&g_blob));
    ASSERT_TRUE(g_engine.enabled());
    g_engine.uses_devices();
  }
  // Drives a transfer to its end. Returns what has become of it.
  static int finish(gc_transfer* transfer) {
    while (!g_engine.test(transfer)) {
      g_engine.launch();
      std::this_thread::yield();
    }
    return g_engine.end(transfer);
  }
  static proto::OutboxSlot& slot_of(const gc_envelope& envelope) {
    return Outboxes::instance().own()->slot[envelope.bytes[offsetof(proto::Envelope, slot)]];
  }
  // Sends bytes to this process, and compares what comes.
  static void send_and_compare(const gc_message_key& key, size_t bytes, bool to_host, gc_send_mode mode) {
    const std::vector<uint8_t> sent = pattern(bytes, key.tag);
    std::vector<uint8_t> on_host(bytes);
    Memory from(bytes), to(bytes);
    from.write(sent);
    gc_envelope envelope;
    gc_transfer *offer, *take;
    const gc_message_data data = from.as_message();
    ASSERT_EQ(g_engine.offer(&g_blob, &key, &data, mode, &envelope, &offer), 0);
    ASSERT_EQ(g_engine.is_envelope(&g_blob, &key, &envelope, std::min(bytes, sizeof envelope)), 1);
    const gc_message_data target = to_host ? gc_message_data{on_host.data(), nullptr, bytes, 0} : to.as_message();
    size_t told;
    ASSERT_EQ(g_engine.take(&g_blob, &envelope, &target, &told, &take), 0);
    ASSERT_EQ(told, bytes);
    while (!g_engine.test(take)) {  // the sender may have to help
      g_engine.launch();
      (void)g_engine.test(offer);
      std::this_thread::yield();
    }
    ASSERT_EQ(g_engine.end(take), 0);
    ASSERT_EQ(finish(offer), 0);
    ASSERT_EQ(to_host ? on_host : to.read(), sent) << bytes << " bytes";
  }
};

TEST_F(Messages, AreThereWhole) {
  int tag = 0;
  for (const size_t bytes : {8, 112, 113, 114, 4095, 4096, 4097, 100'000, 131'071, 131'072, 700'001, 5 << 20})
    for (const bool to_host : {false, true})
      for (const gc_send_mode mode : {GC_SEND_STANDARD, GC_SEND_SYNCHRONOUS}) {
        if (mode == GC_SEND_SYNCHRONOUS && bytes < GC_ENVELOPE_BYTES) continue;  // the PML carries them
        send_and_compare({1, ++tag}, bytes, to_host, mode);
      }
}

// More than there are slots for.
TEST_F(Messages, OfPageableMemoryShareTheSlots) {
  constexpr int kMessages = 5;
  constexpr size_t kBytes = 1'300'001;
  std::vector<std::unique_ptr<Memory>> from;
  std::vector<std::vector<uint8_t>> to(kMessages, std::vector<uint8_t>(kBytes));
  gc_transfer *offers[kMessages], *takes[kMessages];
  bool ended[kMessages] = {};
  for (int i = 0; i < kMessages; ++i) {
    const gc_message_key key = {5, i};
    from.push_back(std::make_unique<Memory>(kBytes));
    from.back()->write(pattern(kBytes, i));
    gc_envelope envelope;
    const gc_message_data data = from.back()->as_message(),
                          target = {to[static_cast<size_t>(i)].data(), nullptr, kBytes, 0};
    ASSERT_EQ(g_engine.offer(&g_blob, &key, &data, GC_SEND_STANDARD, &envelope, &offers[i]), 0);
    size_t told;
    ASSERT_EQ(g_engine.take(&g_blob, &envelope, &target, &told, &takes[i]), 0);
  }
  for (int left = kMessages; left > 0; std::this_thread::yield())
    for (int i = 0; i < kMessages; ++i) {
      if (ended[i] || !g_engine.test(takes[i])) continue;
      ended[i] = true;
      --left;
    }
  for (int i = 0; i < kMessages; ++i) {
    EXPECT_EQ(g_engine.end(takes[i]), 0);
    EXPECT_EQ(finish(offers[i]), 0);
    EXPECT_EQ(to[static_cast<size_t>(i)], pattern(kBytes, i));
  }
}

// As where a sender frees the memory of a message that its receiver has asked for.
TEST_F(Messages, FailAtTheirReceiverWhereTheirSenderFails) {
  constexpr size_t kBytes = 100'000;
  const gc_message_key key = {2, 3};
  Memory from(kBytes), to(kBytes);
  gc_envelope envelope;
  gc_transfer *offer, *take;
  const gc_message_data data = from.as_message(), target = to.as_message();
  ASSERT_EQ(g_engine.offer(&g_blob, &key, &data, GC_SEND_STANDARD, &envelope, &offer), 0);
  slot_of(envelope).has_place = 0;  // so the receiver asks for the data
  size_t told;
  ASSERT_EQ(g_engine.take(&g_blob, &envelope, &target, &told, &take), 0);
  ASSERT_FALSE(g_engine.test(take));
  from.free();
  ASSERT_NE(finish(offer), 0);
  ASSERT_TRUE(g_engine.test(take));  // at once
  EXPECT_NE(g_engine.end(take), 0);
  EXPECT_EQ(state_of(slot_of(envelope)), proto::Offer::failed);
  for (uint32_t i = 0; i < 2 * proto::kOutboxSlots; ++i)  // the slot is used again
    send_and_compare({2, 4}, 200, false, GC_SEND_STANDARD);
}

// Its list of runs may be another one's by then.
TEST_F(Messages, FailAtTheirReceiverWhereTheirSenderFailsBesideItsList) {
  constexpr size_t kRuns = 64, kBytes = kRuns * 96;
  std::vector<gc_runs> runs;
  for (size_t i = 0; i < kRuns; ++i) runs.push_back({static_cast<ptrdiff_t>(i * 256 + i % 3 * 32), 96, 1, 0});
  const gc_type_map map = {77, kBytes, kRuns * 256, 0, kRuns * 256, runs.data(), runs.size()};
  const gc_message_key key = {2, 5};
  Memory from(kRuns * 256), to(kBytes);
  gc_envelope envelope;
  gc_transfer *offer, *take;
  gc_message_data data = from.as_message();
  const gc_message_data target = to.as_message();
  data.map = &map;
  data.bytes = kBytes;
  ASSERT_EQ(g_engine.offer(&g_blob, &key, &data, GC_SEND_STANDARD, &envelope, &offer), 0);
  ASSERT_NE(slot_of(envelope).list.serial, 0u);
  size_t told;
  ASSERT_EQ(g_engine.take(&g_blob, &envelope, &target, &told, &take), 0);  // it brings the list
  slot_of(envelope).is_broken = 1;
  EXPECT_NE(finish(take), 0);
  EXPECT_NE(finish(offer), 0);
}

// Messages of one key that their receives have no room for. Another thread without a name has ended the first one,
// whose slot the sender has used again: then the thread that has the old name ends the oldest one, and not the newest.
TEST_F(Messages, ThatAreCutOffKeepSlotsOfNewerOnes) {
  const gc_message_key key = {5, 0};
  Memory from(500);
  const gc_message_data data = from.as_message();
  gc_envelope first, second, newest, no_name = {};
  gc_transfer *of_first, *of_second, *of_newest;
  ASSERT_EQ(g_engine.offer(&g_blob, &key, &data, GC_SEND_SYNCHRONOUS, &first, &of_first), 0);
  ASSERT_EQ(g_engine.offer(&g_blob, &key, &data, GC_SEND_SYNCHRONOUS, &second, &of_second), 0);
  const auto cut_off = [&](const gc_envelope& name, size_t n) {
    g_engine.cut_off(&g_blob, &key, &name, n, GC_ENVELOPE_BYTES, 0);
  };
  cut_off(no_name, 0);
  ASSERT_EQ(finish(of_first), 0);
  for (;;) {
    ASSERT_EQ(g_engine.offer(&g_blob, &key, &data, GC_SEND_SYNCHRONOUS, &newest, &of_newest), 0);
    if (&slot_of(newest) == &slot_of(first)) break;
    cut_off(newest, sizeof newest);
    ASSERT_EQ(finish(of_newest), 0);
  }
  cut_off(first, offsetof(proto::Envelope, rest));
  EXPECT_EQ(state_of(slot_of(second)), proto::Offer::done);
  EXPECT_EQ(state_of(slot_of(newest)), proto::Offer::offered);
  cut_off(second, sizeof second);
  cut_off(newest, sizeof newest);
  EXPECT_EQ(finish(of_second), 0);
  EXPECT_EQ(finish(of_newest), 0);
}

// So a probe need not look for its slot for long.
TEST_F(Messages, OfTheEnvelopesSizeThatHaveNoSlotAreKnown) {
  const gc_message_key key = {4, 0};
  for (uint32_t i = 0; i < proto::kOutboxPlainSlots; ++i) g_engine.note(&g_blob, &key);
  const auto probe = [&](int again) { return g_engine.probed(&g_blob, &key, 0, again); };
  const auto come = [&] {
    for (uint32_t i = 0; i < proto::kOutboxPlainSlots; ++i) {
      EXPECT_EQ(probe(0), size_t{GC_ENVELOPE_BYTES});
      g_engine.noted_came(&g_blob, &key, 0);
    }
  };
  come();
  EXPECT_EQ(probe(0), 0u);
  EXPECT_EQ(probe(1), 0u);
  for (uint32_t i = 0; i <= proto::kOutboxPlainSlots; ++i) g_engine.note(&g_blob, &key);
  come();
  EXPECT_EQ(probe(0), 0u);  // another thread may have received it
  EXPECT_EQ(probe(1), size_t{GC_ENVELOPE_BYTES});
}

// A process that cannot look into the sender's outbox knows an envelope by the secret in the sender's blob, and takes
// the data of a program for none.
TEST_F(Messages, OfAnOutboxOutOfReachAreKnownByTheSecret) {
  const gc_message_key key = {3, 0};
  Memory from(500);
  gc_envelope envelope;
  gc_transfer* offer;
  const gc_message_data data = from.as_message();
  ASSERT_EQ(g_engine.offer(&g_blob, &key, &data, GC_SEND_STANDARD, &envelope, &offer), 0);

  coll::ProcessInfo info;
  std::memcpy(&info, g_blob.bytes, sizeof info);
  info.outbox.inode += 1;  // another file than the one with its name
  gc_process_blob elsewhere = g_blob;
  std::memcpy(elsewhere.bytes, &info, sizeof info);
  EXPECT_EQ(g_engine.is_envelope(&elsewhere, &key, &envelope, sizeof envelope), -1);
  EXPECT_EQ(g_engine.is_envelope(nullptr, &key, &envelope, sizeof envelope), 0);
  gc_envelope wrong = envelope;
  wrong.bytes[offsetof(proto::Envelope, secret) + proto::kSecretBytes - 1] ^= 1;
  EXPECT_EQ(g_engine.is_envelope(&elsewhere, &key, &wrong, sizeof wrong), 0);
  EXPECT_EQ(g_engine.is_envelope(&g_blob, &key, &wrong, sizeof wrong), 0);
  wrong = envelope;
  wrong.bytes[offsetof(proto::Envelope, nonce) + sizeof(uint64_t) * 2 - 1] ^= 1;
  EXPECT_EQ(g_engine.is_envelope(&g_blob, &key, &wrong, sizeof wrong), 0);

  std::vector<uint8_t> to(500);
  const gc_message_data target = {to.data(), nullptr, to.size(), 0};
  gc_transfer* take;
  size_t told;
  ASSERT_EQ(g_engine.take(&g_blob, &envelope, &target, &told, &take), 0);
  while (!g_engine.test(take)) {
    g_engine.launch();
    (void)g_engine.test(offer);
  }
  EXPECT_EQ(g_engine.end(take), 0);
  EXPECT_EQ(finish(offer), 0);
}

// Envelopes from one thread to another, in order: the part of the PML.
class Line {
 public:
  void put(const gc_envelope& envelope) {
    std::lock_guard lock(mutex_);
    envelopes_.push_back(envelope);
  }
  gc_envelope get() {
    for (;; std::this_thread::yield()) {
      std::lock_guard lock(mutex_);
      if (envelopes_.empty()) continue;
      const gc_envelope first = envelopes_.front();
      envelopes_.pop_front();
      return first;
    }
  }

 private:
  std::mutex mutex_;
  std::deque<gc_envelope> envelopes_;
};

constexpr size_t kMostBytes = 20'000;
constexpr int kMessagesOfAThread = 200;

// Returns the sizes of a pair's messages; which mode each has follows from it.
std::vector<size_t> sizes_of(uint64_t pair) {
  std::mt19937_64 random(pair);
  std::vector<size_t> sizes(kMessagesOfAThread);
  for (size_t& bytes : sizes) bytes = GC_ENVELOPE_BYTES + random() % (random() % 2 ? 5000 : kMostBytes - 5000);
  return sizes;
}

// Threads that send and threads that receive; all drive the queue of the one device.
TEST_F(Messages, OfManyThreadsAreThereWhole) {
  constexpr uint64_t kPairs = 3;
  Line lines[kPairs];
  std::vector<std::thread> threads;
  for (uint64_t pair = 0; pair < kPairs; ++pair) {
    threads.emplace_back([&, pair] {
      const gc_message_key key = {100 + pair, 0};
      for (const size_t bytes : sizes_of(pair)) {
        Memory from(bytes);
        from.write(pattern(bytes, static_cast<int>(bytes)));
        gc_envelope envelope;
        gc_transfer* offer;
        const gc_message_data data = from.as_message();
        const gc_send_mode mode = bytes % 2 ? GC_SEND_STANDARD : GC_SEND_SYNCHRONOUS;
        while (g_engine.offer(&g_blob, &key, &data, mode, &envelope, &offer) != 0) std::this_thread::yield();
        lines[pair].put(envelope);
        ASSERT_EQ(finish(offer), 0);
      }
    });
    threads.emplace_back([&, pair] {
      const gc_message_key key = {100 + pair, 0};
      for (const size_t bytes : sizes_of(pair)) {
        const gc_envelope envelope = lines[pair].get();
        ASSERT_EQ(g_engine.is_envelope(&g_blob, &key, &envelope, sizeof envelope), 1);
        Memory to(bytes);
        const gc_message_data target = to.as_message();
        size_t told;
        gc_transfer* take;
        ASSERT_EQ(g_engine.take(&g_blob, &envelope, &target, &told, &take), 0);
        ASSERT_EQ(finish(take), 0);
        ASSERT_EQ(to.read(), pattern(bytes, static_cast<int>(bytes)));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace gpucoll::pt2pt
