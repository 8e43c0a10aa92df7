// The calls of MPI that a Move makes.
//
// Thread safety and ownership: see generated_moves.h.
#pragma once
#include "generated_moves.h"

namespace generated {

inline int Move::call() {
  // Where an argument means nothing, so does its type; but beside a root Open MPI 4.1 looks whether the count is 0.
  const int usual = beside_root() ? most_ : 0;
  const MPI_Datatype any = beside_root() ? base_->handle : MPI_BYTE;
  const MPI_Datatype to = !send_types_.empty() ? send_types_[0].handle : scatters() ? MPI_DATATYPE_NULL : any;
  const MPI_Datatype from = !recv_types_.empty() ? recv_types_[0].handle : gathers() ? MPI_DATATYPE_NULL : any;
  Arguments& s = to_ = Arguments(send_.get(), send_blocks_, send_types_.empty() ? usual : most_, to);
  Arguments& r = from_ = Arguments(recv_.get(), recv_blocks_, recv_types_.empty() ? usual : most_, from);
  if (is_in_place()) (scatters() ? r : s).buffer = MPI_IN_PLACE;
  if (typed()) {
    // Open MPI 4.1 retains types that mean nothing here: those in place, and of as many ranks as there are neighbours.
    if (is_in_place()) s.types = r.types;
    for (Arguments* a : {&s, &r}) a->types.resize(a->types.size() + 8, MPI_BYTE);
  }
  int root = root_;
  if (group_.inter && group_.side == root_side_) root = is_root() ? MPI_ROOT : MPI_PROC_NULL;
  switch (function_) {
    case F::bcast: return GC_BEGIN(Bcast, bcast, r.buffer, r.count, r.type, root);
    case F::gather: return GC_BEGIN(Gather, gather, s.buffer, s.count, s.type, r.buffer, r.count, r.type, root);
    case F::gatherv:
      return GC_BEGIN(Gatherv, gatherv, s.buffer, s.count, s.type, r.buffer, r.counts.data(), r.places.data(), r.type,
                      root);
    case F::scatter: return GC_BEGIN(Scatter, scatter, s.buffer, s.count, s.type, r.buffer, r.count, r.type, root);
    case F::scatterv:
      return GC_BEGIN(Scatterv, scatterv, s.buffer, s.counts.data(), s.places.data(), s.type, r.buffer, r.count, r.type,
                      root);
    case F::allgather: return GC_BEGIN(Allgather, allgather, s.buffer, s.count, s.type, r.buffer, r.count, r.type);
    case F::allgatherv:
      return GC_BEGIN(Allgatherv, allgatherv, s.buffer, s.count, s.type, r.buffer, r.counts.data(), r.places.data(),
                      r.type);
    case F::alltoall: return GC_BEGIN(Alltoall, alltoall, s.buffer, s.count, s.type, r.buffer, r.count, r.type);
    case F::alltoallv:
      return GC_BEGIN(Alltoallv, alltoallv, s.buffer, s.counts.data(), s.places.data(), s.type, r.buffer,
                      r.counts.data(), r.places.data(), r.type);
    case F::alltoallw:
      return GC_BEGIN(Alltoallw, alltoallw, s.buffer, s.counts.data(), s.byte_places.data(), s.types.data(), r.buffer,
                      r.counts.data(), r.byte_places.data(), r.types.data());
    case F::neighbor_allgather:
      return GC_BEGIN(Neighbor_allgather, neighbor_allgather, s.buffer, s.count, s.type, r.buffer, r.count, r.type);
    case F::neighbor_allgatherv:
      return GC_BEGIN(Neighbor_allgatherv, neighbor_allgatherv, s.buffer, s.count, s.type, r.buffer, r.counts.data(),
                      r.places.data(), r.type);
    case F::neighbor_alltoall:
      return GC_BEGIN(Neighbor_alltoall, neighbor_alltoall, s.buffer, s.count, s.type, r.buffer, r.count, r.type);
    case F::neighbor_alltoallv:
      return GC_BEGIN(Neighbor_alltoallv, neighbor_alltoallv, s.buffer, s.counts.data(), s.places.data(), s.type,
                      r.buffer, r.counts.data(), r.places.data(), r.type);
    default:
      return GC_BEGIN(Neighbor_alltoallw, neighbor_alltoallw, s.buffer, s.counts.data(), s.far_places.data(),
                      s.types.data(), r.buffer, r.counts.data(), r.far_places.data(), r.types.data());
  }
}

}  // namespace generated
