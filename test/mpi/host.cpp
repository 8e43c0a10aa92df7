// Every collective on host memory with the component in front: on the world, on single ranks, on intercommunicators and
// on neighbourhoods; blocking and nonblocking. Results are computed from the numbers of the ranks, so that a component
// that loses or doubles a call is seen.
#include "mpi_test.h"

namespace {
using namespace mpi_test;

std::string g_where;  // the communicator at work, for messages

// What rank r contributes to rank `to` at index i.
int value(int r, int to, int i) { return 10000 * (r + 1) + 100 * to + i; }

void expect(const char* what, int index, int got, int expected) {
  if (!checked(got == expected))
    fail("%s on %s: element %d is %d instead of %d", what, g_where.c_str(), index, got, expected);
}

// MPI_X(arguments), then the same as MPI_Ix and wait; `verify` after each.
template <class Blocking, class Nonblocking, class Verify>
void both(Blocking blocking, Nonblocking nonblocking, Verify verify) {
  if (!checked(blocking() == MPI_SUCCESS)) fail("a blocking call on %s returned an error", g_where.c_str());
  verify();
  MPI_Request request;
  if (!checked(nonblocking(&request) == MPI_SUCCESS))
    fail("a nonblocking call on %s returned an error", g_where.c_str());
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  verify();
}
#define GC_BOTH(X, x, verify, comm, ...)           \
  both([&] { return MPI_##X(__VA_ARGS__, comm); }, \
       [&](MPI_Request* request) { return MPI_I##x(__VA_ARGS__, comm, request); }, verify)

constexpr int kEach = 3;  // elements for each rank

struct Side {
  int rank, size, peers;  // in the own group; ranks on the other side
  bool inter;
};

Side side_of(MPI_Comm comm) {
  Side s{};
  int inter = 0;
  MPI_Comm_rank(comm, &s.rank);
  MPI_Comm_size(comm, &s.size);
  MPI_Comm_test_inter(comm, &inter);
  s.peers = s.size;
  s.inter = inter != 0;
  if (s.inter) MPI_Comm_remote_size(comm, &s.peers);
  return s;
}

std::vector<int> outgoing(const Side& s) {
  std::vector<int> v;
  for (int to = 0; to < s.peers; to++)
    for (int i = 0; i < kEach; i++) v.push_back(value(s.rank, to, i));
  return v;
}

std::vector<int> places(int n) {
  std::vector<int> v;
  for (int i = 0; i < n; i++) v.push_back((n - 1 - i) * kEach);  // backwards
  return v;
}

// Element i of block `from` in the receive buffer, the blocks being in order or backwards.
void expect_blocks(const char* what, const std::vector<int>& got, int blocks, int to, bool backwards) {
  for (int from = 0; from < blocks; from++)
    for (int i = 0; i < kEach; i++) {
      const int at = (backwards ? blocks - 1 - from : from) * kEach + i;
      expect(what, at, got[static_cast<size_t>(at)], value(from, to, i));
    }
}

void all_to_all(MPI_Comm comm) {
  const Side s = side_of(comm);
  const std::vector<int> send = outgoing(s);
  std::vector<int> recv(send.size()), counts(static_cast<size_t>(s.peers), kEach), in_order, back = places(s.peers);
  std::vector<int> bytes, back_bytes;
  std::vector<MPI_Datatype> types(static_cast<size_t>(s.peers), MPI_INT);
  for (int i = 0; i < s.peers; i++) {
    in_order.push_back(i * kEach);
    bytes.push_back(i * kEach * 4);
    back_bytes.push_back(back[static_cast<size_t>(i)] * 4);
  }
  auto blocks = [&](const char* what, int to, bool backwards) {
    return [&recv, &s, what, to, backwards] {
      expect_blocks(what, recv, s.peers, to, backwards);
      std::fill(recv.begin(), recv.end(), -1);
    };
  };
  GC_BOTH(Allgather, allgather, blocks("allgather", 0, false), comm, send.data(), kEach, MPI_INT, recv.data(), kEach,
          MPI_INT);
  GC_BOTH(Allgatherv, allgatherv, blocks("allgatherv", 0, true), comm, send.data(), kEach, MPI_INT, recv.data(),
          counts.data(), back.data(), MPI_INT);
  GC_BOTH(Alltoall, alltoall, blocks("alltoall", s.rank, false), comm, send.data(), kEach, MPI_INT, recv.data(), kEach,
          MPI_INT);
  GC_BOTH(Alltoallv, alltoallv, blocks("alltoallv", s.rank, true), comm, send.data(), counts.data(), in_order.data(),
          MPI_INT, recv.data(), counts.data(), back.data(), MPI_INT);
  GC_BOTH(Alltoallw, alltoallw, blocks("alltoallw", s.rank, true), comm, send.data(), counts.data(), bytes.data(),
          types.data(), recv.data(), counts.data(), back_bytes.data(), types.data());
}

// Sum over the contributing ranks of value(r, to, i).
int sum(int ranks, int to, int i) {
  int total = 0;
  for (int r = 0; r < ranks; r++) total += value(r, to, i);
  return total;
}

void expect_sums(const char* what, std::vector<int>& got, int count, int ranks, int to) {
  for (int i = 0; i < count; i++) expect(what, i, got[static_cast<size_t>(i)], sum(ranks, to, i));
  std::fill(got.begin(), got.end(), -1);
}

void reductions(MPI_Comm comm) {
  const Side s = side_of(comm);
  const std::vector<int> send = outgoing(s);
  std::vector<int> recv(send.size() + kEach);
  GC_BOTH(
      Allreduce, allreduce, [&] { expect_sums("allreduce", recv, kEach, s.peers, 0); }, comm, send.data(), recv.data(),
      kEach, MPI_INT, MPI_SUM);
  if (s.inter) return;
  const std::vector<int> counts(static_cast<size_t>(s.size), kEach);
  GC_BOTH(
      Reduce_scatter, reduce_scatter, [&] { expect_sums("reduce_scatter", recv, kEach, s.size, s.rank); }, comm,
      send.data(), recv.data(), counts.data(), MPI_INT, MPI_SUM);
  GC_BOTH(
      Reduce_scatter_block, reduce_scatter_block,
      [&] { expect_sums("reduce_scatter_block", recv, kEach, s.size, s.rank); }, comm, send.data(), recv.data(), kEach,
      MPI_INT, MPI_SUM);
  GC_BOTH(
      Scan, scan, [&] { expect_sums("scan", recv, kEach, s.rank + 1, 0); }, comm, send.data(), recv.data(), kEach,
      MPI_INT, MPI_SUM);
  GC_BOTH(
      Exscan, exscan,
      [&] {
        if (s.rank > 0) expect_sums("exscan", recv, kEach, s.rank, 0);
      },
      comm, send.data(), recv.data(), kEach, MPI_INT, MPI_SUM);
}

// One root; on an intercommunicator rank 0 of the group whose turn it is.
void rooted(MPI_Comm comm, bool my_turn) {
  const Side s = side_of(comm);
  const bool is_root = s.rank == 0 && (my_turn || !s.inter), is_leaf = !s.inter || !my_turn;
  const int root = !s.inter || !my_turn ? 0 : is_root ? MPI_ROOT : MPI_PROC_NULL;
  const std::vector<int> send = outgoing(s), counts(static_cast<size_t>(s.peers), kEach), back = places(s.peers);
  std::vector<int> recv(send.size() + kEach), shared(kEach);
  auto refill = [&] {
    for (int i = 0; i < kEach; i++) shared[static_cast<size_t>(i)] = is_root ? value(7, 7, i) : -1;
  };
  refill();
  GC_BOTH(
      Bcast, bcast,
      [&] {
        for (int i = 0; is_leaf && i < kEach; i++) expect("bcast", i, shared[static_cast<size_t>(i)], value(7, 7, i));
        refill();
      },
      comm, shared.data(), kEach, MPI_INT, root);
  GC_BOTH(
      Gather, gather,
      [&] {
        if (is_root) expect_blocks("gather", recv, s.peers, 0, false);
      },
      comm, send.data(), kEach, MPI_INT, recv.data(), kEach, MPI_INT, root);
  GC_BOTH(
      Gatherv, gatherv,
      [&] {
        if (is_root) expect_blocks("gatherv", recv, s.peers, 0, true);
      },
      comm, send.data(), kEach, MPI_INT, recv.data(), counts.data(), back.data(), MPI_INT, root);
  GC_BOTH(
      Reduce, reduce,
      [&] {
        if (is_root) expect_sums("reduce", recv, kEach, s.peers, 0);
      },
      comm, send.data(), recv.data(), kEach, MPI_INT, MPI_SUM, root);
  GC_BOTH(
      Scatter, scatter,
      [&] {
        for (int i = 0; is_leaf && i < kEach; i++)
          expect("scatter", i, recv[static_cast<size_t>(i)], value(0, s.rank, i));
      },
      comm, send.data(), kEach, MPI_INT, recv.data(), kEach, MPI_INT, root);
  GC_BOTH(
      Scatterv, scatterv,
      [&] {
        const int from = s.size - 1 - s.rank;
        for (int i = 0; is_leaf && i < kEach; i++)
          expect("scatterv", i, recv[static_cast<size_t>(i)], value(0, from, i));
      },
      comm, send.data(), counts.data(), back.data(), MPI_INT, recv.data(), kEach, MPI_INT, root);
}

// A ring as a grid and as two kinds of graph: block 0 is from the left, block 1 from the right.
void neighbors(MPI_Comm comm) {
  const Side s = side_of(comm);
  const int left = (s.rank + s.size - 1) % s.size, right = (s.rank + 1) % s.size;
  int send[2 * kEach], counts[2] = {kEach, kEach}, at[2] = {0, kEach};
  MPI_Aint bytes[2] = {0, kEach * 4};
  MPI_Datatype types[2] = {MPI_INT, MPI_INT};
  std::vector<int> recv(2 * kEach);
  for (int b = 0; b < 2; b++)
    for (int i = 0; i < kEach; i++) send[b * kEach + i] = value(s.rank, b, i);
  // With fewer than 3 ranks left and right are the same rank, and which block is whose differs between MPIs.
  const bool clear = s.size > 2;
  auto gathered = [&] {
    for (int i = 0; clear && i < kEach; i++) {
      expect("neighbor_allgather", i, recv[static_cast<size_t>(i)], value(left, 0, i));
      expect("neighbor_allgather", kEach + i, recv[static_cast<size_t>(kEach + i)], value(right, 0, i));
    }
    std::fill(recv.begin(), recv.end(), -1);
  };
  auto exchanged = [&] {
    for (int i = 0; clear && i < kEach; i++) {  // the left one sends us its right block
      expect("neighbor_alltoall", i, recv[static_cast<size_t>(i)], value(left, 1, i));
      expect("neighbor_alltoall", kEach + i, recv[static_cast<size_t>(kEach + i)], value(right, 0, i));
    }
    std::fill(recv.begin(), recv.end(), -1);
  };
  GC_BOTH(Neighbor_allgather, neighbor_allgather, gathered, comm, send, kEach, MPI_INT, recv.data(), kEach, MPI_INT);
  GC_BOTH(Neighbor_allgatherv, neighbor_allgatherv, gathered, comm, send, kEach, MPI_INT, recv.data(), counts, at,
          MPI_INT);
  GC_BOTH(Neighbor_alltoall, neighbor_alltoall, exchanged, comm, send, kEach, MPI_INT, recv.data(), kEach, MPI_INT);
  GC_BOTH(Neighbor_alltoallv, neighbor_alltoallv, exchanged, comm, send, counts, at, MPI_INT, recv.data(), counts, at,
          MPI_INT);
  GC_BOTH(Neighbor_alltoallw, neighbor_alltoallw, exchanged, comm, send, counts, bytes, types, recv.data(), counts,
          bytes, types);
}

void with_neighbors() {
  MPI_Comm grid, graph, pairs;
  int wraps = 1, size = g_size;
  MPI_Cart_create(MPI_COMM_WORLD, 1, &size, &wraps, 0, &grid);
  g_where = "a periodic grid";
  neighbors(grid);
  MPI_Comm_free(&grid);

  const int around[2] = {(g_rank + g_size - 1) % g_size, (g_rank + 1) % g_size};
  MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 2, around, MPI_UNWEIGHTED, 2, around, MPI_UNWEIGHTED, MPI_INFO_NULL, 0,
                                 &pairs);
  g_where = "a distributed graph";
  neighbors(pairs);
  MPI_Comm_free(&pairs);

  std::vector<int> ends, edges;
  for (int r = 0; r < g_size; r++) {
    edges.push_back((r + g_size - 1) % g_size);
    edges.push_back((r + 1) % g_size);
    ends.push_back(2 * (r + 1));
  }
  MPI_Graph_create(MPI_COMM_WORLD, g_size, ends.data(), edges.data(), 0, &graph);
  g_where = "a graph";
  neighbors(graph);
  MPI_Comm_free(&graph);
}

void whole(const char* name, MPI_Comm comm) {
  g_where = name;
  MPI_Barrier(comm);
  MPI_Request request;
  MPI_Ibarrier(comm, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  all_to_all(comm);
  reductions(comm);
  rooted(comm, true);
}

void between_groups() {
  MPI_Comm half, bridge, joined;
  MPI_Comm_split(MPI_COMM_WORLD, g_rank % 2, g_rank, &half);
  whole("half of the world", half);
  if (g_size > 1) {
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - g_rank % 2, 9, &bridge);
    g_where = "an intercommunicator";
    MPI_Barrier(bridge);
    all_to_all(bridge);
    reductions(bridge);
    rooted(bridge, g_rank % 2 == 0);
    rooted(bridge, g_rank % 2 == 1);
    MPI_Intercomm_merge(bridge, g_rank % 2, &joined);
    whole("a merged communicator", joined);
    MPI_Comm_free(&joined);
    MPI_Comm_free(&bridge);
  }
  MPI_Comm_free(&half);
}

void local_reduction() {
  int in[kEach], inout[kEach];
  for (int i = 0; i < kEach; i++) in[i] = inout[i] = value(g_rank, 0, i);
  MPI_Reduce_local(in, inout, kEach, MPI_INT, MPI_SUM);
  for (int i = 0; i < kEach; i++) expect("reduce_local", i, inout[i], 2 * value(g_rank, 0, i));
}

}  // namespace

int main(int argc, char** argv) {
  Mpi mpi(argc, argv);
  MPI_Comm copy;
  MPI_Request request;
  whole("the world", MPI_COMM_WORLD);
  whole("self", MPI_COMM_SELF);
  MPI_Comm_idup(MPI_COMM_WORLD, &copy, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  whole("an idup of the world", copy);
  MPI_Comm_free(&copy);
  between_groups();
  with_neighbors();
  local_reduction();
  return mpi.finish("host");
}
