// The functions of gpucoll/mpi.h: each with data of rank and index, on several communicators, in place, of derived
// types, in graphs, and what they refuse. Nothing waits for a stream before a result is read.
//
// Argument "threads": instead, several threads do it. Argument "late": instead, rank 0 makes a communicator alone,
// which ends with the parameter timeout. Argument "unknown": instead, gpucoll/mpi.h is used before MPI_Init and after
// MPI_Finalize. Argument "freeing": instead, memory is freed while large messages are under way.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <optional>
#include <thread>

#include "../resources.h"
#include "gpucoll/mpi.h"
#include "mpi_test.h"

// Stand before MPI's own: how often the library keeps something with a type, and time for other threads after it has
// looked for what is kept.
static std::atomic<int> g_kept_with_types{0};
extern "C" int PMPI_Type_set_attr(MPI_Datatype type, int key, void* value) {
  ++g_kept_with_types;
  return reinterpret_cast<decltype(&PMPI_Type_set_attr)>(dlsym(RTLD_NEXT, "PMPI_Type_set_attr"))(type, key, value);
}
extern "C" int PMPI_Type_get_attr(MPI_Datatype type, int key, void* value, int* found) {
  static const auto next = reinterpret_cast<decltype(&PMPI_Type_get_attr)>(dlsym(RTLD_NEXT, "PMPI_Type_get_attr"));
  const int error = next(type, key, value, found);
  std::this_thread::sleep_for(std::chrono::microseconds(50));
  return error;
}
// Fails once where a test asks for it.
static std::atomic<bool> g_cannot_keep{false};
extern "C" int PMPI_Comm_set_attr(MPI_Comm comm, int key, void* value) {
  if (g_cannot_keep.exchange(false)) return MPI_ERR_OTHER;
  return reinterpret_cast<decltype(&PMPI_Comm_set_attr)>(dlsym(RTLD_NEXT, "PMPI_Comm_set_attr"))(comm, key, value);
}

namespace {
using namespace mpi_test;
using Ints = std::vector<int>;

constexpr int kCounts[] = {0, 1, 2, 1021, 40009};

// A communicator, and a stream of its own.
class On {
 public:
  On(MPI_Comm comm, const char* name) : comm(comm), name(name) {
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    need(gpucollStreamCreate(&stream), "gpucollStreamCreate");
  }
  ~On() { need(gpucollStreamDestroy(stream), "gpucollStreamDestroy"); }
  On(const On&) = delete;
  On& operator=(const On&) = delete;
  size_t ranks() const { return static_cast<size_t>(size); }

  const MPI_Comm comm;
  const char* const name;
  int rank = 0, size = 1;
  gpucollStream_t stream = nullptr;
};

int value(int rank, size_t i) { return static_cast<int>(mix(static_cast<uint64_t>(rank) + 1, i) % 100000); }

Ints input_of(int rank, size_t n) {
  Ints values(n);
  for (size_t i = 0; i < n; ++i) values[i] = value(rank, i);
  return values;
}

int sum_at(const On& on, size_t i) {
  int sum = 0;
  for (int r = 0; r < on.size; ++r) sum += value(r, i);
  return sum;
}

Ints sums(const On& on, size_t begin, size_t n) {
  Ints values(n);
  for (size_t i = 0; i < n; ++i) values[i] = sum_at(on, begin + i);
  return values;
}

class Buffer {
 public:
  explicit Buffer(const Ints& values) : memory_(Where::device, values.size() * sizeof(int)), n_(values.size()) {
    memory_.write(values.data());
  }
  int* at(size_t i = 0) const { return memory_.as<int>() + i; }
  // Waits for the stream, and compares the first elements.
  void expect(const On& on, const char* what, const Ints& right) const {
    need(gpucollStreamSynchronize(on.stream), "gpucollStreamSynchronize");
    Ints values(n_);
    memory_.read(values.data());
    const auto wrong = std::mismatch(right.begin(), right.end(), values.begin());
    if (!checked(wrong.first == right.end()))
      fail("%s on %s, %zu elements: element %td is %d instead of %d", what, on.name, right.size(),
           wrong.first - right.begin(), *wrong.second, *wrong.first);
  }

 private:
  Memory memory_;
  size_t n_;
};

Ints garbage(size_t n) { return Ints(n, -77); }

void reductions(const On& on, int count) {
  const auto n = static_cast<size_t>(count), all = n * on.ranks();
  const auto own = n * static_cast<size_t>(on.rank);
  const Ints input = input_of(on.rank, all), none = garbage(all);
  const int root = on.size - 1;
  const Ints at_root = on.rank == root ? sums(on, 0, n) : Ints(none.begin(), none.begin() + count);

  Buffer in(input), out(none), place(input), rooted(none), rooted_place(input), part(none), part_place(input);
  need(gpucollMPIAllreduce(in.at(), out.at(), count, MPI_INT, MPI_SUM, on.comm, on.stream), "Allreduce");
  need(gpucollMPIAllreduce(MPI_IN_PLACE, place.at(), count, MPI_INT, MPI_SUM, on.comm, on.stream), "Allreduce");
  need(gpucollMPIReduce(in.at(), on.rank == root ? rooted.at() : nullptr, count, MPI_INT, MPI_SUM, root, on.comm,
                        on.stream),
       "Reduce");
  need(gpucollMPIReduce(on.rank == 0 ? MPI_IN_PLACE : rooted_place.at(), on.rank == 0 ? rooted_place.at() : nullptr,
                        count, MPI_INT, MPI_SUM, 0, on.comm, on.stream),
       "Reduce");
  need(gpucollMPIReduce_scatter_block(in.at(), part.at(), count, MPI_INT, MPI_SUM, on.comm, on.stream),
       "Reduce_scatter_block");
  need(gpucollMPIReduce_scatter_block(MPI_IN_PLACE, part_place.at(), count, MPI_INT, MPI_SUM, on.comm, on.stream),
       "Reduce_scatter_block");
  out.expect(on, "Allreduce", sums(on, 0, n));
  place.expect(on, "Allreduce in place", sums(on, 0, n));
  rooted.expect(on, "Reduce", at_root);
  rooted_place.expect(on, "Reduce in place", on.rank == 0 ? sums(on, 0, n) : input);
  part.expect(on, "Reduce_scatter_block", sums(on, own, n));
  part_place.expect(on, "Reduce_scatter_block in place", sums(on, own, n));
}

// Counts that differ from rank to rank, and places with gaps in between. The one of rank 0 is the largest.
struct Shares {
  Ints counts, displacements, packed;  // packed: where they begin without gaps
  size_t room = 0, total = 0;

