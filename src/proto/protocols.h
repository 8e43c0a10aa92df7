// Protocols by which data cross a connection, and what primitives over any of them share.
//
// Primitives<Family, Coop, Protocol, F> (primitives.h, primitives_ll.h, primitives_ll128.h) are specialised on the
// tags below. All have the same operations, so that an algorithm is written once.
// Thread safety and ownership: plain data.
#pragma once
#include "proto/format/connection.h"

namespace gpucoll::proto {

// Bulk data in slots, then head and tail counters. An operation is cut into slices, each of kSliceSteps steps of the
// ring buffer; kSlicesPerChunk slices are what an algorithm moves at once.
// kDirect: the direct forms of operations (direct.h) are more than names.
template <int kSliceSteps_ = 2, int kSlicesPerChunk_ = 2, bool kDirect_ = false>
struct Simple {
  static constexpr bool kDirect = kDirect_;
  static constexpr int kSliceSteps = kSliceSteps_;
  static constexpr int kSlicesPerChunk = kSlicesPerChunk_;
  // A slice must lie in neighbouring slots. A sender with one chunk under way must still be able to start the next.
  static_assert(kSteps % kSliceSteps == 0 && 2 * kSliceSteps * kSlicesPerChunk <= kSteps);

  static constexpr GC_HD uint64_t slice_bytes(uint64_t slot_bytes) { return kSliceSteps * slot_bytes; }
  static constexpr GC_HD uint64_t chunk_bytes(uint64_t slot_bytes) { return kSlicesPerChunk * slice_bytes(slot_bytes); }

  // Bytes of each slice (the last may be shorter) of an operation on `bytes`: a chunk's worth is cut into
  // kSlicesPerChunk, so that the peer starts on the first while the second is under way; little is not cut at all, as
  // a slice costs two barriers and a hand-over. The limit was measured on GPUs (docs/measurements).
  static constexpr GC_HD uint64_t cut(uint64_t bytes, uint64_t slot_bytes) {
    constexpr uint64_t kLine = 128;
    const uint64_t most = slice_bytes(slot_bytes), least = most / 8 / kLine * kLine;
    const uint64_t even = ((bytes + kSlicesPerChunk - 1) / kSlicesPerChunk + kLine - 1) / kLine * kLine;
    return even > most ? most : even < least ? least : even;
  }
};
// Data and flags in words of 8 bytes: a half of the bandwidth, the least latency.
struct Ll {
  static constexpr bool kDirect = false;
};
// Data and flags in lines of 128 bytes, where the link keeps these whole.
struct Ll128 {
  static constexpr bool kDirect = false;
};

// The most peers that an operation receives from, and sends to: a ring is Fan<1, 1>, a tree Fan<2, 1> upwards and
// Fan<1, 2> downwards.
template <int kRecv_, int kSend_>
struct Fan {
  static constexpr int kRecv = kRecv_, kSend = kSend_;
  static_assert(0 <= kRecv && kRecv <= 2 && 0 <= kSend && kSend <= 2 && kRecv + kSend > 0);
};

// The ends of connections. Null: no such peer; those that are there come first.
template <class F>
struct Ends {
  Connector* recv[F::kRecv > 0 ? F::kRecv : 1];
  Connector* send[F::kSend > 0 ? F::kSend : 1];
};

// The buffers from which offsets of operations count; input and output may be equal (in place). Where operations have
// direct forms: `granted` is the output as kernels of the rank that is received from know it, null where they do not;
// it has granted_bytes. In collectives this is also what a peer's output must have to be stored into, granted or not.
// REQUIRES where it is given: the connection takes a step before the primitives end.
struct Buffers {
  const void* input;
  void* output;
  uint8_t* granted = nullptr;
  uint64_t granted_bytes = 0;
};
using DirectSimple = Simple<2, 2, true>;

template <class Family, class Coop, class Protocol, class F = Fan<1, 1>>
class Primitives;

}  // namespace gpucoll::proto
