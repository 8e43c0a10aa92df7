// The verbs transport: each end has all lanes' blocks in host memory of its own, mapped for its kernels and registered
// with the RDMA devices that are nearest to the GPU. It has a queue pair for each of these (a rail), as many as the end
// with fewer devices, and the lanes take the rails in turn. The sending end writes what its kernels have put into slots
// into the same slots of the receiving end, which sees it complete and stores the tail; heads go back as immediate data
// (format/step_immediate.h).
//
// No queue overflows. Kernels fill at most kSteps steps of a lane beyond the head that the sending end has stored, and
// it stores one only once the receiving end has told it and its own writes up to there are complete. So at most kSteps
// slices of a lane, and kSteps heads, are under way, and both queues of a rail have room for those of all lanes.
#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

#include "base/log.h"
#include "base/mutant.h"
#include "net/host_blocks.h"
#include "net/step_lanes.h"
#include "net/transport.h"
#include "net/verbs/devices.h"
#include "net/verbs/queue_pair.h"
#include "proto/format/step_immediate.h"

namespace gpucoll::net {
namespace {

using proto::kDataStepBits;
using proto::kHeadStepBits;
using proto::kSteps;
using proto::Note;
using proto::StepFrame;

constexpr size_t kMostRails = VerbsDevices::kMost;

struct RailBlob {
  QueuePairAddress pair;
  uint32_t key;
};
struct VerbsBlob {
  uint64_t address;  // of the blocks and notes
  uint64_t bytes;
  uint32_t rails;
  uint32_t first;  // rail that lane 0 takes, where this is the sending end
  RailBlob rail[kMostRails];
};
static_assert(sizeof(VerbsBlob) <= sizeof(LinkBlob));

// In the id of what a sending end has sent: its lane, and the step behind the slice.
constexpr int kIdStepBits = 56;
uint64_t slice_id(int lane, uint64_t end) { return static_cast<uint64_t>(lane) << kIdStepBits | end; }
constexpr uint64_t kTrialId = ~uint64_t{0};

// One of the devices that a link goes over.
struct Rail {
  Rail(VerbsDevice* nearest, MemoryRegion registered, std::unique_ptr<QueuePair> made)
      : device(nearest), region(std::move(registered)), pair(std::move(made)) {}

  // Expects the completions of the trial, which the caller sends.
  void begin_trial() {
    trial = Trial{};
    ++outstanding;
  }
  bool is_established() const { return !trial || (trial->sent && trial->received); }

  struct Trial {
    bool sent = false, received = false;
  };
  VerbsDevice* device;
  MemoryRegion region;
  std::unique_ptr<QueuePair> pair;  // goes before the region
  uint32_t key_there = 0;           // of the other side's blocks
  VerbsDevice::PeerName peer = {};
  int outstanding = 0;  // completions that are still to come of what this side has sent
  std::optional<Trial> trial;
};

VerbsDevice::PeerName name_of(const QueuePairAddress& pair) {
  VerbsDevice::PeerName name;
  std::memcpy(name.data(), pair.gid, sizeof pair.gid);
  std::memcpy(name.data() + sizeof pair.gid, &pair.lid, sizeof pair.lid);
  return name;
}

class VerbsEnd : public LinkEnd {
 public:
  VerbsEnd(const LinkShape& shape, MemoryPort& memory)
      : shape_(shape),
        gpu_(memory.pci_directory()),
        blocks_(shape, memory, static_cast<size_t>(shape.lanes) * kSteps * sizeof(Note)) {}

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
    if (blob.rails == 0 || blob.rails > kMostRails)
      return Status::error(Code::remote, "the other side offers %u RDMA devices for a connection", blob.rails);
    there_ = blob.address;
    if (!sends()) first_ = blob.first;
    while (rails_.size() > blob.rails) rails_.pop_back();
    for (size_t i = 0; i < rails_.size(); ++i) GC_TRY(connect(rails_[i], blob.rail[i]));
    return {};
  }
  Status begin_trial() override {
    for (Rail& rail : rails_) {
      rail.begin_trial();
      GC_TRY(try_out(rail));
    }
    return {};
  }
  Result<bool> established() override {
    bool all = true;
    for (Rail& rail : rails_) {
      if (rail.is_established() || (gc_mutant(540) && &rail != rails_.data())) continue;
      if (Status polled = poll_all(rail).status(); !polled) {
        rail.device->remember_silent(rail.peer);
        return polled;
      }
      all = all && rail.is_established();
    }
    return all;
  }

