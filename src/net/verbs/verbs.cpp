// The verbs transport: each end has all lanes' blocks in host memory of its own, mapped for its kernels and registered
// with the RDMA device. The sending end writes what its kernels have put into slots into the same slots of the
// receiving end, which sees it complete and stores the tail; heads go back as immediate data (format/step_immediate.h).
//
// No queue overflows. Kernels fill at most kSteps steps of a lane beyond the head that the sending end has stored, and
// it stores one only once the receiving end has told it and its own writes up to there are complete. So at most kSteps
// slices of a lane, and kSteps heads, are under way, and both queues have room for these.
#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

#include "base/mutant.h"
#include "net/host_blocks.h"
#include "net/step_lanes.h"
#include "net/transport.h"
#include "net/verbs/device.h"
#include "net/verbs/queue_pair.h"
#include "proto/format/step_immediate.h"

namespace gpucoll::net {
namespace {

using proto::kDataStepBits;
using proto::kHeadStepBits;
using proto::kSteps;
using proto::Note;
using proto::StepFrame;

struct VerbsBlob {
  QueuePairAddress pair;
  uint64_t address;  // of the blocks and notes
  uint64_t bytes;
  uint32_t key;
};
static_assert(sizeof(VerbsBlob) <= sizeof(LinkBlob));

// In the id of what a sending end has sent: its lane, and the step behind the slice.
constexpr int kIdStepBits = 56;
uint64_t slice_id(int lane, uint64_t end) { return static_cast<uint64_t>(lane) << kIdStepBits | end; }
constexpr uint64_t kTrialId = ~uint64_t{0};

class VerbsEnd : public LinkEnd {
 public:
  VerbsEnd(const LinkShape& shape, MemoryPort& memory)
      : shape_(shape), blocks_(shape, memory, static_cast<size_t>(shape.lanes) * kSteps * sizeof(Note)) {}

  const LinkBlob& blob() const override { return blob_; }
  proto::Connector connector(int lane) const override { return blocks_.connector(lane); }
  bool needs_progress() const override { return true; }
  bool needs_trial() const override { return true; }

  Status connect(const LinkBlob& peer) override {
    VerbsBlob blob;
    std::memcpy(&blob, peer.bytes, sizeof blob);
    if (blob.bytes != blocks_.bytes())
      return Status::error(Code::remote, "the other side has %llu bytes for this connection instead of %zu",
                           static_cast<unsigned long long>(blob.bytes), blocks_.bytes());
    there_ = {blob.address, blob.key};
    peer_ = name_of(blob.pair);
    GC_TRY(device_->expect_answer(peer_));
    return pair_->connect(blob.pair);
  }
  Status begin_trial() override {
    trial_ = Trial{};
    ++outstanding_;
    return try_out();
  }
  Result<bool> established() override {
    if (!trial_) return true;
    if (Status polled = poll_all().status(); !polled) {
      device_->remember_silent(peer_);
      return polled;
    }
    return trial_->sent && trial_->received;
  }

 protected:
  // Makes the blocks, and a lane of either side's for each, and the queue pair.
  template <class Lane>
  Status allocate(std::vector<Lane>* lanes, bool peer_writes) {
    GC_TRY_AS(device_, VerbsDevice::instance());
    const uint64_t largest = uint64_t{kSteps} * shape_.slots.simple;  // slice
    if (largest > device_->attributes().max_msg_sz)
      return Status::error(Code::unsupported,
                           "%s sends at most %u bytes at once: set buffer_bytes and send_recv_buffer_bytes to no more",
                           device_->name().c_str(), device_->attributes().max_msg_sz);
    GC_TRY(blocks_.create("gpucoll-verbs").status());
    blocks_.close_name();
    for (int lane = 0; lane < shape_.lanes; ++lane)
      lanes->emplace_back(blocks_.receive_block(lane), blocks_.send_block(lane), shape_.slots);
    GC_TRY_AS(region_, MemoryRegion::create(*device_, blocks_.data(), blocks_.bytes(), peer_writes));
    // A slice and its note, or a head; and the trial.
    most_sends_ = 2 * shape_.lanes * kSteps + 1;
    GC_TRY_AS(pair_, QueuePair::create(*device_, most_sends_, shape_.lanes * kSteps + 1));
    VerbsBlob blob = {};
    blob.pair = pair_->address();
    blob.address = reinterpret_cast<uint64_t>(blocks_.data());
    blob.bytes = blocks_.bytes();
    blob.key = region_->remote_key();
    std::memcpy(blob_.bytes, &blob, sizeof blob);
    return {};
  }
  // Sends kTrialImmediate as kTrialId.
  virtual Status try_out() = 0;
  // Takes what has come, and what has been acknowledged.
  virtual Status on_received(const Completion& completion) = 0;
  virtual Status on_sent(uint64_t id) = 0;

