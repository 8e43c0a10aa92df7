// The collectives of the staged test: each with derived types, zero counts and negative displacements, on a
// communicator that may have two groups.
//
// Thread safety: none. Ownership: types and communicators are the caller's.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "staged_case.h"

namespace staged {
using namespace mpi_test;

// ---- types and counts ----

struct Type {
  const char* name;
  MPI_Datatype type;
  int extent;
};

inline std::vector<Type> make_types() {
  std::vector<Type> types{{"int", MPI_INT, 4}};
  MPI_Datatype gaps, low, spread;
  MPI_Type_vector(2, 1, 2, MPI_INT, &gaps);
  MPI_Type_commit(&gaps);
  types.push_back({"vector", gaps, 12});
  const int lengths[2] = {1, 2};
  const MPI_Aint places[2] = {-8, 4};
  MPI_Type_create_hindexed(2, lengths, places, MPI_INT, &low);
  MPI_Type_create_resized(low, -8, 24, &spread);
  MPI_Type_commit(&spread);
  MPI_Type_free(&low);
  types.push_back({"negative lower bound", spread, 24});
  types.push_back({"short_int", MPI_SHORT_INT, 8});
  return types;
}

// Elements that rank `from` sends to rank `to`: some of them none.
inline int count_of(int from, int to) { return (2 * from + to + 1) % 4; }

// The counts and displacements of n blocks of up to 3 elements, in descending order around the pointer, with gaps.
struct Blocks {
  std::vector<int> counts, places, byte_places;
  std::vector<MPI_Aint> far_places;
  std::vector<MPI_Datatype> types;
  Blocks(int n, const Type& type, const std::function<int(int)>& count) {
    for (int i = 0; i < n; i++) {
      counts.push_back(count(i));
      places.push_back(4 * (n / 2 - i));
      byte_places.push_back(places.back() * type.extent);
      far_places.push_back(places.back() * type.extent);
      types.push_back(type.type);
    }
  }
};

// Elements of "vector" as maps x -> a x + b (a, b: ints 0 and 2 of every three), one after the other: associative, but
// the order of the ranks is seen.
inline void compose_maps(void* in, void* inout, int* count, MPI_Datatype*) {
  const auto* first = static_cast<const uint32_t*>(in);
  auto* second = static_cast<uint32_t*>(inout);
  for (int i = 0; i < *count; i++, first += 3, second += 3) {
    second[2] += first[2] * second[0];
    second[0] *= first[0];
  }
}

// ---- cases ----

// What a communicator looks like from this rank: roots and sizes of a rooted or all-to-all operation.
struct Group {
  std::string name;
  MPI_Comm comm;
  int peers = 0;  // ranks on the other side
  int size = 0;   // of the own group
  int rank = 0;
  int root = 0;    // as passed: MPI_ROOT and MPI_PROC_NULL on the root's side of an intercommunicator
  int sender = 0;  // the index that the peers know this rank by
  bool inter = false, is_root = false;
};

inline Group intra(const std::string& name, MPI_Comm comm, int root) {
  Group g;
  g.name = name;
  g.comm = comm;
  MPI_Comm_rank(comm, &g.rank);
  MPI_Comm_size(comm, &g.size);
  g.peers = g.size;
  g.root = root % g.size;
  g.is_root = g.rank == g.root;
  g.sender = g.rank;
  return g;
}

inline Group inter(MPI_Comm comm, bool root_side) {
  Group g = intra("intercommunicator", comm, 0);
  MPI_Comm_remote_size(comm, &g.peers);
  g.inter = true;
  g.is_root = root_side && g.rank == g.size - 1;
  int root_group = root_side ? g.size : g.peers;
  g.root = !root_side ? root_group - 1 : g.is_root ? MPI_ROOT : MPI_PROC_NULL;
  return g;
}

inline void exchange_cases(std::vector<Case>& cases, const Group& g, const Type& t, const std::string& in) {
  const MPI_Comm c = g.comm;
  const MPI_Datatype d = t.type;
  const int me = g.sender;
  auto sends = std::make_shared<Blocks>(g.peers, t, [me](int to) { return count_of(me, to); });
  auto receives = std::make_shared<Blocks>(g.peers, t, [me](int from) { return count_of(from, me); });
  auto gathers = std::make_shared<Blocks>(g.peers, t, [](int from) { return count_of(from, 1); });
  cases.push_back({"allgather" + in, GC_CALL(Allgather, allgather, c, send, 3, d, recv, 3, d)});
  cases.push_back({"allgatherv" + in, GC_CALL(Allgatherv, allgatherv, c, send, count_of(me, 1), d, recv,
                                              gathers->counts.data(), gathers->places.data(), d)});
  cases.push_back({"alltoall" + in, GC_CALL(Alltoall, alltoall, c, send, 2, d, recv, 2, d)});
  cases.push_back({"alltoallv" + in, GC_CALL(Alltoallv, alltoallv, c, send, sends->counts.data(), sends->places.data(),
                                             d, recv, receives->counts.data(), receives->places.data(), d)});
  cases.push_back(
      {"alltoallw" + in,
       GC_CALL(Alltoallw, alltoallw, c, send, sends->counts.data(), sends->byte_places.data(), sends->types.data(),
               recv, receives->counts.data(), receives->byte_places.data(), receives->types.data())});
}

inline void rooted_cases(std::vector<Case>& cases, const Group& g, const Type& t, const std::string& in) {
  const MPI_Comm c = g.comm;
  const MPI_Datatype d = t.type;
  const int root = g.root;
  auto parts = std::make_shared<Blocks>(g.peers, t, [](int rank) { return count_of(rank, 1); });
  const int mine = count_of(g.sender, 1);
  // Insignificant arguments are garbage on purpose: nobody may look at them.
  const MPI_Datatype root_type = g.is_root ? d : MPI_DATATYPE_NULL;
  const int* counts = g.is_root ? parts->counts.data() : nullptr;
  const int* places = g.is_root ? parts->places.data() : nullptr;
  auto keep = parts;
  cases.push_back({"bcast" + in, GC_CALL(Bcast, bcast, c, recv, 5, d, root)});
  cases.push_back({"gather" + in, GC_CALL(Gather, gather, c, send, 2, d, recv, 2, root_type, root)});
  cases.push_back({"gatherv" + in, [keep, call = GC_CALL(Gatherv, gatherv, c, send, mine, d, recv, counts, places,
                                                         root_type, root)](auto... a) { call(a...); }});
  cases.push_back({"scatter" + in, GC_CALL(Scatter, scatter, c, send, 2, root_type, recv, 2, d, root)});
  cases.push_back({"scatterv" + in, [keep, call = GC_CALL(Scatterv, scatterv, c, send, counts, places, root_type, recv,
                                                          mine, d, root)](auto... a) { call(a...); }});
}

inline void reduction_cases(std::vector<Case>& cases, const Group& g, MPI_Datatype d, MPI_Op op,
                            const std::string& in) {
  const MPI_Comm c = g.comm;
  const int root = g.root;
  auto counts = std::make_shared<std::vector<int>>();
  for (int i = 0; i < g.size; i++) counts->push_back(g.inter ? g.peers : i % 3);
  const int block = g.inter ? g.peers : 4;
  cases.push_back({"allreduce" + in, GC_CALL(Allreduce, allreduce, c, send, recv, 9, d, op)});
  cases.push_back({"reduce" + in, GC_CALL(Reduce, reduce, c, send, recv, 9, d, op, root)});
  cases.push_back(
      {"reduce_scatter" + in, GC_CALL(Reduce_scatter, reduce_scatter, c, send, recv, counts->data(), d, op)});
  cases.push_back(
      {"reduce_scatter_block" + in, GC_CALL(Reduce_scatter_block, reduce_scatter_block, c, send, recv, block, d, op)});
  if (g.inter) return;
  cases.push_back({"scan" + in, GC_CALL(Scan, scan, c, send, recv, 9, d, op)});
  cases.push_back({"exscan" + in, GC_CALL(Exscan, exscan, c, send, recv, 9, d, op)});
}

inline void in_place_cases(std::vector<Case>& cases, const Group& g, MPI_Datatype d, const std::string& in) {
  const MPI_Comm c = g.comm;
  const int root = g.root;
  const bool here = g.is_root;
  auto counts = std::make_shared<std::vector<int>>(static_cast<size_t>(g.size), 2);
  cases.push_back({"allgather in place" + in, GC_CALL(Allgather, allgather, c, MPI_IN_PLACE, 0, d, recv, 3, d)});
  cases.push_back({"alltoall in place" + in, GC_CALL(Alltoall, alltoall, c, MPI_IN_PLACE, 0, d, recv, 3, d)});
  cases.push_back(
      {"gather in place" + in, GC_CALL(Gather, gather, c, here ? MPI_IN_PLACE : send, 2, d, recv, 2, d, root)});
  cases.push_back(
      {"scatter in place" + in, GC_CALL(Scatter, scatter, c, send, 2, d, here ? MPI_IN_PLACE : recv, 2, d, root)});
  cases.push_back(
      {"allreduce in place" + in, GC_CALL(Allreduce, allreduce, c, MPI_IN_PLACE, recv, 9, MPI_INT, MPI_SUM)});
  cases.push_back({"reduce in place" + in,
                   GC_CALL(Reduce, reduce, c, here ? MPI_IN_PLACE : send, recv, 9, MPI_INT, MPI_SUM, root)});
  cases.push_back({"reduce_scatter in place" + in,
                   GC_CALL(Reduce_scatter, reduce_scatter, c, MPI_IN_PLACE, recv, counts->data(), MPI_INT, MPI_SUM)});
  cases.push_back({"reduce_scatter_block in place" + in,
                   GC_CALL(Reduce_scatter_block, reduce_scatter_block, c, MPI_IN_PLACE, recv, 2, MPI_INT, MPI_SUM)});
  cases.push_back({"scan in place" + in, GC_CALL(Scan, scan, c, MPI_IN_PLACE, recv, 9, MPI_INT, MPI_SUM)});
  cases.push_back({"exscan in place" + in, GC_CALL(Exscan, exscan, c, MPI_IN_PLACE, recv, 9, MPI_INT, MPI_SUM)});
}

inline void neighbor_cases(std::vector<Case>& cases, MPI_Comm c, int in_degree, int out_degree, const Type& t,
                           const std::string& in) {
  const MPI_Datatype d = t.type;
  auto sends = std::make_shared<Blocks>(out_degree, t, [](int) { return 2; });
  auto receives = std::make_shared<Blocks>(in_degree, t, [](int) { return 2; });
  cases.push_back(
      {"neighbor_allgather" + in, GC_CALL(Neighbor_allgather, neighbor_allgather, c, send, 2, d, recv, 2, d)});
  cases.push_back({"neighbor_allgatherv" + in, GC_CALL(Neighbor_allgatherv, neighbor_allgatherv, c, send, 2, d, recv,
                                                       receives->counts.data(), receives->places.data(), d)});
  cases.push_back({"neighbor_alltoall" + in, GC_CALL(Neighbor_alltoall, neighbor_alltoall, c, send, 2, d, recv, 2, d)});
  cases.push_back({"neighbor_alltoallv" + in,
                   GC_CALL(Neighbor_alltoallv, neighbor_alltoallv, c, send, sends->counts.data(), sends->places.data(),
                           d, recv, receives->counts.data(), receives->places.data(), d)});
  cases.push_back(
      {"neighbor_alltoallw" + in, GC_CALL(Neighbor_alltoallw, neighbor_alltoallw, c, send, sends->counts.data(),
                                          sends->far_places.data(), sends->types.data(), recv, receives->counts.data(),
                                          receives->far_places.data(), receives->types.data())});
}

inline void reduce_local_case(std::vector<Case>& cases) {
  cases.push_back({"reduce_local", [](Form, void* send, void* recv, const Refill&) {
                     MPI_Reduce_local(send, recv, 9, MPI_INT, MPI_SUM);
                   }});
}

}  // namespace staged