  Shares(const On& on, int count) {
    for (int r = 0; r < on.size; ++r) {
      counts.push_back(r == 0 ? count + 2 : (count + 1) * (r % 3) / 3);
      displacements.push_back(static_cast<int>(room) + r % 2);
      packed.push_back(static_cast<int>(total));
      room += static_cast<size_t>(counts.back() + 2);
      total += static_cast<size_t>(counts.back());
    }
  }
  size_t count(int r) const { return static_cast<size_t>(counts[static_cast<size_t>(r)]); }
  size_t displacement(int r) const { return static_cast<size_t>(displacements[static_cast<size_t>(r)]); }
  // Every rank's input where it belongs.
  Ints gathered() const {
    Ints values = garbage(room);
    for (size_t r = 0; r < counts.size(); ++r)
      for (size_t i = 0; i < count(static_cast<int>(r)); ++i)
        values[displacement(static_cast<int>(r)) + i] = value(static_cast<int>(r), i);
    return values;
  }
};

void uneven_reductions(const On& on, int count) {
  const Shares shares(on, count);
  const Ints input = input_of(on.rank, shares.total);
  const auto begin = static_cast<size_t>(shares.packed[static_cast<size_t>(on.rank)]);
  Buffer in(input), out(garbage(shares.total)), place(input);
  need(gpucollMPIReduce_scatter(in.at(), out.at(), shares.counts.data(), MPI_INT, MPI_SUM, on.comm, on.stream),
       "Reduce_scatter");
  need(gpucollMPIReduce_scatter(MPI_IN_PLACE, place.at(), shares.counts.data(), MPI_INT, MPI_SUM, on.comm, on.stream),
       "Reduce_scatter");
  out.expect(on, "Reduce_scatter", sums(on, begin, shares.count(on.rank)));
  place.expect(on, "Reduce_scatter in place", sums(on, begin, shares.count(on.rank)));
}

void equal_moves(const On& on, int count) {
  const auto n = static_cast<size_t>(count), all = n * on.ranks(), own = n * static_cast<size_t>(on.rank);
  const int root = on.size / 2;
  const bool is_root = on.rank == root;
  const Ints input = input_of(on.rank, all);
  Ints gathered, exchanged, scattered(n), of_root = input_of(root, n);
  for (int r = 0; r < on.size; ++r)
    for (size_t i = 0; i < n; ++i) {
      gathered.push_back(value(r, i));
      exchanged.push_back(value(r, own + i));
    }
  for (size_t i = 0; i < n; ++i) scattered[i] = value(root, own + i);
  Ints to_gather = garbage(all);
  std::copy_n(input.begin(), count, to_gather.begin() + static_cast<ptrdiff_t>(own));

  Buffer in(input), bcast(is_root ? of_root : garbage(n)), everywhere(garbage(all)), in_place(to_gather);
  Buffer at_root(garbage(all)), root_place(to_gather), part(garbage(n)), whole(input), swapped(garbage(all)),
      swapped_place(input);
  need(gpucollMPIBcast(bcast.at(), count, MPI_INT, root, on.comm, on.stream), "Bcast");
  need(gpucollMPIAllgather(in.at(), count, MPI_INT, everywhere.at(), count, MPI_INT, on.comm, on.stream), "Allgather");
  need(gpucollMPIAllgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, in_place.at(), count, MPI_INT, on.comm, on.stream),
       "Allgather");
  need(gpucollMPIGather(in.at(), count, MPI_INT, is_root ? at_root.at() : nullptr, is_root ? count : -1,
                        is_root ? MPI_INT : MPI_DATATYPE_NULL, root, on.comm, on.stream),
       "Gather");
  need(gpucollMPIGather(is_root ? MPI_IN_PLACE : in.at(), count, MPI_INT, root_place.at(), count, MPI_INT, root,
                        on.comm, on.stream),
       "Gather");
  need(gpucollMPIScatter(is_root ? in.at() : nullptr, is_root ? count : -1, is_root ? MPI_INT : MPI_DATATYPE_NULL,
                         part.at(), count, MPI_INT, root, on.comm, on.stream),
       "Scatter");
  need(gpucollMPIScatter(in.at(), count, MPI_INT, is_root ? MPI_IN_PLACE : whole.at(), count, MPI_INT, root, on.comm,
                         on.stream),
       "Scatter");
  need(gpucollMPIAlltoall(in.at(), count, MPI_INT, swapped.at(), count, MPI_INT, on.comm, on.stream), "Alltoall");
  need(gpucollMPIAlltoall(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, swapped_place.at(), count, MPI_INT, on.comm, on.stream),
       "Alltoall");
  bcast.expect(on, "Bcast", of_root);
  everywhere.expect(on, "Allgather", gathered);
  in_place.expect(on, "Allgather in place", gathered);
  at_root.expect(on, "Gather", is_root ? gathered : garbage(all));
  root_place.expect(on, "Gather in place", is_root ? gathered : to_gather);
  part.expect(on, "Scatter", scattered);
  whole.expect(on, "Scatter in place", is_root ? input : scattered);
  swapped.expect(on, "Alltoall", exchanged);
  swapped_place.expect(on, "Alltoall in place", exchanged);
}

void uneven_moves(const On& on, int count) {
  const Shares shares(on, count);
  const int root = on.size / 2, mine = shares.counts[static_cast<size_t>(on.rank)];
  const bool is_root = on.rank == root;
  const int *counts = shares.counts.data(), *displs = shares.displacements.data();
  const Ints input = input_of(on.rank, shares.room), right = shares.gathered(), none = garbage(shares.room);
  Ints placed = none, scattered;
  std::copy_n(input.begin(), mine, placed.begin() + static_cast<ptrdiff_t>(shares.displacement(on.rank)));
  for (size_t i = 0; i < shares.count(on.rank); ++i) scattered.push_back(value(root, shares.displacement(on.rank) + i));

  Buffer in(input), everywhere(none), in_place(placed), at_root(none), root_place(placed), part(none), kept(input);
  need(gpucollMPIAllgatherv(in.at(), mine, MPI_INT, everywhere.at(), counts, displs, MPI_INT, on.comm, on.stream),
       "Allgatherv");
  need(gpucollMPIAllgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, in_place.at(), counts, displs, MPI_INT, on.comm,
                            on.stream),
       "Allgatherv");
  need(gpucollMPIGatherv(in.at(), mine, MPI_INT, is_root ? at_root.at() : nullptr, is_root ? counts : nullptr,
                         is_root ? displs : nullptr, MPI_INT, root, on.comm, on.stream),
       "Gatherv");
  need(gpucollMPIGatherv(is_root ? MPI_IN_PLACE : in.at(), mine, MPI_INT, root_place.at(), counts, displs, MPI_INT,
                         root, on.comm, on.stream),
       "Gatherv");
  need(gpucollMPIScatterv(is_root ? in.at() : nullptr, is_root ? counts : nullptr, is_root ? displs : nullptr, MPI_INT,
                          part.at(), mine, MPI_INT, root, on.comm, on.stream),
       "Scatterv");
  need(gpucollMPIScatterv(in.at(), counts, displs, MPI_INT, is_root ? MPI_IN_PLACE : kept.at(), mine, MPI_INT, root,
                          on.comm, on.stream),
       "Scatterv");
  everywhere.expect(on, "Allgatherv", right);
  in_place.expect(on, "Allgatherv in place", right);
  at_root.expect(on, "Gatherv", is_root ? right : none);
  root_place.expect(on, "Gatherv in place", is_root ? right : placed);
  part.expect(on, "Scatterv", scattered);
  kept.expect(on, "Scatterv in place", is_root ? input : scattered);
}

