#include "net/verbs/end.h"

#include <algorithm>
#include <cstring>

#include "base/log.h"
#include "base/mutant.h"
#include "base/observe/counters.h"
#include "base/params.h"

namespace gpucoll::net {
namespace {

using proto::kSteps;

constexpr size_t kMostRails = VerbsDevices::kMost;
// Each time that a rail is given up, a lane's head is sent once more behind the notice that it goes on.
constexpr int kMostNotices = 2 * (static_cast<int>(kMostRails) - 1);

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
  uint32_t fails_over;  // whether the link may go on where a rail fails
};
static_assert(sizeof(VerbsBlob) <= sizeof(LinkBlob));
static_assert(kMostRails <= proto::kMostRails);

VerbsDevice::PeerName name_of(const QueuePairAddress& pair) {
  VerbsDevice::PeerName name;
  std::memcpy(name.data(), pair.gid, sizeof pair.gid);
  std::memcpy(name.data() + sizeof pair.gid, &pair.lid, sizeof pair.lid);
  return name;
}

Status connect_rail(Rail& rail, const RailBlob& peer) {
  rail.key_there = peer.key;
  rail.peer = name_of(peer.pair);
  GC_TRY(rail.device->expect_answer(rail.peer));
  return rail.pair->connect(peer.pair);
}

}  // namespace

VerbsEnd::VerbsEnd(const LinkShape& shape, MemoryPort& memory)
    : shape_(shape),
      gpu_(memory.pci_directory()),
      fails_over_(params().network_failover),
      blocks_(shape, memory, static_cast<size_t>(shape.lanes) * kSteps * sizeof(proto::Note)) {}

Status VerbsEnd::connect(const LinkBlob& peer) {
  VerbsBlob blob;
  std::memcpy(&blob, peer.bytes, sizeof blob);
  if (blob.bytes != blocks_.bytes())
    return Status::error(Code::remote, "the other side has %llu bytes for this connection instead of %zu",
                         static_cast<unsigned long long>(blob.bytes), blocks_.bytes());
  if (blob.rails == 0 || blob.rails > kMostRails)
    return Status::error(Code::remote, "the other side offers %u RDMA devices for a connection", blob.rails);
  there_ = blob.address;
  if (!sends()) first_ = blob.first;
  fails_over_ = fails_over_ && (blob.fails_over || gc_mutant(563));
  while (rails_.size() > blob.rails) rails_.pop_back();
  for (int lane = 0; lane < shape_.lanes; ++lane)
    rail_of_lane_.push_back(
        static_cast<uint8_t>(gc_mutant(539) ? 0 : (first_ + static_cast<size_t>(lane)) % rails_.size()));
  for (size_t i = 0; i < rails_.size(); ++i) GC_TRY(connect_rail(rails_[i], blob.rail[i]));
  return {};
}

Status VerbsEnd::begin_trial() {
  for (Rail& rail : rails_) {
    rail.begin_trial();
    GC_TRY(try_out(rail));
  }
  return {};
}