 protected:
  // Makes the blocks, and a lane of either side's for each, and the queue pairs.
  template <class Lane>
  Status allocate(std::vector<Lane>* lanes, bool peer_writes) {
    GC_TRY_AS(VerbsDevices * devices, VerbsDevices::instance());
    GC_TRY(blocks_.create("gpucoll-verbs").status());
    blocks_.close_name();
    for (int lane = 0; lane < shape_.lanes; ++lane)
      lanes->emplace_back(blocks_.receive_block(lane), blocks_.send_block(lane), shape_.slots);
    // A slice and its note, or a head; and the trial.
    most_sends_ = 2 * shape_.lanes * kSteps + 1;
    const VerbsDevices::Nearest& nearest = devices->nearest(gpu_);
    first_ = nearest.first;
    GC_TRY(add_rails(nearest.devices, peer_writes));
    VerbsBlob blob = {};
    blob.address = reinterpret_cast<uint64_t>(blocks_.data());
    blob.bytes = blocks_.bytes();
    blob.rails = static_cast<uint32_t>(rails_.size());
    blob.first = first_;
    for (size_t i = 0; i < rails_.size(); ++i)
      blob.rail[i] = {rails_[i].pair->address(), rails_[i].region.remote_key()};
    std::memcpy(blob_.bytes, &blob, sizeof blob);
    return {};
  }
  virtual bool sends() const = 0;
  // Sends kTrialImmediate as kTrialId.
  virtual Status try_out(Rail& rail) = 0;
  // Takes what has come, and what has been acknowledged.
  virtual Status on_received(const Completion& completion) = 0;
  virtual Status on_sent(uint64_t id) = 0;

  Rail& rail_of(int lane) { return rails_[gc_mutant(539) ? 0 : (first_ + static_cast<size_t>(lane)) % rails_.size()]; }
  // Polls the completions that are there, for a while; returns whether there was any.
  Result<bool> poll_all() {
    bool any = false;
    for (Rail& rail : rails_) {
      GC_TRY_AS(const bool polled, poll_all(rail));
      any = any || polled;
    }
    return any;
  }
  StepProgress state(bool moved) const {
    if (moved) return StepProgress::moved;
    const bool pending =
        std::any_of(rails_.begin(), rails_.end(), [](const Rail& rail) { return rail.outstanding > 0; });
    return pending ? StepProgress::pending : StepProgress::none;
  }
  Note* note(int lane, uint64_t step) const {
    return static_cast<Note*>(blocks_.extra()) + static_cast<size_t>(lane) * kSteps + step % kSteps;
  }
  static QueuePair::Local local(const Rail& rail, const void* data, uint64_t bytes) {
    return {data, static_cast<uint32_t>(bytes), rail.region.local_key()};
  }
  // Returns where the same bytes lie on the other side.
  QueuePair::Remote remote(const Rail& rail, const void* data) const {
    return {
        there_ + static_cast<uint64_t>(static_cast<const uint8_t*>(data) - static_cast<const uint8_t*>(blocks_.data())),
        rail.key_there};
  }

  const LinkShape shape_;