// Rank s sends (s + 2 r) % 5 + count elements to rank r.
void uneven_exchange(const On& on, int count) {
  const auto length = [&](int from, int to) { return (from + 2 * to) % 5 + count; };
  Ints sendcounts, sdispls, recvcounts, rdispls;
  int sent = 0, received = 0;
  for (int r = 0; r < on.size; ++r) {
    sendcounts.push_back(length(on.rank, r));
    sdispls.push_back(sent);
    recvcounts.push_back(length(r, on.rank));
    rdispls.push_back(received);
    sent += sendcounts.back();
    received += recvcounts.back() + 1;
  }
  Ints right = garbage(static_cast<size_t>(received));
  for (int r = 0; r < on.size; ++r) {
    int before = 0;
    for (int to = 0; to < on.rank; ++to) before += length(r, to);
    for (int i = 0; i < length(r, on.rank); ++i)
      right[static_cast<size_t>(rdispls[static_cast<size_t>(r)] + i)] = value(r, static_cast<size_t>(before + i));
  }
  Buffer in(input_of(on.rank, static_cast<size_t>(sent))), out(garbage(right.size()));
  need(gpucollMPIAlltoallv(in.at(), sendcounts.data(), sdispls.data(), MPI_INT, out.at(), recvcounts.data(),
                           rdispls.data(), MPI_INT, on.comm, on.stream),
       "Alltoallv");
  out.expect(on, "Alltoallv", right);
}

// To the next and from the one before, to and from nobody at the ends of a row, and by two calls in a group.
void messages(const On& on, int count) {
  const auto n = static_cast<size_t>(count);
  const int next = (on.rank + 1) % on.size, before = (on.rank + on.size - 1) % on.size;
  const int above = on.rank + 1 < on.size ? on.rank + 1 : MPI_PROC_NULL;
  const int below = on.rank > 0 ? on.rank - 1 : MPI_PROC_NULL;
  Buffer in(input_of(on.rank, n)), ring(garbage(n)), row(garbage(n)), grouped(garbage(n)), single(garbage(n));
  need(gpucollMPISendrecv(in.at(), count, MPI_INT, next, ring.at(), count, MPI_INT, before, on.comm, on.stream),
       "Sendrecv");
  need(gpucollMPISendrecv(in.at(), count, MPI_INT, above, row.at(), count, MPI_INT, below, on.comm, on.stream),
       "Sendrecv");
  need(gpucollGroupStart(), "gpucollGroupStart");
  need(gpucollMPIRecv(grouped.at(), count, MPI_INT, next, on.comm, on.stream), "Recv");
  need(gpucollMPISend(in.at(), count, MPI_INT, before, on.comm, on.stream), "Send");
  need(gpucollGroupEnd(), "gpucollGroupEnd");
  need(on.rank % 2 == 0 ? gpucollMPISend(in.at(), count, MPI_INT, above, on.comm, on.stream)
                        : gpucollMPIRecv(single.at(), count, MPI_INT, below, on.comm, on.stream),
       "Send or Recv");
  need(gpucollMPIBarrier(on.comm, on.stream), "Barrier");
  ring.expect(on, "Sendrecv", input_of(before, n));
  row.expect(on, "Sendrecv", below == MPI_PROC_NULL ? garbage(n) : input_of(below, n));
  grouped.expect(on, "Send and Recv in a group", input_of(next, n));
  single.expect(on, "Send and Recv", on.rank % 2 == 0 ? garbage(n) : input_of(below, n));
}

// Types that have no gaps, of all constructors: so many ints each, and whether they may be reduced.
struct Derived {
  const char* name;
  MPI_Datatype type;
  int ints;
  bool reducible;
};

std::vector<Derived> derived_types() {
  std::vector<Derived> types;
  const auto add = [&](const char* name, int ints, bool reducible, auto make) {
    types.push_back({name, MPI_DATATYPE_NULL, ints, reducible});
    make(&types.back().type);
    MPI_Type_commit(&types.back().type);
  };
  add("contiguous", 3, true, [](MPI_Datatype* t) { MPI_Type_contiguous(3, MPI_INT, t); });
  const MPI_Datatype three = types[0].type;
  add("dup", 3, true, [&](MPI_Datatype* t) { MPI_Type_dup(three, t); });
  add("vector", 12, true, [&](MPI_Datatype* t) { MPI_Type_vector(2, 2, 2, three, t); });
  add("hvector", 6, true, [&](MPI_Datatype* t) { MPI_Type_create_hvector(2, 1, 12, three, t); });
  add("indexed", 5, true, [](MPI_Datatype* t) {
    int lengths[] = {2, 0, 3}, places[] = {0, 7, 2};
    MPI_Type_indexed(3, lengths, places, MPI_INT, t);
  });
  add("hindexed", 5, true, [](MPI_Datatype* t) {
    int lengths[] = {2, 3};
    MPI_Aint places[] = {0, 8};
    MPI_Type_create_hindexed(2, lengths, places, MPI_INT, t);
  });
  add("indexed_block", 4, true, [](MPI_Datatype* t) {
    int places[] = {0, 2};
    MPI_Type_create_indexed_block(2, 2, places, MPI_INT, t);
  });
  add("hindexed_block", 4, true, [](MPI_Datatype* t) {
    MPI_Aint places[] = {0, 8};
    MPI_Type_create_hindexed_block(2, 2, places, MPI_INT, t);
  });
  add("struct of one type", 4, true, [&](MPI_Datatype* t) {
    int lengths[] = {1, 1};
    MPI_Aint places[] = {0, 4};
    MPI_Datatype of[] = {MPI_INT, three};
    MPI_Type_create_struct(2, lengths, places, of, t);
  });
  add("struct of two types", 3, false, [](MPI_Datatype* t) {
    int lengths[] = {1, 2};
    MPI_Aint places[] = {0, 4};
    MPI_Datatype of[] = {MPI_FLOAT, MPI_INT};
    MPI_Type_create_struct(2, lengths, places, of, t);
  });
  add("whole subarray", 12, true, [](MPI_Datatype* t) {
    int sizes[] = {3, 4}, starts[] = {0, 0};
    MPI_Type_create_subarray(2, sizes, sizes, starts, MPI_ORDER_C, MPI_INT, t);
  });
  add("resized to its size", 3, true, [&](MPI_Datatype* t) { MPI_Type_create_resized(three, 0, 12, t); });
  return types;
}

void types(const On& on) {
  for (Derived& derived : derived_types())
    for (int again = 0; again < 2; ++again) {
      const int count = 37, root = 0;
      const auto n = static_cast<size_t>(count * derived.ints);
      Buffer moved(on.rank == root ? input_of(root, n) : garbage(n)), reduced(input_of(on.rank, n));
      // The signature may be written in another way on other ranks.
      need(on.rank % 2 == 0 ? gpucollMPIBcast(moved.at(), count, derived.type, root, on.comm, on.stream)
                            : gpucollMPIBcast(moved.at(), count * derived.ints, MPI_INT, root, on.comm, on.stream),
           derived.name);
      if (derived.reducible)
        need(gpucollMPIAllreduce(MPI_IN_PLACE, reduced.at(), count, derived.type, MPI_SUM, on.comm, on.stream),
             derived.name);
      moved.expect(on, derived.name, input_of(root, n));
      if (derived.reducible) reduced.expect(on, derived.name, sums(on, 0, n));
      if (again) MPI_Type_free(&derived.type);
    }
}

