#include "core/copy_path.h"

#include <algorithm>

namespace gpucoll::core {
namespace {

using proto::CopyLane;
using proto::kBouncePieces;
using proto::kSizeRing;

CopyLane* lane_in(uint8_t* page, int n_ranks, int to_rank) {
  return reinterpret_cast<CopyLane*>(page + proto::copy_lane_offset(n_ranks, to_rank));
}

}  // namespace

CopyPath::CopyPath(const CopyContext& context)
    : context_(context),
      page_(context.peers.copy_page(context.peers.rank())),
      sending_(static_cast<size_t>(context.peers.size())),
      receiving_(static_cast<size_t>(context.peers.size())),
      imports_(context.device) {
  __atomic_store_n(&page_.live[proto::kBounceSlot], 1u, __ATOMIC_RELAXED);
  Proxy::instance().add(this);
  Flights::instance().add(this);
}

CopyPath::~CopyPath() {
  Flights::instance().remove(this);
  Proxy::instance().remove(this);
  for (gpu::Stream stream : {stream_, words_stream_})
    if (stream) context_.device.destroy_stream(stream).ignore();
  for (const auto& r : receiving_) {
    if (r && r->stream) context_.device.destroy_stream(r->stream).ignore();
    if (r && r->bounce) context_.device.release(r->bounce);
  }
  for (const auto& [rank, block] : pages_) context_.device.unregister_host(block);
}

void CopyPath::place_lanes(Direction& direction, int peer, net::Side side) const {
  const Peers& peers = context_.peers;
  direction.peer = peer;
  direction.p2p = peer != peers.rank() && context_.links.over_p2p({proto::kPairLinks, peer, side});
  direction.own = &peers.copy_lane(peers.rank(), peer);
  direction.theirs = &peers.copy_lane(peer, peers.rank());
}

CopyPath::Sending& CopyPath::sending(int peer) {
  std::unique_ptr<Sending>& s = sending_[static_cast<size_t>(peer)];
  if (!s) {
    s = std::make_unique<Sending>();
    place_lanes(*s, peer, net::Side::send);
  }
  return *s;
}

CopyPath::Receiving& CopyPath::receiving(int peer) {
  std::unique_ptr<Receiving>& r = receiving_[static_cast<size_t>(peer)];
  if (!r) {
    r = std::make_unique<Receiving>();
    place_lanes(*r, peer, net::Side::receive);
  }
  return *r;
}

Result<bool> CopyPath::begin(const TaskQueue& queue, const StepMessages& steps, TaskQueue* rest) {
  GC_TRY(take(queue, steps));
  if (ready_.all.empty()) return false;
  *rest = queue;
  std::erase_if(rest->sends, [this](const auto& task) { return by_copy(sending(task.peer), task); });
  std::erase_if(rest->recvs, [this](const auto& task) { return by_copy(receiving(task.peer), task); });
  if (!queue.sends.empty() || !steps.sends.empty())
    wake();  // while the caller goes on; a receiver's part is done by its streams
  return true;
}

Status CopyPath::take(const TaskQueue& queue, const StepMessages& steps) {
  std::lock_guard lock(mutex_);
  ready_.clear();
  done_.clear();
  ++groups_taken_;
  first_turn_ = last_turn_ + 1;
  const auto alone = [](const TaskQueue::Pair& task) {
    return StepMessage{task.peer, task.buffer, task.bytes, 0, kAtEnd};
  };
  for (const TaskQueue::Pair& task : queue.sends)
    GC_TRY(take_send(alone(task), by_copy(sending(task.peer), task), Turn::by_distance));
  for (const TaskQueue::Pair& task : queue.recvs)
    GC_TRY(take_receive(alone(task), by_copy(receiving(task.peer), task)));
  for (const StepMessage& message : steps.sends) GC_TRY(take_send(message, true, Turn::next));
  for (const StepMessage& message : steps.recvs) GC_TRY(take_receive(message, true));
  ready_.sort_out();
  done_.sort_out();
  return {};
}

// In turn: the first message of a group to each peer, in the order of distance, then the second to each, and so on; or
// as the steps that they belong to have them.
uint64_t CopyPath::turn_of(Sending& s, Turn turn) {
  if (turn == Turn::next) return ++last_turn_;
  if (s.group != groups_taken_) s.round = 0;
  s.group = groups_taken_;
  const auto n = static_cast<uint64_t>(context_.peers.size());
  const auto distance = static_cast<uint64_t>(s.peer - context_.peers.rank() + context_.peers.size()) % n;
  const uint64_t its = first_turn_ + s.round++ * n + distance;
  last_turn_ = std::max(last_turn_, its);
  return its;
}

Status CopyPath::take_send(const StepMessage& message, bool by_copy, Turn turn) {
  Sending& s = sending(message.peer);
  ++s.messages;
  if (by_copy) {
    GC_TRY(prepare(s));
    GC_TRY(make_streams());
    s.pending.push_back(
        {++s.copies, s.messages, message.bytes, static_cast<uint8_t*>(message.buffer), turn_of(s, turn)});
    ready_.all.push_back({message.ready, &s.own_kernel->send_ready, s.copies});
    done_.all.push_back({message.needed, &s.own_kernel->send_done, s.copies});
  }
  __atomic_store_n(&s.own->send_bytes[s.messages % kSizeRing], message.bytes, __ATOMIC_RELAXED);
  __atomic_store_n(&s.own->send_copies, s.copies, __ATOMIC_RELAXED);
  __atomic_store_n(&s.own->send_messages, s.messages, __ATOMIC_RELEASE);  // partner: advance(Receiving&)
  return {};
}

Status CopyPath::take_receive(const StepMessage& message, bool by_copy) {
  Receiving& r = receiving(message.peer);
  ++r.messages;
  if (by_copy) {
    GC_TRY(prepare(r));
    auto place = context_.exports.pin(message.buffer);
    if (!place && !r.bounce) GC_TRY(make_bounce(r));
    r.pending.push_back({++r.copies, r.messages, message.bytes, static_cast<uint8_t*>(message.buffer), 0, place});
    ready_.all.push_back({message.ready, &r.own_kernel->recv_ready, r.copies});
    done_.all.push_back({message.needed, &r.own_kernel->recv_done, r.copies});
  }
  __atomic_store_n(&r.own->recv_bytes[r.messages % kSizeRing], message.bytes, __ATOMIC_RELAXED);
  __atomic_store_n(&r.own->recv_copies, r.copies, __ATOMIC_RELAXED);
  __atomic_store_n(&r.own->recv_messages, r.messages, __ATOMIC_RELEASE);  // partner: match()
  post(r);
  return {};
}

void CopyPath::Marks::clear() {
  all.clear();
  next = 0;
}

void CopyPath::Marks::sort_out() {
  std::sort(all.begin(), all.end());
  // Numbers ascend, so from the back the first one of each word is the last.
  const auto same = [](const Mark& a, const Mark& b) { return a.step == b.step && a.word == b.word; };
  all.erase(all.begin(), std::unique(all.rbegin(), all.rend(), same).base());
}

// Before the first message by copy of a direction: what the device needs for it.
Status CopyPath::prepare(Direction& direction) {
  if (direction.own_kernel) return {};
  const Peers& peers = context_.peers;
  GC_TRY_AS(uint8_t * own, kernel_page(peers.rank()));
  GC_TRY_AS(uint8_t * theirs, kernel_page(direction.peer));
  direction.their_kernel = lane_in(theirs, peers.size(), peers.rank());
  direction.own_kernel = lane_in(own, peers.size(), direction.peer);
  return {};
}

Result<uint8_t*> CopyPath::kernel_page(int rank) {
  auto known = pages_.find(rank);
  if (known == pages_.end()) {
    GC_TRY_AS(const gpu::HostBlock block, context_.device.register_host(context_.peers.page_bytes(rank),
                                                                        proto::control_bytes(context_.peers.size())));
    known = pages_.emplace(rank, block).first;
  }
  return static_cast<uint8_t*>(known->second.kernel);
}

Status CopyPath::make_streams() {
  for (gpu::Stream* stream : {&stream_, &words_stream_})
    if (!*stream) {
      GC_TRY_AS(*stream, context_.device.create_urgent_stream());
    }
  return {};
}

Status CopyPath::make_bounce(Receiving& r) {
  if (!r.stream) {
    GC_TRY_AS(r.stream, context_.device.create_urgent_stream());
  }
  GC_TRY_AS(void* memory, context_.device.allocate(context_.piece_bytes * kBouncePieces));
  r.bounce = static_cast<uint8_t*>(memory);
  GC_TRY_AS(r.bounce_handle, context_.device.export_memory(memory));
  return {};
}

Status CopyPath::put_ready(gpu::Stream stream, uint32_t step) {
  putting_.store(true, std::memory_order_relaxed);
  for (; ready_.next < ready_.all.size() && ready_.all[ready_.next].step <= step; ++ready_.next) {
    const Mark& mark = ready_.all[ready_.next];
    GC_TRY(context_.device.write_value(stream, mark.word, mark.number));
  }
  return {};
}

Status CopyPath::put_waits(gpu::Stream stream, uint32_t step) {
  for (; done_.next < done_.all.size() && done_.all[done_.next].step <= step; ++done_.next) {
    const Mark& mark = done_.all[done_.next];
    GC_TRY(context_.device.wait_value(stream, mark.word, mark.number, nullptr));
  }
  return {};
}

Status CopyPath::put_end(gpu::Stream stream) {
  auto* page = reinterpret_cast<proto::CopyPage*>(static_cast<uint8_t*>(pages_.at(context_.peers.rank()).kernel) +
                                                  proto::copy_page_offset(context_.peers.size()));
  const uint64_t group = groups() + 1;
  groups_.store(group, std::memory_order_relaxed);
  putting_.store(false, std::memory_order_relaxed);
  GC_TRY(put_waits(stream, kAtEnd));
  GC_TRY(context_.device.write_value(stream, &page->passed, group));
  wake();  // a fault may have come before these waits
  return {};
}

void CopyPath::wake() {
  active_.store(true, std::memory_order_release);  // partner: progress()
  Proxy::instance().wake();
}

std::string CopyPath::waiting_for() {
  std::lock_guard lock(mutex_);
  const auto tell = [&](const Direction& d, const char* way) {
    return "a message of " + std::to_string(d.pending.front().bytes) + " bytes " + way + " " +
           context_.peers.name(d.peer) + ", which must make its call outside of captures if this rank does";
  };
  for (const auto& r : receiving_)
    if (r && !r->pending.empty()) return tell(*r, "from");
  for (const auto& s : sending_)
    if (s && !s->pending.empty()) return tell(*s, "to");
  return "";
}

void CopyPath::look_for_freed() noexcept {
  const std::unique_lock lock(mutex_, std::try_to_lock);  // the watchdog must not wait for a device
  if (!lock.owns_lock()) return;
  imports_.drop_freed([&](int peer) { return context_.peers.copy_page(peer).live; });
  if (imports_.any_dropped()) Proxy::instance().wake();
}

}  // namespace gpucoll::core