 private:
  // Makes a rail for each device that can have one, and no more than there are lanes. Errors: none can.
  Status add_rails(const std::vector<VerbsDevice*>& devices, bool peer_writes) {
    Status first;
    for (size_t i = 0; i < devices.size() && rails_.size() < static_cast<size_t>(shape_.lanes); ++i) {
      Status made = add_rail(devices[i], peer_writes);
      if (made) continue;
      log::write(log::Level::info, "verbs: a link does without %s: %s", devices[i]->name().c_str(), made.what());
      if (first) first = std::move(made);
    }
    return rails_.empty() ? std::move(first) : Status();
  }
  Status add_rail(VerbsDevice* device, bool peer_writes) {
    const uint64_t largest = uint64_t{kSteps} * shape_.slots.simple;  // slice
    if (largest > device->attributes().max_msg_sz)
      return Status::error(Code::unsupported,
                           "%s sends at most %u bytes at once: set buffer_bytes and send_recv_buffer_bytes to no more",
                           device->name().c_str(), device->attributes().max_msg_sz);
    GC_TRY_AS(auto region, MemoryRegion::create(*device, blocks_.data(), blocks_.bytes(), peer_writes));
    GC_TRY_AS(auto pair, QueuePair::create(*device, most_sends_, shape_.lanes * kSteps + 1));
    rails_.emplace_back(device, std::move(region), std::move(pair));
    return {};
  }
  static Status connect(Rail& rail, const RailBlob& peer) {
    rail.key_there = peer.key;
    rail.peer = name_of(peer.pair);
    GC_TRY(rail.device->expect_answer(rail.peer));
    return rail.pair->connect(peer.pair);
  }
  Result<bool> poll_all(Rail& rail) {
    constexpr int kMost = 64;  // then others have their turn
    Completion completion;
    for (int i = 0; i < kMost; ++i) {
      GC_TRY_AS(const bool any, rail.pair->poll(&completion));
      if (!any) return i > 0;
      GC_TRY(completion.received ? received(rail, completion) : sent(rail, completion.id));
    }
    return true;
  }
  Status sent(Rail& rail, uint64_t id) {
    --rail.outstanding;
    if (id != kTrialId) return on_sent(id);
    rail.trial->sent = true;
    return {};
  }
  Status received(Rail& rail, const Completion& completion) {
    if (!rail.trial || rail.trial->received) return on_received(completion);
    if (completion.immediate != proto::kTrialImmediate)
      return Status::error(Code::remote, "it sends before the connection has been tried");
    rail.trial->received = true;
    return {};
  }

  const std::string gpu_;  // its directory in sysfs
  LinkBlob blob_ = {};
  uint64_t there_ = 0;  // the other side's blocks
  uint32_t first_ = 0;  // rail that lane 0 takes

 protected:
  HostBlocks blocks_;
  std::vector<Rail> rails_;  // last: they go before the memory that they may write to
  int most_sends_ = 0;
};

class VerbsSender final : public VerbsEnd {
 public:
  using VerbsEnd::VerbsEnd;
  bool sends() const override { return true; }

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
    Rail& rail = rail_of(lane);
    Note* const kept = note(lane, frame.step);
    if (std::memcmp(kept, &frame.note, sizeof *kept)) {
      *kept = frame.note;
      GC_TRY(rail.pair->write(local(rail, kept, sizeof *kept), remote(rail, kept)));
    }
    ++rail.outstanding;
    const uint64_t end = proto::slice_begin(frame.step, frame.record) + proto::slice_steps(frame.record);
    passed_[static_cast<size_t>(lane)].posted = end;
    return rail.pair->write_with_immediate(local(rail, data, proto::slice_bytes(frame.record)), remote(rail, data),
                                           proto::data_immediate(lane, frame.step, frame.record), slice_id(lane, end));
  }
  // Writes a full packet, so that a switch that takes smaller ones only is found out now. It writes zeros over zeros:
  // no kernel has used the slots yet.
  Status try_out(Rail& rail) override {
    const uint8_t* const slot = blocks_.receive_block(0) + proto::ReceiveBlock::kSlotsOffset;
    const uint64_t bytes = std::min<uint64_t>(rail.pair->packet_bytes(), kSteps * shape_.slots.simple);
    return rail.pair->write_with_immediate(local(rail, slot, bytes), remote(rail, slot), proto::kTrialImmediate,
                                           kTrialId);
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
  bool sends() const override { return false; }

  Status prepare() { return allocate(&lanes_, true); }
  Result<StepProgress> progress() override {
    GC_TRY_AS(bool moved, poll_all());
    uint64_t head;
    // The sender may use the steps that a head sets free before the head's own completion comes.
    for (int lane = 0; lane < shape_.lanes; ++lane) {
      Rail& rail = rail_of(lane);
      if (rail.outstanding >= most_sends_ || !lanes_[static_cast<size_t>(lane)].drained(&head)) continue;
      ++rail.outstanding;
      GC_TRY(rail.pair->send_immediate(proto::head_immediate(lane, head), 0));
      moved = true;
    }
    return state(moved);
  }

 private:
  Status on_sent(uint64_t) override { return {}; }
  Status try_out(Rail& rail) override { return rail.pair->send_immediate(proto::kTrialImmediate, kTrialId); }
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
  Status usable() override { return VerbsDevices::instance().status(); }
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