// Ranks write one signature in several ways, at addresses that fit the smallest of its types only.
void signatures(const On& on) {
  constexpr int kN = 37, kAll = 2 * kN;
  const int root = on.size - 1, own = kAll * on.rank;
  const bool is_root = on.rank == root;
  const auto all = static_cast<size_t>(kAll) * on.ranks();
  int lengths[] = {1, 1};
  MPI_Aint places[] = {0, 4};
  MPI_Datatype of[] = {MPI_FLOAT, MPI_INT}, real_and_int;
  MPI_Type_create_struct(2, lengths, places, of, &real_and_int);
  MPI_Type_commit(&real_and_int);
  Ints everywhere;
  for (int r = 0; r < on.size; ++r) {
    const Ints one = input_of(r, kAll);
    everywhere.insert(everywhere.end(), one.begin(), one.end());
  }
  const Ints input = input_of(on.rank, kAll), of_root = input_of(root, kAll);
  // Behind an element, so that pairs of the device are at no address of their own.
  const auto shifted = [](Ints values) {
    values.insert(values.begin(), -77);
    return values;
  };
  const Ints to_send = shifted(is_root ? input : garbage(kAll)), room = shifted(garbage(all));
  Buffer ints(to_send), pairs(to_send), doubles(to_send), none(garbage(2)), in(shifted(input)), gathered(room),
      at_root(room), whole(shifted(everywhere)), part(shifted(garbage(kAll))), swapped(room);
  need(gpucollMPIBcast(ints.at(1), is_root ? kN : kAll, is_root ? MPI_2INT : MPI_INT, root, on.comm, on.stream),
       "Bcast");
  need(gpucollMPIBcast(pairs.at(1), kN, is_root ? MPI_FLOAT_INT : real_and_int, root, on.comm, on.stream), "Bcast");
  need(gpucollMPIBcast(doubles.at(1), kN, MPI_DOUBLE, root, on.comm, on.stream), "Bcast");
  need(gpucollMPIBcast(none.at(), 0, is_root ? MPI_DOUBLE : MPI_INT, root, on.comm, on.stream), "Bcast");
  need(gpucollMPIAllgather(in.at(1), kAll, MPI_INT, gathered.at(1), is_root ? kN : kAll, is_root ? MPI_2INT : MPI_INT,
                           on.comm, on.stream),
       "Allgather");
  need(gpucollMPIGather(in.at(1), kAll, MPI_INT, at_root.at(1), kN, MPI_2INT, root, on.comm, on.stream), "Gather");
  need(gpucollMPIScatter(whole.at(1), kN, MPI_2INT, part.at(1), kAll, MPI_INT, root, on.comm, on.stream), "Scatter");
  need(gpucollMPIAlltoall(whole.at(1), kAll, MPI_INT, swapped.at(1), is_root ? kN : kAll, is_root ? MPI_2INT : MPI_INT,
                          on.comm, on.stream),
       "Alltoall");
  ints.expect(on, "Bcast of ints as pairs", shifted(of_root));
  pairs.expect(on, "Bcast of a struct as pairs", shifted(of_root));
  doubles.expect(on, "Bcast at half an address", shifted(of_root));
  none.expect(on, "Bcast of nothing", garbage(2));
  gathered.expect(on, "Allgather of ints as pairs", shifted(everywhere));
  at_root.expect(on, "Gather of ints as pairs", shifted(is_root ? everywhere : garbage(all)));
  part.expect(on, "Scatter of pairs as ints", shifted(Ints(everywhere.begin() + own, everywhere.begin() + own + kAll)));
  Ints right;
  for (int r = 0; r < on.size; ++r)
    right.insert(right.end(), everywhere.begin() + own, everywhere.begin() + own + kAll);
  swapped.expect(on, "Alltoall of ints as pairs", shifted(right));
  MPI_Type_free(&real_and_int);
}

// A maximum of each predefined type that has one, of as many bytes as MPI says.
template <class T>
void maximum(const On& on, MPI_Datatype type, const char* name, MPI_Op op = MPI_MAX) {
  int bytes = 0;
  MPI_Type_size(type, &bytes);
  if (!checked(static_cast<size_t>(bytes) == sizeof(T))) return fail("%s has %d bytes", name, bytes);
  constexpr size_t kN = 301;
  std::vector<T> values(kN), right(kN);
  for (size_t i = 0; i < kN; ++i) {
    values[i] = static_cast<T>((static_cast<size_t>(on.rank) * 5 + i) % 100);
    for (int r = 0; r < on.size; ++r)
      right[i] = std::max(right[i], static_cast<T>((static_cast<size_t>(r) * 5 + i) % 100));
  }
  Memory memory(Where::device, kN * sizeof(T));
  memory.write(values.data());
  need(gpucollMPIAllreduce(MPI_IN_PLACE, memory.at(0), kN, type, op, on.comm, on.stream), name);
  need(gpucollStreamSynchronize(on.stream), "gpucollStreamSynchronize");
  memory.read(values.data());
  if (!checked(values == right)) fail("the maximum of %s is wrong", name);
}

void predefined_types(const On& on) {
#define GC_MAXIMUM(T, TYPE) maximum<T>(on, TYPE, #TYPE)
  GC_MAXIMUM(signed char, MPI_SIGNED_CHAR);
  GC_MAXIMUM(unsigned char, MPI_UNSIGNED_CHAR);
  GC_MAXIMUM(short, MPI_SHORT);
  GC_MAXIMUM(unsigned short, MPI_UNSIGNED_SHORT);
  GC_MAXIMUM(int, MPI_INT);
  GC_MAXIMUM(unsigned, MPI_UNSIGNED);
  GC_MAXIMUM(long, MPI_LONG);
  GC_MAXIMUM(unsigned long, MPI_UNSIGNED_LONG);
  GC_MAXIMUM(long long, MPI_LONG_LONG);
  GC_MAXIMUM(unsigned long long, MPI_UNSIGNED_LONG_LONG);
  GC_MAXIMUM(float, MPI_FLOAT);
  GC_MAXIMUM(double, MPI_DOUBLE);
  GC_MAXIMUM(int8_t, MPI_INT8_T);
  GC_MAXIMUM(int16_t, MPI_INT16_T);
  GC_MAXIMUM(int32_t, MPI_INT32_T);
  GC_MAXIMUM(int64_t, MPI_INT64_T);
  GC_MAXIMUM(uint8_t, MPI_UINT8_T);
  GC_MAXIMUM(uint16_t, MPI_UINT16_T);
  GC_MAXIMUM(uint32_t, MPI_UINT32_T);
  GC_MAXIMUM(uint64_t, MPI_UINT64_T);
  GC_MAXIMUM(int, MPI_INTEGER);
  GC_MAXIMUM(float, MPI_REAL);
  GC_MAXIMUM(double, MPI_DOUBLE_PRECISION);
  GC_MAXIMUM(MPI_Aint, MPI_AINT);
#undef GC_MAXIMUM
}

