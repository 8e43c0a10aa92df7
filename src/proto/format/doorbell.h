// Format: how the host tells a kernel that has stayed after its operation (plan.h: resident_ns) to run one more.
//
// The doorbell lies in host-mapped memory. A word is 4 bytes of a CollectiveItem, in its lower half, and its news, in
// the upper one: the lower half of the number of the launch that the operation counts as (LaunchCounters::done). A
// kernel of one block and one-shots waits for the number after that of what it ran last, runs the item as a plan of its
// own would, tells its end the same way, and waits again. It leaves when none has come for resident_ns, or where the
// item's function is kLeave, and stores as `left` the number of what it has run last.
//   host    stores the words, in any order, each with release; posts again only once `done` says that the last one was
//           accepted, or `left` that it was not
//   kernel  its first block loads them with acquire, and has the item when all have their news. The acquire also lets
//           it see what other kernels have written since it began: whoever posts has waited for those. It stores the
//           words, or those of an item kLeave, in device memory (DeviceComm::relay), where the other blocks, which wait
//           without end, find them: so all run the same. Two places take turns: the first block may leave while
//           another one has still to see the item before
// The host knows that a kernel has left when left >= the number that the kernel was launched with. Where it had posted
// a later number than `left`, nobody has accepted it, and it makes a launch of it.
#pragma once
#include <cstddef>
#include <cstdint>

#include "proto/format/plan.h"

namespace gpucoll::proto {

inline constexpr uint32_t kDoorbellWords = sizeof(CollectiveItem) / sizeof(uint32_t);
// Marks an item that tells the kernel to leave.
inline constexpr Function kLeave = Function::send_recv;

struct alignas(128) Doorbell {
  uint64_t word[kDoorbellWords];
  alignas(128) uint64_t left;
};
static_assert(kDoorbellWords * sizeof(uint64_t) == 128 && offsetof(Doorbell, left) == 128);
static_assert(sizeof DeviceComm::relay[0] == sizeof Doorbell::word);

constexpr GC_HD uint64_t doorbell_word(uint32_t data, uint64_t number) { return number << 32 | data; }
// Word w of an item kLeave.
constexpr GC_HD uint32_t leave_word(uint32_t w) {
  constexpr size_t kAt = offsetof(CollectiveItem, function);
  return w == kAt / sizeof(uint32_t) ? static_cast<uint32_t>(kLeave) << kAt % sizeof(uint32_t) * 8 : 0;
}
constexpr GC_HD bool is_posted(uint64_t word, uint64_t number) {
  return static_cast<uint32_t>(word >> 32) == static_cast<uint32_t>(number);
}

}  // namespace gpucoll::proto
