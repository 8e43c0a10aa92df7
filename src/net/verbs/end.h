// Holds what both ends of a link over verbs have (verbs.cpp): the blocks, and the rails that the lanes take.
//
// Thread safety: as LinkEnd. Ownership: owns blocks and rails.
#pragma once
#include <string>
#include <vector>

#include "net/host_blocks.h"
#include "net/step_lanes.h"
#include "net/transport.h"
#include "net/verbs/devices.h"
#include "net/verbs/rail.h"
#include "proto/format/step_immediate.h"

namespace gpucoll::net {

class VerbsEnd : public LinkEnd {
 public:
  VerbsEnd(const LinkShape& shape, MemoryPort& memory);

  const LinkBlob& blob() const override { return blob_; }
  proto::Connector connector(int lane) const override { return blocks_.connector(lane); }
  bool needs_progress() const override { return true; }
  bool needs_trial() const override { return true; }
  Status connect(const LinkBlob& peer) override;
  Status begin_trial() override;
  Result<bool> established() override;
  Result<StepProgress> progress() final;

 protected:
  // Ids of what this side has sent, besides slices.
  static constexpr uint64_t kTrialId = ~uint64_t{0}, kNoticeId = kTrialId - 1;

  // Makes the blocks, and a lane of either side's for each, and the queue pairs.
  template <class Lane>
  Status allocate(std::vector<Lane>* lanes, bool peer_writes) {
    GC_TRY(allocate(peer_writes));
    for (int lane = 0; lane < shape_.lanes; ++lane)
      lanes->emplace_back(blocks_.receive_block(lane), blocks_.send_block(lane), shape_.slots);
    return {};
  }
  virtual bool sends() const = 0;
  // As progress(), until it fails.
  virtual Result<StepProgress> move_steps() = 0;
  // Sends kTrialImmediate as kTrialId.
  virtual Status try_out(Rail& rail) = 0;
  // Takes what has come by a rail, and what has been acknowledged.
  virtual Status on_received(Rail& rail, const Completion& completion) = 0;
  virtual Status on_sent(uint64_t id) = 0;
  // Tells the other side that a rail is given up. REQUIRES: others work.
  virtual Status go_on_without(const Rail& rail) = 0;

  Rail& rail_of(int lane) { return rails_[rail_of_lane_[static_cast<size_t>(lane)]]; }
  void set_rail(int lane, const Rail& rail) {
    rail_of_lane_[static_cast<size_t>(lane)] = static_cast<uint8_t>(&rail - rails_.data());
  }
  // Gives a rail up that has failed, and lets the link go on over the others. Errors: why, where no other one works or
  // the link may not.
  Status give_up(Rail& rail, Status why);
  // Returns which rails are given up: a bit for each.
  uint32_t given_up() const;
  // Polls the completions that are there, for a while; returns whether there was any.
  Result<bool> poll_all();
  StepProgress state(bool moved) const;
  proto::Note* note(int lane, uint64_t step) const {
    return static_cast<proto::Note*>(blocks_.extra()) + static_cast<size_t>(lane) * proto::kSteps +
           step % proto::kSteps;
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
  Status allocate(bool peer_writes);
  void describe();
  Status add_rails(const std::vector<VerbsDevice*>& devices, bool peer_writes);
  Status add_rail(VerbsDevice* device, bool peer_writes);
  Result<bool> poll_all(Rail& rail);
  Status sent(Rail& rail, uint64_t id);
  Status received(Rail& rail, const Completion& completion);
  std::string others_that_work(const Rail& than) const;

  const std::string gpu_;  // its directory in sysfs
  LinkBlob blob_ = {};
  uint64_t there_ = 0;  // the other side's blocks
  uint32_t first_ = 0;  // rail that lane 0 takes
  bool fails_over_;     // both ends allow it
  std::string lost_;    // rails, and why
  Status broken_;       // what has failed the link
  std::vector<uint8_t> rail_of_lane_;

 protected:
  HostBlocks blocks_;
  std::vector<Rail> rails_;  // last: they go before the memory that they may write to
  int most_sends_ = 0;       // besides those of a failover
};

}  // namespace gpucoll::net