// Each operation on bits of ranks and indices; and the pairs, of which each rank has the largest in turn.
void operations(const On& on) {
  struct Case {
    const char* name;
    MPI_Op op;
    int (*combine)(int, int);
  };
  const Case cases[] = {{"SUM", MPI_SUM, [](int a, int b) { return a + b; }},
                        {"PROD", MPI_PROD, [](int a, int b) { return a * b; }},
                        {"MAX", MPI_MAX, [](int a, int b) { return std::max(a, b); }},
                        {"MIN", MPI_MIN, [](int a, int b) { return std::min(a, b); }},
                        {"BAND", MPI_BAND, [](int a, int b) { return a & b; }},
                        {"BOR", MPI_BOR, [](int a, int b) { return a | b; }},
                        {"BXOR", MPI_BXOR, [](int a, int b) { return a ^ b; }},
                        {"LAND", MPI_LAND, [](int a, int b) { return int{a && b}; }},
                        {"LOR", MPI_LOR, [](int a, int b) { return int{a || b}; }},
                        {"LXOR", MPI_LXOR, [](int a, int b) { return int{!a != !b}; }}};
  constexpr size_t kN = 97;
  if (on.size == 1) return;  // logical operations leave one rank's values as they are
  for (const Case& of : cases) {
    Ints input(kN), right(kN);
    for (size_t i = 0; i < kN; ++i) {
      const auto small = [&](int rank) { return value(rank, i) % 4; };
      input[i] = small(on.rank);
      right[i] = of.combine(small(0), small(1));
      for (int r = 2; r < on.size; ++r) right[i] = of.combine(right[i], small(r));
    }
    Buffer buffer(input);
    need(gpucollMPIAllreduce(MPI_IN_PLACE, buffer.at(), kN, MPI_INT, of.op, on.comm, on.stream), of.name);
    buffer.expect(on, of.name, right);
  }
  Ints pairs, right;
  for (size_t i = 0; i < kN; ++i) {
    pairs.insert(pairs.end(), {(on.rank + static_cast<int>(i)) % on.size, on.rank});
    right.insert(right.end(), {on.size - 1, (2 * on.size - 1 - static_cast<int>(i % on.ranks())) % on.size});
  }
  Buffer buffer(pairs);
  need(gpucollMPIAllreduce(MPI_IN_PLACE, buffer.at(), kN, MPI_2INT, MPI_MAXLOC, on.comm, on.stream), "MAXLOC");
  buffer.expect(on, "MAXLOC", right);
}

void everything(const On& on) {
  gpucollComm_t comm = nullptr, again = nullptr;
  int rank = -1, size = -1;
  need(gpucollCommFromMPI(on.comm, &comm), "gpucollCommFromMPI");
  need(gpucollCommFromMPI(on.comm, &again), "gpucollCommFromMPI");
  need(gpucollCommUserRank(comm, &rank), "gpucollCommUserRank");
  need(gpucollCommCount(comm, &size), "gpucollCommCount");
  if (!checked(comm == again && rank == on.rank && size == on.size))
    fail("the communicator of %s is another, or rank %d of %d", on.name, rank, size);
  for (const int count : kCounts) {
    reductions(on, count);
    uneven_reductions(on, count);
    equal_moves(on, count);
    uneven_moves(on, count);
    uneven_exchange(on, count);
    messages(on, count);
  }
  types(on);
  signatures(on);
  predefined_types(on);
  operations(on);
}

// No call waits for the stream: rank 0 has enqueued its part when it tells the others to enqueue theirs. The first call
// of a size waits for connections.
void returns_at_once(const On& on) {
  constexpr int kN = 1 << 20;
  Buffer data(input_of(on.rank, kN)), first(garbage(kN));
  int told = 0;
  need(gpucollMPIBcast(first.at(), kN, MPI_INT, 0, on.comm, on.stream), "Bcast");
  if (on.rank != 0) MPI_Recv(&told, 1, MPI_INT, 0, 0, on.comm, MPI_STATUS_IGNORE);
  for (int i = 0; i < 3; ++i) need(gpucollMPIBcast(data.at(), kN, MPI_INT, 0, on.comm, on.stream), "Bcast");
  if (on.rank == 0)
    for (int r = 1; r < on.size; ++r) MPI_Send(&told, 1, MPI_INT, r, 0, on.comm);
  data.expect(on, "Bcast that the root begins", input_of(0, kN));
}

// A step round the ring and a sum, captured at the communicator's first use.
void graphs() {
  MPI_Comm dup;
  MPI_Comm_dup(MPI_COMM_WORLD, &dup);
  {
    const On on(dup, "a communicator whose first use is captured");
    constexpr int kN = 1009, kLaunches = 5;
    const int next = (on.rank + 1) % on.size, before = (on.rank + on.size - 1) % on.size;
    Buffer data(input_of(on.rank, kN)), other(garbage(kN)), sum(garbage(kN));
    gpucollGraph_t graph;
    need(gpucollStreamBeginCapture(on.stream), "gpucollStreamBeginCapture");
    need(gpucollMPIAllreduce(data.at(), sum.at(), kN, MPI_INT, MPI_SUM, dup, on.stream), "Allreduce");
    need(gpucollMPISendrecv(data.at(), kN, MPI_INT, next, other.at(), kN, MPI_INT, before, dup, on.stream), "Sendrecv");
    need(gpucollMPISendrecv(other.at(), kN, MPI_INT, next, data.at(), kN, MPI_INT, before, dup, on.stream), "Sendrecv");
    need(gpucollMPIReduce_scatter_block(MPI_IN_PLACE, sum.at(), kN / on.size, MPI_INT, MPI_SUM, dup, on.stream),
         "Reduce_scatter_block");
    need(gpucollStreamEndCapture(on.stream, &graph), "gpucollStreamEndCapture");
    for (int i = 0; i < kLaunches; ++i) need(gpucollGraphLaunch(graph, on.stream), "gpucollGraphLaunch");
    data.expect(on, "a graph that passes on", input_of(((on.rank - 2 * kLaunches) % on.size + on.size) % on.size, kN));
    const auto part = static_cast<size_t>(kN / on.size);
    Ints right = sums(on, part * static_cast<size_t>(on.rank), part);
    for (int& element : right) element *= on.size;
    sum.expect(on, "a graph that sums", right);
    need(gpucollGraphDestroy(graph), "gpucollGraphDestroy");
  }
  MPI_Comm_free(&dup);
}

// Two communicators, each with a stream, whose calls alternate.
void several_communicators(const On& world) {
  MPI_Comm reversed;
  MPI_Comm_split(MPI_COMM_WORLD, 0, -world.rank, &reversed);
  {
    const On on(reversed, "the ranks in reverse");
    constexpr int kN = 5003, kTurns = 20;
    Buffer one(input_of(world.rank, kN)), two(input_of(on.rank, kN));
    for (int i = 0; i < kTurns; ++i) {
      need(gpucollMPIBcast(one.at(), kN, MPI_INT, i % world.size, world.comm, world.stream), "Bcast");
      need(gpucollMPIBcast(two.at(), kN, MPI_INT, i % on.size, on.comm, on.stream), "Bcast");
    }
    one.expect(world, "Bcast in turn", input_of(0, kN));
    two.expect(on, "Bcast in turn", input_of(0, kN));
  }
  MPI_Comm_free(&reversed);
}

