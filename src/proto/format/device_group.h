// Format: how the ranks of one device hand a collective of MPI to the one of them that runs it, their leader
// (docs/adr/0023).
//
// Each rank has a page in shared memory: a MemberPage, then so many MemberItems as all ranks agree on. It alone writes
// it. Calls are counted (1, 2, ...), alike on all ranks. For call k
//   a member   writes what it asks for into `items`, then stores handed = k with release
//   the leader has seen handed (acquire), opens the memory, runs the call, and stores `answer` (and `why`), then
//              answered = k on its own page with release: after the results have been seen to be there
//   a member   has seen answered (acquire), and may write items anew.
//
// `live`: serial numbers of the allocations in the slots that places name, as in format/copy.h; 0 for none. A leader
// that has an allocation open under another serial closes it.
#pragma once
#include <cstddef>
#include <cstdint>

#include "proto/format/copy.h"
#include "proto/format/local_reduction.h"
#include "proto/format/packing.h"

namespace gpucoll::proto {

inline constexpr uint32_t kNoSlot = ~uint32_t{0};  // of a place: no address

struct MemberPlace {
  uint32_t slot, serial;
  uint64_t offset;      // in the allocation
  uint8_t handle[112];  // gpu::MemoryHandle
};
static_assert(sizeof(MemberPlace) == 128);

enum class MemberKind : uint32_t {
  collective,  // reads first, writes second; the rest is what the leader calls as well
  send,        // `bytes` at first to rank `peer`
  receive,     // `bytes` at first from rank `peer`
  before,      // `pack` with first and second for its memory and its packed bytes, `lists` for its runs and starts
  after,
  late_reduction  // `reduction` with first, second and lists[0] for own, result and others, by kernel number `kernel`
};

struct MemberItem {
  MemberKind kind;
  int32_t peer;
  uint64_t bytes;
  uint32_t exchange;  // of messages: one of all ranks with all others
  uint32_t kernel, element_bytes;
  uint32_t reserved;
  MemberPlace first, second;
  PackItem pack;
  MemberPlace lists[2];  // of packing without meaning where pack.runs is null
  LocalReduction reduction;
};
static_assert(sizeof(MemberItem) == 32 + 4 * 128 + 128 + sizeof(LocalReduction));

enum class LeaderAnswer : uint32_t {
  done,
  stage,  // from now on all goes through the host, on all ranks alike
  failed,
  truncated  // failed: some rank has less room than what is sent to it
};

struct alignas(64) MemberPage {
  uint64_t handed;
  uint32_t n_items;
  alignas(64) uint64_t answered;
  LeaderAnswer answer;
  char why[500];  // of a failure: text that ends with 0
  alignas(64) uint32_t live[kExportSlots];
};
static_assert(sizeof(MemberPage) == 64 + 512 + 1024 && offsetof(MemberPage, answered) == 64);

}  // namespace gpucoll::proto
