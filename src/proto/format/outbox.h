// Format: messages that a process offers to others of its node, which then copy the data from its memory themselves.
//
// Each process has one Outbox in shared memory. A message is offered in a slot, and the PML carries an envelope of
// kEnvelopeBytes that names the slot: so the PML matches it as it matches any message. Slots of one receiver, context
// and tag have serial numbers in the order in which the PML gets their envelopes, and that is the order in which it
// matches them: so a receiver that has no envelope in its hands, as it probes for it, or had no room for it, knows
// which slot it is: the one with the least serial number.
//
// Life of a slot; each state is stored with release by the one who leads it on:
//   free -> filled (sender) -> offered (sender) [-> matched (receiver)] -> taken (receiver) -> done or failed
//   (receiver)
//   -> free (sender)
// A matched probe makes it matched: the next probe finds the next message.
// A message of just kEnvelopeBytes that the PML carries itself has a slot as well (`plain`), so that a probe which
// finds that many bytes knows which kind of message it has found; the receiver frees it, straight from offered or
// matched.
//
// Ways of the data.
// - The receiver's kernel or copy engine copies them from the sender's memory, as the slot tells the place.
// - Eager messages are small: where the receiver does not take one at once, the sender copies it into the slot's part
//   of `eager`, and need not wait any more. Launch `eager_at` of the sender's device has put the data there. The sender
//   stores that a copy comes before it looks whether the slot is taken, and the receiver stores taken before it looks
//   for a copy: so they never both read the memory, which the program may free once the receiver has the data. The
//   sender may leave where that launch has ended and the slot is not taken: so either the sender stays, or the receiver
//   sees that the data are there. What the sender has left, the receiver leads on to done, and the sender takes the
//   slot for another message then.
// - A receiver that cannot open the sender's memory, or receives into host memory, stores `by_host`: then the sender
//   copies an eager message into the slot's part of `eager` at once, and another one piece by piece into `bounce`, for
//   one slot at a time; `produced` and `consumed` count bytes of the message.
//
// A sender that fails stores `is_broken`, and leaves the slot to its receiver, which fails as well.
//
// `live`: serial numbers of the allocations that slots name, as on a rank's page (format/copy.h), for each device that
// the process offers memory of. `done`: how many launches of copies have ended on each; kernels count it.
#pragma once
#include <cstddef>
#include <cstdint>

#include "proto/format/copy.h"
#include "proto/format/packing.h"

namespace gpucoll::proto {

// Programs seldom have messages of this size.
inline constexpr size_t kEnvelopeBytes = 113;
inline constexpr size_t kSecretBytes = 5;
inline constexpr uint8_t kEnvelopeMagic[2] = {0xc6, 0x9d};
inline constexpr uint32_t kOutboxSlots = 256;
inline constexpr uint32_t kOutboxPlainSlots = 64;  // most slots for plain messages
inline constexpr uint32_t kOutboxDevices = 8;
inline constexpr size_t kOutboxBounceBytes = size_t{1} << 20;
inline constexpr size_t kEagerBytes = size_t{4} << 10;  // most of an eager message: what PMLs send at once
inline constexpr uint64_t kEagerComes = ~uint64_t{0};   // no launch has this number

enum class Offer : uint32_t { free, filled, offered, matched, taken, done, failed };

// The list of runs of a layout, in memory of the sender: runs, and starts behind them. A receiver copies it once, and
// keeps it under its serial number. The memory is another list's once the slot is done.
struct OutboxList {
  uint64_t serial;  // among all lists of the sender; 0: the layout has levels
  uint64_t runs, starts;
  uint64_t offset;
  uint32_t place_slot, place_serial;
  uint64_t granule_bits;
  uint8_t handle[112];  // gpu::MemoryHandle
};

struct alignas(64) OutboxSlot {
  uint32_t state;  // Offer
  uint32_t by_host;
  uint64_t serial;
  uint64_t to;  // the receiver's outbox: its inode
  uint64_t context;
  int32_t tag;
  uint32_t plain;
  uint64_t bytes;
  uint32_t device;  // of `live`
  uint32_t place_slot, place_serial;
  uint32_t kernels_only;  // copy engines may be refused the memory, as others share its block
  uint32_t has_place;     // 0: nobody else can open the memory
  uint32_t is_eager;
  uint32_t is_broken;   // the sender has failed: no more data come
  uint32_t has_layout;  // the data at the place have gaps, as `layout` and `list` tell; it begins at their first byte
  uint64_t offset;
  uint64_t packed_at;   // the launch after which the data are at the place; 0: they are
  uint64_t eager_at;    // 0: none yet; kEagerComes
  uint8_t handle[112];  // gpu::MemoryHandle
  PackLayout layout;
  OutboxList list;
  alignas(64) uint64_t produced;
  alignas(64) uint64_t consumed;
};

struct Outbox {
  uint64_t nonce[2];
  uint32_t uses_devices;  // the process has had device memory in a message: others may offer theirs to it
  uint32_t has_unnoted;   // some plain message has found no slot, ever: a receiver may look for its slot in vain
  uint32_t live[kOutboxDevices][kExportSlots];
  uint8_t uuid[kOutboxDevices][16];  // of the device
  alignas(64) uint64_t done[kOutboxDevices];
  OutboxSlot slot[kOutboxSlots];
  alignas(4096) uint8_t eager[kOutboxSlots][kEagerBytes];
  alignas(4096) uint8_t bounce[kOutboxBounceBytes];
};

// The PML carries this in place of the data: of messages smaller than it as much of it as they have bytes. So a probe
// finds the size of these, and a receive writes where the data will be, and nowhere else.
struct Envelope {
  uint8_t magic[2];
  uint8_t slot;
  uint8_t secret[kSecretBytes];  // the beginning of the nonce; the process's blob has it, too
  uint64_t nonce[2];             // of the sender's outbox
  uint64_t serial;
  uint8_t rest[kEnvelopeBytes - 32];  // zeros
};
static_assert(offsetof(Envelope, rest) == 32 && kOutboxSlots <= 256);
inline constexpr size_t kLeastEnvelopeBytes = offsetof(Envelope, nonce);

}  // namespace gpucoll::proto