// A communicator may be freed as soon as its calls have returned, and leaves nothing behind.
void freed(const On& world) {
  constexpr int kN = 100003, kTimes = 12;
  int after_some = 0;
  for (int i = 0; i < kTimes; ++i) {
    MPI_Comm dup;
    MPI_Comm_dup(MPI_COMM_WORLD, &dup);
    Buffer data(input_of(world.rank, kN));
    need(gpucollMPIAllreduce(MPI_IN_PLACE, data.at(), kN, MPI_INT, MPI_SUM, dup, world.stream), "Allreduce");
    MPI_Comm_free(&dup);
    data.expect(world, "Allreduce before MPI_Comm_free", sums(world, 0, kN));
    if (i == kTimes / 2) after_some = gpucoll_test::open_descriptors();
  }
  const int at_end = gpucoll_test::open_descriptors();
  if (!checked(at_end <= after_some + 3)) fail("%d descriptors are open, and were %d", at_end, after_some);
}

void expect_refusal(gpucollResult_t found, gpucollResult_t right, const char* sentence) {
  const char* const said = gpucollGetLastError(nullptr);
  if (!checked(found == right && std::strstr(said, sentence)))
    fail("error %d instead of %d: '%s' instead of '%s'", found, right, said, sentence);
}

// Every rank makes the same mistake, and the communicator goes on.
void refusals(const On& on) {
  constexpr int kN = 16;
  Buffer data(input_of(on.rank, kN * on.ranks())), other(garbage(kN * on.ranks()));
  gpucollComm_t comm;
  const auto bcast = [&](MPI_Datatype type, int count = 1) {
    return gpucollMPIBcast(data.at(), count, type, 0, on.comm, on.stream);
  };
  const auto allreduce = [&](MPI_Datatype type, MPI_Op op) {
    return gpucollMPIAllreduce(data.at(), other.at(), 1, type, op, on.comm, on.stream);
  };
  const auto invalid = gpucollInvalidArgument;
  expect_refusal(gpucollCommFromMPI(MPI_COMM_NULL, &comm), invalid, "MPI_COMM_NULL");
  expect_refusal(gpucollCommFromMPI(on.comm, nullptr), invalid, "comm is NULL");
  expect_refusal(bcast(MPI_DATATYPE_NULL), invalid, "MPI_DATATYPE_NULL");
  expect_refusal(bcast(MPI_INT, -1), invalid, "count is -1");
  expect_refusal(gpucollMPIBcast(data.at(), MPI_Count{1} << 62, MPI_INT, 0, on.comm, on.stream), invalid,
                 "larger than any memory");
  expect_refusal(gpucollMPIBcast(data.at(), 1, MPI_INT, on.size, on.comm, on.stream), invalid, "root");
  expect_refusal(gpucollMPIGather(data.at(), 1, MPI_INT, other.at(), 1, MPI_INT, -1, on.comm, on.stream), invalid,
                 "root is -1");
  expect_refusal(gpucollMPISend(data.at(), 1, MPI_INT, on.size, on.comm, on.stream), invalid, "dest");
  expect_refusal(gpucollMPIRecv(data.at(), 1, MPI_INT, MPI_ANY_SOURCE, on.comm, on.stream), invalid,
                 "or call MPI_Recv");
  expect_refusal(gpucollMPISend(data.at(), 1, MPI_INT, MPI_ANY_SOURCE, on.comm, on.stream), invalid, "MPI_Send");
  expect_refusal(gpucollMPIAllgather(data.at(), 3, MPI_INT, other.at(), 2, MPI_INT, on.comm, on.stream), invalid,
                 "sendcount says 12 bytes and recvcount says 8");
  const Ints none(on.ranks(), 0), four(on.ranks(), 4);
  MPI_Datatype large, larger;
  MPI_Type_contiguous(1 << 30, MPI_INT, &large);
  MPI_Type_contiguous(1 << 30, large, &larger);
  expect_refusal(
      gpucollMPIAllgatherv(data.at(), 0, MPI_INT, other.at(), four.data(), none.data(), larger, on.comm, on.stream),
      invalid, "recvcounts[0] is 4");
  Ints one = none;
  one[0] = 1;
  expect_refusal(
      gpucollMPIAllgatherv(data.at(), 0, MPI_INT, other.at(), one.data(), four.data(), larger, on.comm, on.stream),
      invalid, "displs[0] is 4");
  expect_refusal(bcast(larger, 4), invalid, "larger than any memory");
  MPI_Type_free(&larger);
  MPI_Type_free(&large);
  expect_refusal(gpucollMPIAlltoallv(MPI_IN_PLACE, nullptr, nullptr, MPI_INT, other.at(), none.data(), none.data(),
                                     MPI_INT, on.comm, on.stream),
                 invalid, "MPI_IN_PLACE");
  int host[kN * 8] = {};
  expect_refusal(gpucollMPIBcast(host, 4, MPI_INT, 0, on.comm, on.stream), invalid, "device memory");

  int lengths[] = {1, 1}, places[] = {1, 0};
  MPI_Datatype gaps, backwards, padded, mixed, inner;
  MPI_Type_vector(2, 1, 2, MPI_INT, &gaps);
  MPI_Type_indexed(2, lengths, places, MPI_INT, &backwards);
  MPI_Type_create_resized(MPI_INT, 0, 8, &padded);
  MPI_Aint bytes[] = {0, 4};
  MPI_Datatype of[] = {MPI_INT, MPI_FLOAT};
  MPI_Type_create_struct(2, lengths, bytes, of, &mixed);
  int sizes[] = {4, 4}, subsizes[] = {4, 2}, starts[] = {0, 0};
  MPI_Type_create_subarray(2, sizes, subsizes, starts, MPI_ORDER_C, MPI_INT, &inner);
  for (MPI_Datatype* type : {&gaps, &backwards, &padded, &inner}) {
    MPI_Type_commit(type);
    for (int again = 0; again < 2; ++again) expect_refusal(bcast(*type), invalid, "gaps");
    expect_refusal(allreduce(*type, MPI_SUM), invalid, "gaps");
    MPI_Type_free(type);
  }
  MPI_Type_commit(&mixed);
  expect_refusal(allreduce(mixed, MPI_SUM), invalid, "has no operation");
  MPI_Type_free(&mixed);
  expect_refusal(allreduce(MPI_LONG_DOUBLE, MPI_SUM), invalid, "has no operation");
  MPI_Datatype octets;
  MPI_Type_contiguous(3, MPI_BYTE, &octets);
  for (const MPI_Op op : {MPI_SUM, MPI_PROD, MPI_MIN, MPI_MAX, MPI_LAND}) {
    expect_refusal(allreduce(MPI_BYTE, op), invalid, "MPI_BYTE, which has only MPI_BAND");
    expect_refusal(allreduce(octets, op), invalid, "MPI_BYTE, which has only MPI_BAND");
  }
  need(allreduce(octets, MPI_BXOR), "Allreduce of bytes");
  MPI_Type_free(&octets);
  for (const MPI_Datatype type : {MPI_C_BOOL, MPI_LOGICAL}) {
    for (const MPI_Op op : {MPI_SUM, MPI_PROD, MPI_MIN, MPI_MAX, MPI_BAND})
      expect_refusal(allreduce(type, op), invalid, "truth values, which has only MPI_LAND");
    need(allreduce(type, MPI_LOR), "Allreduce of truth values");
  }
  expect_refusal(gpucollMPIReduce_scatter(data.at(), other.at(), none.data(), MPI_BYTE, MPI_SUM, on.comm, on.stream),
                 invalid, "MPI_BYTE");
  expect_refusal(allreduce(MPI_INT, MPI_REPLACE), invalid, "the operation is none");
  expect_refusal(allreduce(MPI_INT, MPI_MAXLOC), invalid, "");
  MPI_Op own;
  MPI_Op_create([](void*, void*, int*, MPI_Datatype*) {}, 1, &own);
  expect_refusal(allreduce(MPI_INT, own), invalid, "the operation is none");
  MPI_Op_free(&own);

  need(gpucollCommFromMPI(on.comm, &comm), "gpucollCommFromMPI");
  expect_refusal(gpucollCommDestroy(comm), gpucollInvalidUsage, "belongs to an MPI communicator");
  expect_refusal(gpucollCommAbort(comm), gpucollInvalidUsage, "belongs to an MPI communicator");
  const std::string said = gpucoll_test::said_in_child([&] {
    const bool refused = gpucollMPIBarrier(on.comm, on.stream) == gpucollInvalidUsage;
    return std::string(refused ? gpucollGetLastError(nullptr) : "not refused");
  });
  if (!checked(said.find("forked") != std::string::npos)) fail("a forked child is told '%s'", said.c_str());

  // In a group: the group fails, and nothing of it runs.
  Buffer untouched(input_of(on.rank, kN));
  need(gpucollGroupStart(), "gpucollGroupStart");
  need(gpucollMPIAllreduce(MPI_IN_PLACE, untouched.at(), kN, MPI_INT, MPI_SUM, on.comm, on.stream), "Allreduce");
  expect_refusal(bcast(MPI_INT, -1), invalid, "count is -1");
  if (!checked(gpucollGroupEnd() == invalid)) fail("a group with a refused call does not fail");
  untouched.expect(on, "a group that fails", input_of(on.rank, kN));
  need(gpucollGroupStart(), "gpucollGroupStart");
  expect_refusal(gpucollMPIReduce_scatter_block(MPI_IN_PLACE, data.at(), 1, MPI_INT, MPI_SUM, on.comm, on.stream),
                 gpucollInvalidUsage, "which a group cannot");
  if (!checked(gpucollGroupEnd() == gpucollInvalidUsage)) fail("a group with a refused call does not fail");
  if (on.size > 1) {
    Ints growing(on.ranks(), 1);
    growing.back() = on.size + 1;
    expect_refusal(
        gpucollMPIReduce_scatter(MPI_IN_PLACE, data.at(), growing.data(), MPI_INT, MPI_SUM, on.comm, on.stream),
        invalid, "overlap");
  }
  equal_moves(on, 100);
}