Result<bool> VerbsEnd::established() {
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

Result<StepProgress> VerbsEnd::progress() {
  if (!broken_) return broken_;
  auto moved = move_steps();
  if (!moved && !gc_mutant(567)) broken_ = moved.status();
  return moved;
}

Status VerbsEnd::allocate(bool peer_writes) {
  GC_TRY_AS(VerbsDevices * devices, VerbsDevices::instance());
  GC_TRY(blocks_.create("gpucoll-verbs").status());
  blocks_.close_name();
  // A slice and its note, or a head; and the trial.
  most_sends_ = 2 * shape_.lanes * kSteps + 1;
  const VerbsDevices::Nearest& nearest = devices->nearest(gpu_);
  first_ = nearest.first;
  GC_TRY(add_rails(nearest.devices, peer_writes));
  describe();
  return {};
}

void VerbsEnd::describe() {
  VerbsBlob blob = {};
  blob.address = reinterpret_cast<uint64_t>(blocks_.data());
  blob.bytes = blocks_.bytes();
  blob.rails = static_cast<uint32_t>(rails_.size());
  blob.first = first_;
  blob.fails_over = fails_over_;
  for (size_t i = 0; i < rails_.size(); ++i) blob.rail[i] = {rails_[i].pair->address(), rails_[i].region.remote_key()};
  std::memcpy(blob_.bytes, &blob, sizeof blob);
}

// Makes a rail for each device that can have one, and no more than there are lanes. Errors: none can.
Status VerbsEnd::add_rails(const std::vector<VerbsDevice*>& devices, bool peer_writes) {
  Status first;
  for (size_t i = 0; i < devices.size() && rails_.size() < static_cast<size_t>(shape_.lanes); ++i) {
    Status made = add_rail(devices[i], peer_writes);
    if (made) continue;
    log::write(log::Level::info, "verbs: a link does without %s: %s", devices[i]->name().c_str(), made.what());
    if (first) first = std::move(made);
  }
  return rails_.empty() ? std::move(first) : Status();
}

Status VerbsEnd::add_rail(VerbsDevice* device, bool peer_writes) {
  const uint64_t largest = uint64_t{kSteps} * shape_.slots.simple;  // slice
  if (largest > device->attributes().max_msg_sz)
    return Status::error(Code::unsupported,
                         "%s sends at most %u bytes at once: set buffer_bytes and send_recv_buffer_bytes to no more",
                         device->name().c_str(), device->attributes().max_msg_sz);
  GC_TRY_AS(auto region, MemoryRegion::create(*device, blocks_.data(), blocks_.bytes(), peer_writes));
  const int notices = shape_.lanes * kMostNotices;
  GC_TRY_AS(auto pair, QueuePair::create(*device, most_sends_ + notices, shape_.lanes * kSteps + 1 + notices));
  rails_.emplace_back(device, std::move(region), std::move(pair));
  return {};
}

// Gives up the rail if its queue pair reports an error; a fault of what the other side has sent is the link's.
Result<bool> VerbsEnd::poll_all(Rail& rail) {
  constexpr int kMost = 64;  // then others have their turn
  Completion completion;
  for (int i = 0; i < kMost; ++i) {
    if (!rail.works()) return i > 0;
    auto any = rail.pair->poll(&completion);
    if (!any) {
      GC_TRY(give_up(rail, std::move(any).status()));
      return true;
    }
    if (!*any) return i > 0;
    GC_TRY(completion.received ? received(rail, completion) : sent(rail, completion.id));
  }
  return true;
}

Result<bool> VerbsEnd::poll_all() {
  bool any = false;
  for (Rail& rail : rails_) {
    GC_TRY_AS(const bool polled, poll_all(rail));
    any = any || polled;
  }
  return any;
}

Status VerbsEnd::sent(Rail& rail, uint64_t id) {
  --rail.outstanding;
  if (id < kNoticeId) return on_sent(id);
  if (id == kTrialId) rail.trial->sent = true;
  return {};
}

Status VerbsEnd::received(Rail& rail, const Completion& completion) {
  if (!rail.trial || rail.trial->received) return on_received(rail, completion);
  if (completion.immediate != proto::kTrialImmediate)
    return Status::error(Code::remote, "it sends before the connection has been tried");
  rail.trial->received = true;
  return {};
}

Status VerbsEnd::give_up(Rail& rail, Status why) {
  if (!rail.works()) return {};
  if (!fails_over_ || !rail.is_established()) return why;
  const std::string others = others_that_work(rail);
  if (others.empty()) {
    if (lost_.empty()) return why;
    return Status::error(why.code(), "%s; before, the connection had lost %s", why.what(), lost_.c_str());
  }
  if (Status given_up = rail.give_up(); !given_up)
    return Status::error(why.code(), "%s; %s", why.what(), given_up.what());
  lost_ += (lost_.empty() ? "" : "; ") + rail.device->name() + ": " + why.what();
  log::write(log::Level::info, "verbs: a connection goes on over %s, without %s: %s", others.c_str(),
             rail.device->name().c_str(), why.what());
  count(Counter::network_failovers);
  return go_on_without(rail);
}

uint32_t VerbsEnd::given_up() const {
  uint32_t rails = 0;
  for (size_t i = 0; i < rails_.size(); ++i) rails |= uint32_t{!rails_[i].works()} << i;
  return rails;
}

std::string VerbsEnd::others_that_work(const Rail& than) const {
  std::string names;
  for (const Rail& rail : rails_)
    if (&rail != &than && rail.works()) names += (names.empty() ? "" : "; ") + rail.device->name();
  return names;
}

StepProgress VerbsEnd::state(bool moved) const {
  if (moved) return StepProgress::moved;
  const bool outstanding =
      std::any_of(rails_.begin(), rails_.end(), [](const Rail& rail) { return rail.outstanding > 0; });
  // The other side has still to tell where such a lane goes on.
  const bool waits =
      std::any_of(rail_of_lane_.begin(), rail_of_lane_.end(), [this](uint8_t rail) { return !rails_[rail].works(); });
  return outstanding || waits ? StepProgress::pending : StepProgress::none;
}

}  // namespace gpucoll::net
