#include "coll/shared_gpu/merged_call.h"

#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

#include "coll/shared_gpu/merge.h"
#include "kernels/kernels.h"
#include "mpi/datatype/address.h"
#include "task/collective_task.h"

namespace gpucoll::coll {

using core::CollectiveTask;
using core::TaskQueue;
using proto::Function;

void Merge::add_parts() {
  const auto add_all = [](auto& to, const auto& from) { to.insert(to.end(), from.begin(), from.end()); };
  for (size_t i = 0; i < size(); ++i) {
    const TaskQueue& part = *parts_[i];
    add_all(whole_.before, part.before);
    add_all(whole_.after, part.after);
    add_all(whole_.late_reductions, part.late_reductions);
    for (const TaskQueue::Pair& send : part.sends)
      sends_.push_back({members_[i], send.peer, send.buffer, send.bytes, send.exchange});
    for (const TaskQueue::Pair& recv : part.recvs)
      recvs_.push_back({recv.peer, members_[i], recv.buffer, recv.bytes, recv.exchange});
  }
  whole_.packing = packing_kernel();
}

void Merge::add_task(const CollectiveTask& like, Function function, const void* send, void* recv, uint64_t count,
                     int group) {
  CollectiveTask made = like;
  made.function = function;
  made.send = send;
  made.recv = recv;
  made.count = count;
  made.root = static_cast<uint32_t>(group);
  whole_.collectives.push_back(made);
}

// ---- scratch memory ----

// As much as all of the call's reductions may ask for at once.
Status Merge::reserve() {
  uint64_t total = 0;
  for (size_t c = 0; c < parts_[0]->collectives.size(); ++c) {
    const CollectiveTask& its = task(c);
    const uint64_t bytes = its.count * its.element_bytes, n = static_cast<uint64_t>(n_ranks());
    switch (its.function) {
      case Function::reduce: total += size() > 1 ? packs(bytes) : 0; break;
      case Function::reduce_scatter: total += size() > 1 ? packs(bytes * n) : 0; break;
      case Function::scan:
      case Function::exscan: total += 2 * n * packs(bytes); break;  // an operand and a prefix of each rank
      default: break;
    }
  }
  if (total) {
    GC_TRY_AS(aside_, scratch_.get(device_, total));
  }
  return {};
}

uint8_t* Merge::aside(uint64_t bytes) {
  uint8_t* const here = aside_;
  aside_ = moved(aside_, static_cast<ptrdiff_t>(packs(bytes)));
  return here;
}

// ---- messages ----

void Merge::sort_messages() {
  const auto order = [](const MergeMessage& a, const MergeMessage& b) {
    return std::tie(a.from, a.to) < std::tie(b.from, b.to);
  };
  std::stable_sort(sends_.begin(), sends_.end(), order);
  std::stable_sort(recvs_.begin(), recvs_.end(), order);
}

// Where there is no other leader they are copies, which all multiprocessors make at once; but what is reduced or copied
// on once it has come must come before. REQUIRES: they are sorted and checked, and the last that is added.
void Merge::hand_on_messages() {
  if (groups_.size() == 1 && whole_.late_reductions.empty() && whole_.spread.empty()) {
    for (size_t m = 0; m < sends_.size(); ++m)
      spread(static_cast<uint8_t*>(recvs_[m].buffer), static_cast<uint8_t*>(sends_[m].buffer), sends_[m].bytes);
    return;
  }
  for (const MergeMessage& m : sends_) whole_.sends.push_back({group_of(m.to), m.buffer, m.bytes, m.exchange});
  for (const MergeMessage& m : recvs_) whole_.recvs.push_back({group_of(m.from), m.buffer, m.bytes, m.exchange});
}

// Between members, each message has both sides here. REQUIRES: they are sorted.
Status Merge::check_own() const {
  auto recv = recvs_.begin();
  const auto next = [&] {
    while (recv != recvs_.end() && !is_mine(recv->from)) ++recv;
    return recv != recvs_.end();
  };
  for (const MergeMessage& send : sends_) {
    if (!is_mine(send.to)) continue;
    const bool fits = next() && recv->from == send.from && recv->to == send.to;
    if (!fits || recv->bytes != send.bytes)
      return Status::error(wrong_length(send.bytes, fits ? recv->bytes : 0),
                           "rank %d sends %zu bytes to rank %d, which receives %s", send.from,
                           static_cast<size_t>(send.bytes), send.to,
                           fits ? (std::to_string(recv->bytes) + " bytes").c_str() : "nothing");
    ++recv;
  }
  if (!next()) return {};
  return Status::error(Code::invalid_usage, "rank %d receives %zu bytes from rank %d, which sends nothing", recv->to,
                       static_cast<size_t>(recv->bytes), recv->from);
}

Status Merge::add(size_t c) {
  switch (task(c).function) {
    case Function::broadcast: broadcast(c); return {};
    case Function::all_gather: all_gather(c); return {};
    case Function::all_to_all: all_to_all(c); return {};
    case Function::gather: gather(c); return {};
    case Function::scatter: scatter(c); return {};
    case Function::all_reduce: all_reduce(c); return {};
    case Function::reduce: reduce(c); return {};
    case Function::reduce_scatter: reduce_scatter(c); return {};
    case Function::scan:
    case Function::exscan: scan(c); return {};
    default: return Status::error(Code::internal, "a device group does not run such a collective");
  }
}

Status Merge::make() {
  whole_.clear();
  add_parts();
  GC_TRY(reserve());
  for (size_t c = 0; c < parts_[0]->collectives.size(); ++c) GC_TRY(add(c));
  sort_messages();
  GC_TRY(check_own());
  hand_on_messages();
  return {};
}

bool suits_groups(const TaskQueue& queue) {
  return std::all_of(queue.collectives.begin(), queue.collectives.end(),
                     [](const CollectiveTask& task) { return task.kernels.local || !reduces(task.function); });
}

Status compose(const DeviceGroups& groups, int mine, std::span<const TaskQueue* const> parts, bool gaps,
               gpu::Device& device, Scratch& scratch, TaskQueue* whole) {
  return Merge(groups, mine, parts, gaps, device, scratch, whole).make();
}

}  // namespace gpucoll::coll
