// How the call of a group's leader is put together (merged_call.h): what only moves in merge_moves.cpp, what reduces in
// merge_reductions.cpp.
//
// Thread safety: one caller. Ownership: borrows everything.
#pragma once
#include <algorithm>
#include <span>
#include <vector>

#include "coll/shared_gpu/device_groups.h"
#include "core/plan/task.h"
#include "mpi/staging/packing.h"
#include "mpi/staging/scratch.h"

namespace gpucoll::coll {

// From one rank of the MPI communicator to another.
struct MergeMessage {
  int from, to;
  void* buffer;
  uint64_t bytes;
  bool exchange;
};

class Merge {
 public:
  Merge(const DeviceGroups& groups, int mine, std::span<const core::TaskQueue* const> parts, bool gaps,
        gpu::Device& device, Scratch& scratch, core::TaskQueue* whole)
      : groups_(groups),
        mine_(mine),
        members_(groups.members[static_cast<size_t>(mine)]),
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
  int n_ranks() const { return static_cast<int>(groups_.of.size()); }
  int group_of(int rank) const { return groups_.of[static_cast<size_t>(rank)]; }
  bool is_mine(int rank) const { return group_of(rank) == mine_; }
  size_t place_of(int rank) const {
    return static_cast<size_t>(std::find(members_.begin(), members_.end(), rank) - members_.begin());
  }
  // Collective c of the call, which is the leader's but for the addresses.
  const core::CollectiveTask& task(size_t c) const { return parts_[0]->collectives[c]; }
  Ends ends(size_t c, size_t member) const {
    const core::CollectiveTask& its = parts_[member]->collectives[c];
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
  bool is_scanned(const core::CollectiveTask& its, int rank, int group) const;
  uint8_t* operand_of(size_t c, int rank, uint64_t bytes);

  void add_parts();
  void add_task(const core::CollectiveTask& like, proto::Function function, const void* send, void* recv,
                uint64_t count, int group);
  uint8_t* combine(size_t c, uint64_t count, uint8_t* result, std::span<uint8_t* const> more = {});
  static core::LocalTask pair_of(const core::CollectiveTask& its, uint8_t* first, uint8_t* second, uint8_t* result) {
    return local_task(its, {second, first, result, its.count, 0, 1, 2});
  }
  void spread_result(const core::CollectiveTask& its, uint8_t* to, uint8_t* from);
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
  void sort_messages();
  void hand_on_messages();

  uint8_t* aside(uint64_t bytes);
  Status reserve();

  const DeviceGroups& groups_;
  const int mine_;
  const std::vector<int>& members_;
  const std::span<const core::TaskQueue* const> parts_;
  const bool gaps_;
  gpu::Device& device_;
  Scratch& scratch_;
  core::TaskQueue& whole_;
  std::vector<MergeMessage> sends_, recvs_;
  uint8_t* aside_ = nullptr;  // what is left of scratch_
};

}  // namespace gpucoll::coll
