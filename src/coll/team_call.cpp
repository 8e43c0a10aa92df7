#include "coll/team_call.h"

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "coll/address.h"
#include "coll/kernels.h"
#include "coll/packing.h"

namespace gpucoll::coll {
namespace {

using core::CollectiveTask;
using core::TaskQueue;
using proto::Function;

// Operands that a kernel of reductions takes at once.
constexpr size_t kOperands = 3;

bool reduces(Function function) {
  switch (function) {
    case Function::all_reduce:
    case Function::reduce:
    case Function::reduce_scatter:
    case Function::scan:
    case Function::exscan: return true;
    default: return false;
  }
}

// From one rank of the MPI communicator to another.
struct Message {
  int from, to;
  void* buffer;
  uint64_t bytes;
  bool exchange;
};

class Composer {
 public:
  Composer(const Teams& teams, int mine, std::span<const TaskQueue* const> parts, bool gaps, gpu::Device& device,
           Scratch& scratch, TaskQueue* whole)
      : teams_(teams),
        mine_(mine),
        members_(teams.members[static_cast<size_t>(mine)]),
        parts_(parts),
        gaps_(gaps),
        device_(device),
        scratch_(scratch),
        whole_(*whole) {}
  Status make();

 private:
  struct Ends {
    uint8_t *send, *recv;
  };
  size_t size() const { return members_.size(); }
  int n_ranks() const { return static_cast<int>(teams_.of.size()); }
  int team_of(int rank) const { return teams_.of[static_cast<size_t>(rank)]; }
  bool is_mine(int rank) const { return team_of(rank) == mine_; }
  size_t place_of(int rank) const {
    return static_cast<size_t>(std::find(members_.begin(), members_.end(), rank) - members_.begin());
  }
  // Collective c of the call, which is the leader's but for the addresses.
  const CollectiveTask& task(size_t c) const { return parts_[0]->collectives[c]; }
  Ends ends(size_t c, size_t member) const {
    const CollectiveTask& its = parts_[member]->collectives[c];
    return {static_cast<uint8_t*>(const_cast<void*>(its.send)), static_cast<uint8_t*>(its.recv)};
  }

  Status add(size_t c);
  void broadcast(size_t c);
  void all_gather(size_t c);
  void all_to_all(size_t c);
  void gather(size_t c);
  void scatter(size_t c);
  void all_reduce(size_t c);
  void reduce(size_t c);
  void reduce_scatter(size_t c);
  void scan(size_t c);
  bool is_scanned(const CollectiveTask& its, int rank, int team) const;
  uint8_t* operand_of(size_t c, int rank, uint64_t bytes);

  void add_parts();
  void add_task(const CollectiveTask& like, Function function, const void* send, void* recv, uint64_t count, int team);
  uint8_t* combine(size_t c, uint64_t count, uint8_t* result);
  static core::LocalTask pair_of(const CollectiveTask& its, uint8_t* first, uint8_t* second, uint8_t* result) {
    return {its.local, {second, first, result, 0, its.count, its.argument, 1, 2, its.op, {}}, its.element_bytes};
  }
  void spread_result(const CollectiveTask& its, uint8_t* to, uint8_t* from);
  void spread(uint8_t* to, const uint8_t* from, uint64_t bytes) {
    if (to != from) add_copy(whole_, &whole_.spread, to, from, bytes);
  }
  void sends(int from, int to, uint8_t* buffer, uint64_t bytes) {
    if (bytes) sends_.push_back({from, to, buffer, bytes, true});
  }
  void receives(int from, int to, uint8_t* buffer, uint64_t bytes) {
    if (bytes) recvs_.push_back({from, to, buffer, bytes, true});
  }
  Status check_own() const;
  void sort_out_messages();

  uint8_t* aside(uint64_t bytes);
  Status reserve();