// Makes mistakes with a communicator that has none of the C API yet.
void refused_communicators(const On& on) {
  MPI_Comm dup, inter = MPI_COMM_NULL, half;
  MPI_Comm_dup(MPI_COMM_WORLD, &dup);
  gpucollComm_t comm;
  Buffer data(input_of(on.rank, 16));
  expect_refusal(gpucollMPISend(data.at(), 16, MPI_INT, MPI_PROC_NULL, dup, on.stream), gpucollInvalidUsage,
                 "call gpucollCommFromMPI on all of its ranks first");
  need(gpucollGroupStart(), "gpucollGroupStart");
  expect_refusal(gpucollCommFromMPI(dup, &comm), gpucollInvalidUsage, "before gpucollGroupStart");
  if (!checked(gpucollGroupEnd() == gpucollInvalidUsage)) fail("a group with a refused call does not fail");
  need(gpucollCommFromMPI(dup, &comm), "gpucollCommFromMPI");
  MPI_Comm_free(&dup);
  if (on.size == 1) return;
  MPI_Comm_split(MPI_COMM_WORLD, on.rank % 2, 0, &half);
  MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - on.rank % 2, 0, &inter);
  expect_refusal(gpucollCommFromMPI(inter, &comm), gpucollInvalidArgument, "intercommunicator");
  MPI_Comm_free(&inter);
  MPI_Comm_free(&half);
}

// Lets one rank fail: all fail then, and may try again.
void failed_on_one_rank(const On& world) {
  MPI_Comm dup;
  MPI_Comm_dup(MPI_COMM_WORLD, &dup);
  gpucollComm_t comm;
  g_cannot_keep = world.rank == world.size - 1;
  expect_refusal(gpucollCommFromMPI(dup, &comm), gpucollSystemError, "MPI_Comm_set_attr failed");
  need(gpucollCommFromMPI(dup, &comm), "gpucollCommFromMPI");
  MPI_Comm_free(&dup);
}

// A communicator that a group may have calls of is not freed; the group fails, and then it is.
void freed_in_a_group(const On& world) {
  MPI_Comm dup;
  MPI_Comm_dup(MPI_COMM_WORLD, &dup);
  MPI_Comm_set_errhandler(dup, MPI_ERRORS_RETURN);
  gpucollComm_t comm;
  need(gpucollCommFromMPI(dup, &comm), "gpucollCommFromMPI");
  Buffer data(input_of(world.rank, 16));
  need(gpucollGroupStart(), "gpucollGroupStart");
  need(gpucollMPIBcast(data.at(), 16, MPI_INT, 0, dup, world.stream), "Bcast");
  if (!checked(MPI_Comm_free(&dup) != MPI_SUCCESS && dup != MPI_COMM_NULL)) fail("MPI_Comm_free works in a group");
  expect_refusal(gpucollGroupEnd(), gpucollInvalidUsage, "call gpucollGroupEnd before MPI_Comm_free");
  data.expect(world, "a group that fails", input_of(world.rank, 16));
  need(gpucollMPIBcast(data.at(), 16, MPI_INT, 0, dup, world.stream), "Bcast");
  data.expect(world, "Bcast after a refused MPI_Comm_free", input_of(0, 16));
  if (!checked(MPI_Comm_free(&dup) == MPI_SUCCESS)) fail("MPI_Comm_free fails after a group");
}

// Ends what waits for a rank that does not come, on all ranks; the MPI communicator can be freed then.
void revoked() {
  MPI_Comm dup;
  MPI_Comm_dup(MPI_COMM_WORLD, &dup);
  {
    const On on(dup, "a communicator that is revoked");
    constexpr int kN = 4099;
    gpucollComm_t comm;
    Buffer data(input_of(on.rank, kN)), other(garbage(kN));
    need(gpucollCommFromMPI(dup, &comm), "gpucollCommFromMPI");
    need(gpucollMPIAllreduce(data.at(), other.at(), kN, MPI_INT, MPI_SUM, dup, on.stream), "Allreduce");  // connects
    if (on.rank != 0)
      need(gpucollMPIAllreduce(MPI_IN_PLACE, data.at(), kN, MPI_INT, MPI_SUM, dup, on.stream), "Allreduce");
    MPI_Barrier(dup);
    if (on.rank == 0) need(gpucollCommRevoke(comm), "gpucollCommRevoke");
    need(gpucollStreamSynchronize(on.stream), "gpucollStreamSynchronize");
    checked(true);
    MPI_Barrier(dup);
    expect_refusal(gpucollMPIBarrier(dup, on.stream), on.rank == 0 ? gpucollInvalidUsage : gpucollRemoteError,
                   "revoked");
  }
  MPI_Comm_free(&dup);
}