  // Polls the completions that are there, for a while; returns whether there was any.
  Result<bool> poll_all() {
    constexpr int kMost = 64;  // then others have their turn
    Completion completion;
    for (int i = 0; i < kMost; ++i) {
      GC_TRY_AS(const bool any, pair_->poll(&completion));
      if (!any) return i > 0;
      GC_TRY(completion.received ? received(completion) : sent(completion.id));
    }
    return true;
  }
  StepProgress state(bool moved) const {
    if (moved) return StepProgress::moved;
    return outstanding_ > 0 ? StepProgress::pending : StepProgress::none;
  }
  Note* note(int lane, uint64_t step) const {
    return static_cast<Note*>(blocks_.extra()) + static_cast<size_t>(lane) * kSteps + step % kSteps;
  }
  QueuePair::Local local(const void* data, uint64_t bytes) const {
    return {data, static_cast<uint32_t>(bytes), region_->local_key()};
  }
  // Returns where the same bytes lie on the other side.
  QueuePair::Remote remote(const void* data) const {
    return {there_.address +
                static_cast<uint64_t>(static_cast<const uint8_t*>(data) - static_cast<const uint8_t*>(blocks_.data())),
            there_.key};
  }

  const LinkShape shape_;
  HostBlocks blocks_;

 private:
  struct Trial {
    bool sent = false, received = false;
  };
  Status sent(uint64_t id) {
    --outstanding_;
    if (id != kTrialId) return on_sent(id);
    trial_->sent = true;
    return {};
  }
  Status received(const Completion& completion) {
    if (!trial_ || trial_->received) return on_received(completion);
    if (completion.immediate != proto::kTrialImmediate)
      return Status::error(Code::remote, "it sends before the connection has been tried");
    trial_->received = true;
    return {};
  }

  static VerbsDevice::PeerName name_of(const QueuePairAddress& pair) {
    VerbsDevice::PeerName name;
    std::memcpy(name.data(), pair.gid, sizeof pair.gid);
    std::memcpy(name.data() + sizeof pair.gid, &pair.lid, sizeof pair.lid);
    return name;
  }

  VerbsDevice* device_ = nullptr;
  std::optional<MemoryRegion> region_;
  QueuePair::Remote there_ = {};
  VerbsDevice::PeerName peer_ = {};
  LinkBlob blob_ = {};
  std::optional<Trial> trial_;

 protected:
  std::unique_ptr<QueuePair> pair_;  // last: it goes before the memory that it may write to
  int outstanding_ = 0;              // completions that are still to come of what this side has sent
  int most_sends_ = 0;
};

class VerbsSender final : public VerbsEnd {
 public:
  using VerbsEnd::VerbsEnd;

  Status prepare() {
    passed_.resize(static_cast<size_t>(shape_.lanes));
    return allocate(&lanes_, false);
  }
  Result<StepProgress> progress() override {
    GC_TRY_AS(bool moved, poll_all());
    for (int lane = 0; lane < shape_.lanes; ++lane) {
      StepFrame frame;
      const uint8_t* data;
      for (;;) {
        GC_TRY_AS(const bool filled, lanes_[static_cast<size_t>(lane)].next(&frame, &data));
        if (!filled) break;
        GC_TRY(send(lane, frame, data));
        moved = true;
      }
    }
    return state(moved);
  }

 private:
  // How far a lane is, in steps.
  struct Passed {
    uint64_t posted = 0;
    uint64_t sent = 0;     // and acknowledged
    uint64_t head = 0;     // as the other side has told
    uint64_t drained = 0;  // both
  };