  const Teams& teams_;
  const int mine_;
  const std::vector<int>& members_;
  const std::span<const TaskQueue* const> parts_;
  const bool gaps_;
  gpu::Device& device_;
  Scratch& scratch_;
  TaskQueue& whole_;
  std::vector<Message> sends_, recvs_;
  uint8_t* aside_ = nullptr;  // what is left of scratch_
};

void Composer::add_parts() {
  const auto add_all = [](auto& to, const auto& from) { to.insert(to.end(), from.begin(), from.end()); };
  for (size_t i = 0; i < size(); ++i) {
    const TaskQueue& part = *parts_[i];
    add_all(whole_.before, part.before);
    add_all(whole_.after, part.after);
    for (const TaskQueue::Pair& send : part.sends)
      sends_.push_back({members_[i], send.peer, send.buffer, send.bytes, send.exchange});
    for (const TaskQueue::Pair& recv : part.recvs)
      recvs_.push_back({recv.peer, members_[i], recv.buffer, recv.bytes, recv.exchange});
  }
  whole_.packing = packing_kernel();
}

// ---- what only moves ----

void Composer::broadcast(size_t c) {
  const CollectiveTask& its = task(c);
  const int root = static_cast<int>(its.root), team = team_of(root);
  uint8_t* const here = ends(c, is_mine(root) ? place_of(root) : 0).recv;
  const uint64_t bytes = its.count * its.element_bytes;
  if (teams_.size() > 1) add_task(its, Function::broadcast, here, here, its.count, team);
  for (size_t i = 0; i < size(); ++i) spread(ends(c, i).recv, here, bytes);
}

// The leader gets all blocks, and the members copy its memory: but for a few blocks of members alone, which they copy
// from each other at once.
void Composer::all_gather(size_t c) {
  const uint64_t bytes = task(c).count * task(c).element_bytes;
  const auto block = [&](uint8_t* all, int rank) { return all + static_cast<uint64_t>(rank) * bytes; };
  if (teams_.size() == 1 && size() * size() <= proto::kPackItems) {
    for (size_t to = 0; to < size(); ++to)
      for (size_t i = 0; i < size(); ++i) spread(block(ends(c, to).recv, members_[i]), ends(c, i).send, bytes);
    return;
  }
  uint8_t* const all = ends(c, 0).recv;
  const int here = members_[0];
  for (size_t i = 0; i < size(); ++i) {
    uint8_t* const own = ends(c, i).send;
    for (int leader : teams_.leaders())
      if (leader != here || own != block(all, members_[i])) sends(members_[i], leader, own, bytes);
  }
  for (int r = 0; r < n_ranks(); ++r)
    if (!is_mine(r) || ends(c, place_of(r)).send != block(all, r)) receives(r, here, block(all, r), bytes);
  for (size_t i = 1; i < size(); ++i) spread(ends(c, i).recv, all, static_cast<uint64_t>(n_ranks()) * bytes);
}

void Composer::all_to_all(size_t c) {
  const uint64_t bytes = task(c).count * task(c).element_bytes;
  for (size_t i = 0; i < size(); ++i)
    for (int r = 0; r < n_ranks(); ++r) {
      sends(members_[i], r, ends(c, i).send + static_cast<uint64_t>(r) * bytes, bytes);
      receives(r, members_[i], ends(c, i).recv + static_cast<uint64_t>(r) * bytes, bytes);
    }
}

// In place, the root's own block is where it belongs.
void Composer::gather(size_t c) {
  const uint64_t bytes = task(c).count * task(c).element_bytes;
  const int root = static_cast<int>(task(c).root);
  uint8_t* const all = is_mine(root) ? ends(c, place_of(root)).recv : nullptr;
  const auto block = [&](int rank) { return all + static_cast<uint64_t>(rank) * bytes; };
  const auto stays = [&](int rank) { return rank == root && ends(c, place_of(root)).send == block(root); };
  for (size_t i = 0; i < size(); ++i)
    if (!stays(members_[i])) sends(members_[i], root, ends(c, i).send, bytes);
  for (int r = 0; all && r < n_ranks(); ++r)
    if (!stays(r)) receives(r, root, block(r), bytes);
}

void Composer::scatter(size_t c) {
  const uint64_t bytes = task(c).count * task(c).element_bytes;
  const int root = static_cast<int>(task(c).root);
  uint8_t* const all = is_mine(root) ? ends(c, place_of(root)).send : nullptr;
  const auto block = [&](int rank) { return all + static_cast<uint64_t>(rank) * bytes; };
  const auto stays = [&](int rank) { return rank == root && ends(c, place_of(root)).recv == block(root); };
  for (int r = 0; all && r < n_ranks(); ++r)
    if (!stays(r)) sends(root, r, block(r), bytes);
  for (size_t i = 0; i < size(); ++i)
    if (!stays(members_[i])) receives(root, members_[i], ends(c, i).recv, bytes);
}

// ---- what reduces ----

// The members' operands, in the order of their ranks. Where it is: `result`, or the only member's own.
// REQUIRES: the first member's operand is the only one that may be at `result`, or there are kOperands at most.
uint8_t* Composer::combine(size_t c, uint64_t count, uint8_t* result) {
  const CollectiveTask& its = task(c);
  uint8_t* sum = ends(c, 0).send;
  for (size_t next = 1; next < size(); sum = result) {
    const size_t n = std::min(size() - next + 1, kOperands);
    uint8_t* const second = ends(c, next).send;
    // The last one is `own`; the others lie as far apart as they do.
    const bool three = n == kOperands;
    uint8_t* const last = three ? ends(c, next + 1).send : second;
    const uint64_t stride = three ? reinterpret_cast<uintptr_t>(second) - reinterpret_cast<uintptr_t>(sum) : 0;
    const auto ranks = static_cast<uint32_t>(n);
    whole_.reductions.push_back(
        {its.local, {last, sum, result, stride, count, its.argument, ranks - 1, ranks, its.op, {}}, its.element_bytes});
    next += n - 1;
  }
  return sum;
}

void Composer::all_reduce(size_t c) {
  const CollectiveTask& its = task(c);
  uint8_t* const result = ends(c, 0).recv;
  uint8_t* const sum = combine(c, its.count, result);
  if (teams_.size() > 1) add_task(its, Function::all_reduce, sum, result, its.count, 0);
  for (size_t i = 1; i < size(); ++i) spread_result(its, ends(c, i).recv, result);
}

// What lies in place at the root is still to be read when a chain of kernels begins to store: it has another place.
void Composer::reduce(size_t c) {
  const CollectiveTask& its = task(c);
  const int root = static_cast<int>(its.root);
  const uint64_t bytes = its.count * its.element_bytes;
  const Ends at_root = is_mine(root) ? ends(c, place_of(root)) : Ends{nullptr, nullptr};
  const bool in_the_way = at_root.recv == at_root.send && root != members_[0] && size() > kOperands;
  uint8_t* result = at_root.recv;
  if (!is_mine(root) || in_the_way) result = aside(bytes);
  uint8_t* const sum = combine(c, its.count, result);
  if (teams_.size() > 1)
    add_task(its, Function::reduce, sum, at_root.recv, its.count, team_of(root));
  else
    spread_result(its, at_root.recv, sum);
}

// A reduce to each rank's leader, side by side, of what the team has put together.
void Composer::reduce_scatter(size_t c) {
  const CollectiveTask& its = task(c);
  const uint64_t bytes = its.count * its.element_bytes, n = static_cast<uint64_t>(n_ranks());
  uint8_t* const sum = combine(c, n * its.count, aside(n * bytes));
  for (int r = 0; r < n_ranks(); ++r) {
    uint8_t* const to = is_mine(r) ? ends(c, place_of(r)).recv : nullptr;
    uint8_t* const from = sum + static_cast<uint64_t>(r) * bytes;
    if (teams_.size() > 1)
      add_task(its, Function::reduce, from, to, its.count, team_of(r));
    else
      spread_result(its, to, from);
  }
}

// Whether the members of a team need what the rank has.
bool Composer::is_scanned(const CollectiveTask& its, int rank, int team) const {
  const int last = teams_.members[static_cast<size_t>(team)].back();
  return its.function == Function::scan ? rank <= last : rank < last;
}

// Of a scan: a member's own, or where that of another rank is to arrive.
uint8_t* Composer::operand_of(size_t c, int rank, uint64_t bytes) {
  if (is_mine(rank)) return ends(c, place_of(rank)).send;
  uint8_t* const landed = aside(bytes);
  receives(rank, members_[0], landed, bytes);
  return landed;
}

// Prefixes that members get are kept aside until all operands have been read: these may lie in place.
void Composer::scan(size_t c) {
  const CollectiveTask& its = task(c);
  const uint64_t bytes = its.count * its.element_bytes;
  for (int member : members_)
    for (int team = 0; team < teams_.size(); ++team)
      if (team != mine_ && is_scanned(its, member, team))
        sends(member, teams_.members[static_cast<size_t>(team)].front(), ends(c, place_of(member)).send, bytes);
  const int shift = its.function == Function::scan ? 0 : 1;  // an exscan's prefixes end before the rank
  std::vector<std::pair<uint8_t*, uint8_t*>> results;        // to, from
  uint8_t* prefix = nullptr;
  for (int r = 0; is_scanned(its, r, mine_); ++r) {
    uint8_t* const next = operand_of(c, r, bytes);
    uint8_t* const to = r ? aside(bytes) : next;
    if (r) whole_.late_reductions.push_back(pair_of(its, prefix, next, to));
    prefix = to;
    const int gets = r + shift;
    if (gets < n_ranks() && is_mine(gets)) results.emplace_back(ends(c, place_of(gets)).recv, prefix);
  }
  for (const auto& [to, from] : results) spread_result(its, to, from);
}

void Composer::add_task(const CollectiveTask& like, Function function, const void* send, void* recv, uint64_t count,
                        int team) {
  CollectiveTask made = like;
  made.function = function;
  made.send = send;
  made.recv = recv;
  made.count = count;
  made.root = static_cast<uint32_t>(team);
  whole_.collectives.push_back(made);
}

// A pair that is reduced with itself stays as it is (maxloc, minloc), and so does what lies in the gaps of the result.
void Composer::spread_result(const CollectiveTask& its, uint8_t* to, uint8_t* from) {
  if (!gaps_) return spread(to, from, its.count * its.element_bytes);
  if (to != from) whole_.late_reductions.push_back(pair_of(its, from, from, to));
}

// ---- scratch memory ----

// As much as all of the call's reductions may ask for at once.
Status Composer::reserve() {
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

uint8_t* Composer::aside(uint64_t bytes) {
  uint8_t* const here = aside_;
  aside_ = moved(aside_, static_cast<ptrdiff_t>(packs(bytes)));
  return here;
}

// ---- messages ----

void Composer::sort_out_messages() {
  const auto order = [](const Message& a, const Message& b) { return std::tie(a.from, a.to) < std::tie(b.from, b.to); };
  std::stable_sort(sends_.begin(), sends_.end(), order);
  std::stable_sort(recvs_.begin(), recvs_.end(), order);
  for (const Message& m : sends_) whole_.sends.push_back({team_of(m.to), m.buffer, m.bytes, m.exchange});
  for (const Message& m : recvs_) whole_.recvs.push_back({team_of(m.from), m.buffer, m.bytes, m.exchange});
}

// Between members, each message has both sides here. REQUIRES: they are sorted out.
Status Composer::check_own() const {
  auto recv = recvs_.begin();
  const auto next = [&] {
    while (recv != recvs_.end() && !is_mine(recv->from)) ++recv;
    return recv != recvs_.end();
  };
  for (const Message& send : sends_) {
    if (!is_mine(send.to)) continue;
    const bool any = next();
    if (!any || recv->from != send.from || recv->to != send.to || recv->bytes != send.bytes)
      return Status::error(Code::invalid_usage, "rank %d sends %zu bytes to rank %d, which receives %s", send.from,
                           static_cast<size_t>(send.bytes), send.to,
                           any && recv->from == send.from && recv->to == send.to
                               ? (std::to_string(recv->bytes) + " bytes").c_str()
                               : "nothing");
    ++recv;
  }
  if (!next()) return {};
  return Status::error(Code::invalid_usage, "rank %d receives %zu bytes from rank %d, which sends nothing", recv->to,
                       static_cast<size_t>(recv->bytes), recv->from);
}

Status Composer::add(size_t c) {
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
    default: return Status::error(Code::internal, "a team does not run such a collective");
  }
}

Status Composer::make() {
  whole_.clear();
  add_parts();
  GC_TRY(reserve());
  for (size_t c = 0; c < parts_[0]->collectives.size(); ++c) GC_TRY(add(c));
  sort_out_messages();
  return check_own();
}

}  // namespace

bool suits_teams(const TaskQueue& queue) {
  return std::all_of(queue.collectives.begin(), queue.collectives.end(),
                     [](const CollectiveTask& task) { return task.local || !reduces(task.function); });
}

Status compose(const Teams& teams, int mine, std::span<const TaskQueue* const> parts, bool gaps, gpu::Device& device,
               Scratch& scratch, TaskQueue* whole) {
  return Composer(teams, mine, parts, gaps, device, scratch, whole).make();
}

}  // namespace gpucoll::coll
