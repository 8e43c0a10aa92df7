// The ways in which kernels do the collectives of their plans. Each kernel has one, since what shares a kernel shares
// its registers: a function that needs many of them is slow beside others (docs/adr/0027).
//
//   ConnectionVariant<Family>  rings and trees, by connections; sends and receives may be among them
//   AllPairsVariant<Red>       all pairs
//   ZeroCopyOrAllPairs<Red>    on all ranks' buffers where they are known, else by all pairs, with the same bits
//   ZeroCopyOrRing<Family>     on all ranks' buffers where they are known, else round the ring, with the same bits
//
// way::run(block, batch, work, opened) does one item. kMessages: whether batches may be of sends and receives.
// Thread safety: called by all threads of the block that works for the channel. Ownership: none.
#pragma once
#include "kernels/all_pairs.h"
#include "kernels/ring_all_gather.h"
#include "kernels/ring_all_reduce.h"
#include "kernels/ring_broadcast.h"
#include "kernels/ring_reduce.h"
#include "kernels/ring_reduce_scatter.h"
#include "kernels/ring_scan.h"
#include "kernels/tree_all_reduce.h"
#include "kernels/zero_copy.h"
#include "proto/primitives_ll128.h"

namespace gpucoll::coll::device {

// The buffers of an operation on all ranks' buffers. mine: how the other ranks know this rank's, null for other
// operations; all: room for those of all ranks.
struct Opened {
  const proto::BufferAddresses* mine;
  PeerBuffers& all;
};

template <class Family, class Protocol, class Block>
GC_DEV void run_collective(const Block& block, const proto::Batch& batch, const Work& work) {
  using proto::Algorithm;
  using proto::Function;
  switch (batch.function) {
    case Function::all_reduce:
      if constexpr (Family::kOps != 0) {
        if (batch.algorithm == Algorithm::tree) return tree_all_reduce<Family, Protocol>(block, work);
        return ring_all_reduce<Family, Protocol>(block, work);
      }
      return;
    case Function::reduce:
      if constexpr (Family::kOps != 0) ring_reduce<Family, Protocol>(block, work);
      return;
    case Function::reduce_scatter:
      if constexpr (Family::kOps != 0) ring_reduce_scatter<Family, Protocol>(block, work);
      return;
    case Function::scan:
    case Function::exscan:
      if constexpr (Family::kOps != 0) ring_scan<Family, Protocol>(block, work, batch.function == Function::scan);
      return;
    case Function::broadcast: return ring_broadcast<Protocol>(block, work);
    case Function::all_gather: return ring_all_gather<Protocol>(block, work);
    case Function::all_to_all:
    case Function::gather:
    case Function::scatter:
    case Function::send_recv: return;
  }
}

// The functions that have direct stores, with them.
template <class Family, class Block>
GC_DEV void run_direct(const Block& block, const proto::Batch& batch, const Work& work) {
  using proto::DirectSimple;
  using proto::Function;
  if (batch.function == Function::broadcast) return ring_broadcast<DirectSimple>(block, work);
  if (batch.function == Function::all_gather) return ring_all_gather<DirectSimple>(block, work);
  if constexpr (Family::kOps != 0) ring_all_reduce<Family, DirectSimple>(block, work);
}

template <class Family, class Block>
GC_DEV void run_by_protocol(const Block& block, const proto::Batch& batch, const Work& work) {
  switch (batch.protocol) {
    case proto::Protocol::simple:
      if (work.item.direct != 0) return run_direct<Family>(block, batch, work);
      return run_collective<Family, proto::Simple<>>(block, batch, work);
    case proto::Protocol::ll: return run_collective<Family, proto::Ll>(block, batch, work);
    case proto::Protocol::ll128: return run_collective<Family, proto::Ll128>(block, batch, work);
  }
}

template <class Family>
struct ConnectionVariant {
  static constexpr bool kMessages = true;
  template <class Block>
  static GC_DEV void run(const Block& block, const proto::Batch& batch, const Work& work, const Opened&) {
    run_by_protocol<Family>(block, batch, work);
  }
};

// Red: or CopyOf, where data are only moved; OneOf<Family> where one kernel is to do them all.
template <class Red>
struct AllPairsVariant {
  static constexpr bool kMessages = false;
  template <class Block>
  static GC_DEV void run(const Block& block, const proto::Batch& batch, const Work& work, const Opened&) {
    all_pairs<Red>(block, work, batch.function);
  }
};

// REQUIRES: kMayOpen of the reduction, and opened.mine. Elsewhere there is nothing to run.
template <class Red>
struct ZeroCopyOrAllPairs {
  static constexpr bool kMessages = false;
  using Family = typename proto::FamilyToChooseFrom<Red>::Type;
  template <class Block>
  static GC_DEV void run(const Block& block, const proto::Batch& batch, const Work& work, const Opened& opened) {
    if constexpr (proto::kMayOpen<Red>) {
      const Work own{work.comm, work.item, work.channel, proto::kChosen<Red> ? work.op : uint8_t{0}};
      if (!zero_copy<Family>(block, batch, own, opened.mine, opened.all)) all_pairs<Red>(block, own, batch.function);
    }
  }
};
template <class Family>
struct ZeroCopyOrRing {
  static constexpr bool kMessages = false;
  template <class Block>
  static GC_DEV void run(const Block& block, const proto::Batch& batch, const Work& work, const Opened& opened) {
    using proto::Function;
    using proto::Simple;
    if constexpr (!proto::kPadded<typename Family::Element>) {
      if (zero_copy<Family>(block, batch, work, opened.mine, opened.all)) return;
      if (batch.function == Function::reduce) return ring_reduce<Family, Simple<>>(block, work);
      if (batch.function == Function::reduce_scatter) return ring_reduce_scatter<Family, Simple<>>(block, work);
      ring_all_reduce<Family, Simple<>>(block, work);
    }
  }
};

}  // namespace gpucoll::coll::device