// Threads use a type for the first time at once, each on a communicator of its own. What is kept with the type is never
// replaced: another thread may be reading it.
void types_of_threads(const std::vector<MPI_Comm>& comms) {
  constexpr int kTimes = 20;
  std::vector<MPI_Datatype> types(kTimes);
  for (MPI_Datatype& type : types) {
    MPI_Type_contiguous(3, MPI_INT, &type);
    MPI_Type_commit(&type);
  }
  const int before = g_kept_with_types;
  std::atomic<int> came{0};
  on_threads(static_cast<int>(comms.size()), [&](int t) {
    const On on(comms[static_cast<size_t>(t)], "a thread's communicator");
    Buffer data(garbage(3));
    for (int i = 0; i < kTimes; ++i) {
      ++came;
      while (came < (i + 1) * static_cast<int>(comms.size())) std::this_thread::yield();
      // Refused, but not before what the type is made of is known.
      for (int again = 0; again < 3; ++again)
        expect_refusal(gpucollMPIBcast(data.at(), -1, types[static_cast<size_t>(i)], 0, on.comm, on.stream),
                       gpucollInvalidArgument, "count is -1");
    }
  });
  if (!checked(g_kept_with_types - before == kTimes))
    fail("something was kept %d times with %d types", g_kept_with_types - before, kTimes);
  for (MPI_Datatype& type : types) MPI_Type_free(&type);
}

// Threads use communicators of their own at once, the first calls as well.
void with_threads() {
  constexpr int kThreads = 4, kN = 1501;
  g_keep_memory = true;
  std::vector<MPI_Comm> comms(kThreads);
  for (MPI_Comm& comm : comms) MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  on_threads(kThreads, [&](int t) {
    const On on(comms[static_cast<size_t>(t)], "a thread's communicator");
    for (int i = 0; i < 10; ++i) {
      Buffer data(input_of(on.rank, kN));
      need(gpucollMPIAllreduce(MPI_IN_PLACE, data.at(), kN, MPI_INT, MPI_SUM, on.comm, on.stream), "Allreduce");
      data.expect(on, "Allreduce of a thread", sums(on, 0, kN));
    }
  });
  types_of_threads(comms);
  for (MPI_Comm& comm : comms) MPI_Comm_free(&comm);
}

void run_all() {
  const On world(MPI_COMM_WORLD, "MPI_COMM_WORLD");
  refused_communicators(world);
  everything(world);
  refusals(world);
  returns_at_once(world);
  several_communicators(world);
  graphs();
  freed(world);
  freed_in_a_group(world);
  failed_on_one_rank(world);
  revoked();
  everything(On(MPI_COMM_SELF, "MPI_COMM_SELF"));
  MPI_Comm half;
  MPI_Comm_split(MPI_COMM_WORLD, g_rank % 2, -g_rank, &half);
  everything(On(half, "every second rank in reverse"));
  // MPI_Finalize destroys its communicator.
}

// Rank 0 waits alone, and gives up. The others come later, and learn that it did.
void late() {
  gpucollComm_t comm = nullptr;
  if (g_rank == 0) expect_refusal(gpucollCommFromMPI(MPI_COMM_WORLD, &comm), gpucollTimeout, "all of them must call");
  MPI_Barrier(MPI_COMM_SELF);
  int told = 0;
  if (g_rank == 0)
    for (int r = 1; r < g_size; ++r) MPI_Send(&told, 1, MPI_INT, r, 0, MPI_COMM_WORLD);
  else
    MPI_Recv(&told, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  if (g_rank != 0) expect_refusal(gpucollCommFromMPI(MPI_COMM_WORLD, &comm), gpucollTimeout, "all of them must call");
  // Another try would cross what is left of the first.
  MPI_Barrier(MPI_COMM_WORLD);
  for (int again = 0; again < 2; ++again)
    expect_refusal(gpucollCommFromMPI(MPI_COMM_WORLD, &comm), gpucollInvalidUsage, "they are out of step");
  MPI_Group group;
  MPI_Comm_group(MPI_COMM_WORLD, &group);
  MPI_Comm another;
  MPI_Comm_create_group(MPI_COMM_WORLD, group, 0, &another);
  need(gpucollCommFromMPI(another, &comm), "gpucollCommFromMPI");
  MPI_Comm_free(&another);
  MPI_Group_free(&group);
}

// Frees memory while the stream waits for others: with emu_exclusive that waits for the stream, as on GPUs.
void freeing() {
  constexpr int kN = (1 << 18) + 1001;  // in bytes more than copy_engine_bytes is by itself
  const On on(MPI_COMM_WORLD, "MPI_COMM_WORLD");
  gpucollComm_t comm = nullptr;
  need(gpucollCommFromMPI(on.comm, &comm), "gpucollCommFromMPI");
  const int next = (on.rank + 1) % on.size, before = (on.rank + on.size - 1) % on.size;
  for (int i = 0; i < 5; ++i) {
    std::optional<Buffer> spare(garbage(100));
    Buffer data(input_of(on.rank, kN)), other(garbage(kN));
    need(gpucollMPISendrecv(data.at(), kN, MPI_INT, next, other.at(), kN, MPI_INT, before, on.comm, on.stream),
         "Sendrecv");
    spare.reset();
    other.expect(on, "Sendrecv beside a free", input_of(before, kN));
  }
}

int outside_of_mpi() {
  gpucollComm_t comm;
  const bool before = gpucollCommFromMPI(MPI_COMM_WORLD, &comm) == gpucollInvalidUsage &&
                      std::strstr(gpucollGetLastError(nullptr), "MPI does not run");
  MPI_Init(nullptr, nullptr);
  use_own_device();
  const bool meanwhile = gpucollCommFromMPI(MPI_COMM_WORLD, &comm) == gpucollSuccess;
  MPI_Finalize();
  const bool after = gpucollCommFromMPI(MPI_COMM_WORLD, &comm) == gpucollInvalidUsage &&
                     std::strstr(gpucollGetLastError(nullptr), "MPI_Finalize");
  std::printf("before %d, meanwhile %d, after %d\n", before, meanwhile, after);
  return before && meanwhile && after ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  if (mode == "unknown") return outside_of_mpi();
  const bool threads = mode == "threads";
  Mpi mpi(argc, argv, threads ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE);
  use_own_device();
  if (mode == "late")
    late();
  else if (mode == "freeing")
    freeing();
  else if (threads && mpi.threads() != MPI_THREAD_MULTIPLE)
    checked(true);  // this MPI was built without
  else if (threads)
    with_threads();
  else
    run_all();
  return mpi.finish("stream_ordered");
}