  Status send(int lane, const StepFrame& frame, const uint8_t* data) {
    Note* const kept = note(lane, frame.step);
    if (std::memcmp(kept, &frame.note, sizeof *kept)) {
      *kept = frame.note;
      GC_TRY(pair_->write(local(kept, sizeof *kept), remote(kept)));
    }
    ++outstanding_;
    const uint64_t end = proto::slice_begin(frame.step, frame.record) + proto::slice_steps(frame.record);
    passed_[static_cast<size_t>(lane)].posted = end;
    return pair_->write_with_immediate(local(data, proto::slice_bytes(frame.record)), remote(data),
                                       proto::data_immediate(lane, frame.step, frame.record), slice_id(lane, end));
  }
  // Writes a full packet, so that a switch that takes smaller ones only is found out now. It writes zeros over zeros:
  // no kernel has used the slots yet.
  Status try_out() override {
    const uint8_t* const slot = blocks_.receive_block(0) + proto::ReceiveBlock::kSlotsOffset;
    const uint64_t bytes = std::min<uint64_t>(pair_->packet_bytes(), kSteps * shape_.slots.simple);
    return pair_->write_with_immediate(local(slot, bytes), remote(slot), proto::kTrialImmediate, kTrialId);
  }
  Status on_sent(uint64_t id) override {
    const int lane = static_cast<int>(id >> kIdStepBits);
    passed_[static_cast<size_t>(lane)].sent = id & ((uint64_t{1} << kIdStepBits) - 1);
    return pass(lane);
  }
  Status on_received(const Completion& completion) override {
    const int lane = proto::lane_of(completion.immediate);
    if (lane >= shape_.lanes) return Status::error(Code::remote, "it drains a lane that is not there");
    Passed& passed = passed_[static_cast<size_t>(lane)];
    passed.head = proto::step_of(completion.immediate, kHeadStepBits, passed.head);
    if (passed.head > passed.posted)
      return Status::error(Code::remote, "it drains %llu steps of a connection that has %llu",
                           static_cast<unsigned long long>(passed.head),
                           static_cast<unsigned long long>(passed.posted));
    return pass(lane);
  }
  // A slot is free once the other side has drained it, and the device will not send it again.
  Status pass(int lane) {
    Passed& passed = passed_[static_cast<size_t>(lane)];
    const uint64_t drained = gc_mutant(190) ? passed.head : std::min(passed.head, passed.sent);
    if (drained == passed.drained) return {};
    passed.drained = drained;
    return lanes_[static_cast<size_t>(lane)].drained(drained);
  }

  std::vector<SendingLane> lanes_;
  std::vector<Passed> passed_;
};

class VerbsReceiver final : public VerbsEnd {
 public:
  using VerbsEnd::VerbsEnd;

  Status prepare() { return allocate(&lanes_, true); }
  Result<StepProgress> progress() override {
    GC_TRY_AS(bool moved, poll_all());
    uint64_t head;
    // The sender may use the steps that a head sets free before the head's own completion comes.
    for (int lane = 0; lane < shape_.lanes && outstanding_ < most_sends_; ++lane) {
      if (!lanes_[static_cast<size_t>(lane)].drained(&head)) continue;
      ++outstanding_;
      GC_TRY(pair_->send_immediate(proto::head_immediate(lane, head), 0));
      moved = true;
    }
    return state(moved);
  }

 private:
  Status on_sent(uint64_t) override { return {}; }
  Status try_out() override { return pair_->send_immediate(proto::kTrialImmediate, kTrialId); }
  Status on_received(const Completion& completion) override {
    const int lane = proto::lane_of(completion.immediate);
    if (lane >= shape_.lanes) return Status::error(Code::remote, "it sends to a lane that is not there");
    ReceivingLane& receiving = lanes_[static_cast<size_t>(lane)];
    StepFrame frame = {};
    frame.step = proto::step_of(completion.immediate, kDataStepBits, receiving.tail());
    frame.record = proto::record_of(completion.immediate, completion.bytes);
    frame.note = *note(lane, frame.step);
    GC_TRY(receiving.place(frame).status());
    receiving.arrived(frame);
    return {};
  }

  std::vector<ReceivingLane> lanes_;
};

class VerbsTransport final : public Transport {
 public:
  const char* name() const override { return "verbs"; }
  Status usable() override { return VerbsDevice::instance().status(); }
  Result<std::unique_ptr<LinkEnd>> make_end(Side side, const LinkShape& shape, MemoryPort& memory) override {
    return side == Side::send ? make_prepared<VerbsSender>(shape, memory) : make_prepared<VerbsReceiver>(shape, memory);
  }
};

}  // namespace

Transport& verbs_transport() {
  static VerbsTransport transport;
  return transport;
}

}  // namespace gpucoll::net
