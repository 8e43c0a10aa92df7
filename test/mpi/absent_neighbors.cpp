// Neighbourhood collectives on ranks to or from which no edge leads, which may pass NULL, and in grids with borders,
// where the blocks of neighbours that do not exist may lie anywhere, as MPI leaves them alone. Of device memory on all
// ranks, and on some, where the call goes through the host.
#include "call_form.h"

namespace {
using namespace mpi_test;

constexpr int kCount = 50, kNone = -1;
constexpr int kFar = 1 << 28;  // elements: beyond all that is allocated

size_t z(int n) { return static_cast<size_t>(n); }
int value(int rank, int block, int index) { return 10000 * rank + 1000 * block + index; }

struct Buffers {
  Buffers(Where where, int blocks) : send(where, bytes(blocks)), recv(where, bytes(blocks)), n(blocks) {
    std::vector<int> out(z(blocks * kCount)), none(z(blocks * kCount), kNone);
    for (int i = 0; i < blocks * kCount; i++) out[z(i)] = value(g_rank, i / kCount, i % kCount);
    send.write(out.data());
    recv.write(none.data());
  }
  static size_t bytes(int blocks) { return z(blocks * kCount) * sizeof(int); }
  // Checks a block: what rank `from` has sent in its block `sent`, or nothing.
  void check(int block, int from, int sent, const std::string &what) const {
    std::vector<int> got(z(n * kCount));
    recv.read(got.data());
    for (int i = 0; i < kCount; i++) {
      const int expected = from < 0 ? kNone : value(from, sent, i), is = got[z(block * kCount + i)];
      if (!checked(is == expected))
        return fail("%s: block %d has %d at %d, not %d", what.c_str(), block, is, i, expected);
    }
  }
  Memory send, recv;
  int n;
};

#define GC_CALL(form, comm, name, ...)                                                                     \
  do {                                                                                                     \
    MPI_Request request = MPI_REQUEST_NULL;                                                                \
    if (GC_CALL_IN_FORM(form, comm, Neighbor_##name, neighbor_##name, __VA_ARGS__)) fail(#name " failed"); \
  } while (0)

// Edges lead from rank 0 to all others.
MPI_Comm make_star() {
  std::vector<int> others;
  for (int r = 1; r < g_size; r++) others.push_back(r);
  const int root = 0;
  MPI_Comm star = MPI_COMM_NULL;
  const bool at_root = g_rank == 0;
  MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, at_root ? 0 : 1, &root, MPI_UNWEIGHTED, at_root ? g_size - 1 : 0,
                                 others.data(), MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &star);
  return star;
}

void along_star(MPI_Comm star, Form form, Where where) {
  const std::string in = std::string(name_of(form)) + "star of " + name_of(where);
  const int counts[] = {kCount}, places[] = {0};
  for (const bool v : {false, true}) {
    const Buffers b(where, 1);
    const void *const send = g_rank == 0 ? b.send.at(0) : nullptr;
    void *const recv = g_rank == 0 ? nullptr : b.recv.at(0);
    if (v)
      GC_CALL(form, star, allgatherv, send, kCount, MPI_INT, recv, counts, places, MPI_INT);
    else
      GC_CALL(form, star, allgather, send, kCount, MPI_INT, recv, kCount, MPI_INT);
    b.check(0, g_rank == 0 ? -1 : 0, 0, in);
  }
  const Buffers b(where, g_size);
  GC_CALL(form, star, alltoall, g_rank == 0 ? b.send.at(0) : nullptr, kCount, MPI_INT,
          g_rank == 0 ? nullptr : b.recv.at(0), kCount, MPI_INT);
  b.check(0, g_rank == 0 ? -1 : 0, g_rank - 1, in + ", alltoall");
}

// A row with ends, in a grid whose second dimension leads nowhere.
void along_row(MPI_Comm row, Form form, Where where) {
  const std::string in = std::string(name_of(form)) + "row of " + name_of(where);
  const int left = g_rank - 1, right = g_rank + 1 < g_size ? g_rank + 1 : -1;
  const bool there[4] = {left >= 0, right >= 0, false, false};
  int counts[4], places[4];
  MPI_Aint far_places[4];
  MPI_Datatype types[4];
  for (int i = 0; i < 4; i++) {
    counts[i] = kCount;
    places[i] = there[i] ? i * kCount : kFar;
    far_places[i] = static_cast<MPI_Aint>(places[i]) * 4;
    types[i] = MPI_INT;
  }
  for (const int which : {0, 1, 2, 3}) {
    const Buffers b(where, 4);
    void *const send = b.send.at(0), *const recv = b.recv.at(0);
    switch (which) {
      case 0: GC_CALL(form, row, alltoallv, send, counts, places, MPI_INT, recv, counts, places, MPI_INT); break;
      case 1: GC_CALL(form, row, alltoallw, send, counts, far_places, types, recv, counts, far_places, types); break;
      case 2: GC_CALL(form, row, allgatherv, send, kCount, MPI_INT, recv, counts, places, MPI_INT); break;
      default: GC_CALL(form, row, alltoall, send, kCount, MPI_INT, recv, kCount, MPI_INT); break;
    }
    const std::string what = in + ", function " + std::to_string(which);
    b.check(0, left, which == 2 ? 0 : 1, what);
    b.check(1, right, 0, what);
    b.check(2, -1, 0, what);
    b.check(3, -1, 0, what);
  }
}

// Edges lead from rank 2 to rank 0, with data, and on to rank 1, without. What rank 1 sends no edge carries.
void past_empty_edge(Where where) {
  if (g_size < 3) return;
  const int before[] = {2, 0, MPI_PROC_NULL}, behind[] = {1, MPI_PROC_NULL, 0};
  const int in = g_rank < 2 ? 1 : 0, out = g_rank != 1 && g_rank < 3 ? 1 : 0;
  const int *const from = &before[in ? g_rank : 0], *const to = &behind[out ? g_rank : 0];
  MPI_Comm path = MPI_COMM_NULL;
  MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, in, from, MPI_UNWEIGHTED, out, to, MPI_UNWEIGHTED, MPI_INFO_NULL, 0,
                                 &path);
  MPI_Datatype empty;
  MPI_Type_contiguous(0, MPI_INT, &empty);
  MPI_Type_commit(&empty);
  const Buffers b(where, 1);
  MPI_Neighbor_allgather(b.send.at(0), kCount, g_rank == 0 ? empty : MPI_INT, b.recv.at(0), kCount,
                         g_rank == 1 ? empty : MPI_INT, path);
  b.check(0, g_rank == 0 ? 2 : -1, 0, std::string("past an empty edge, of ") + name_of(where));
  MPI_Type_free(&empty);
  MPI_Comm_free(&path);
}

// Rank 0 and rank 1 are neighbours, and each of the others its own. Where the two have nothing to tell each other, the
// others' data arrive all the same, and so do their own the next time.
void nothing_between_two(Form form, Where where) {
  const int other = g_rank < 2 ? 1 - g_rank : g_rank;
  MPI_Comm pairs = MPI_COMM_NULL;
  MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, &other, MPI_UNWEIGHTED, 1, &other, MPI_UNWEIGHTED, MPI_INFO_NULL, 0,
                                 &pairs);
  MPI_Datatype empty;
  MPI_Type_contiguous(0, MPI_INT, &empty);
  MPI_Type_commit(&empty);
  const MPI_Aint start = 0;
  for (const bool some : {false, true, false, true}) {
    const bool none = !some && g_rank < 2;
    const MPI_Datatype type = none ? empty : MPI_INT;
    const int count = none && g_rank == 0 ? 0 : kCount;  // no elements, or elements of nothing
    const int place = 0;
    for (const int which : {0, 1, 2, 3, 4}) {
      const Buffers b(where, 1);
      void *const send = b.send.at(0), *const recv = b.recv.at(0);
      switch (which) {
        case 0: GC_CALL(form, pairs, allgather, send, count, type, recv, count, type); break;
        case 1: GC_CALL(form, pairs, alltoall, send, count, type, recv, count, type); break;
        case 2: GC_CALL(form, pairs, allgatherv, send, count, type, recv, &count, &place, type); break;
        case 3: GC_CALL(form, pairs, alltoallv, send, &count, &place, type, recv, &count, &place, type); break;
        default: GC_CALL(form, pairs, alltoallw, send, &count, &start, &type, recv, &count, &start, &type); break;
      }
      b.check(0, none ? -1 : other, 0,
              std::string(name_of(form)) + "nothing between two, function " + std::to_string(which) + ", of " +
                  name_of(where));
    }
  }
  MPI_Type_free(&empty);
  MPI_Comm_free(&pairs);
}

// A grid of which no rank has a neighbour.
void alone(Form form, Where where) {
  const int one = 1, no = 0;
  MPI_Comm grid = MPI_COMM_NULL;
  MPI_Cart_create(MPI_COMM_SELF, 1, &one, &no, 0, &grid);
  const Buffers b(where, 2);
  GC_CALL(form, grid, allgather, static_cast<void *>(nullptr), kCount, MPI_INT, b.recv.at(0), kCount, MPI_INT);
  b.check(0, -1, 0, "alone");
  b.check(1, -1, 0, "alone");
  MPI_Comm_free(&grid);
}

}  // namespace

int main(int argc, char **argv) {
  Mpi mpi(argc, argv);
  use_own_device();
  MPI_Comm star = make_star(), row = MPI_COMM_NULL;
  const int sizes[2] = {g_size, 1}, periods[2] = {0, 0};
  MPI_Cart_create(MPI_COMM_WORLD, 2, sizes, periods, 0, &row);
  for (const Where where :
       {Where::device, g_rank % 2 == 0 ? Where::device : Where::host, g_rank % 2 == 0 ? Where::host : Where::device}) {
    for (const Form form : kForms) {
      along_star(star, form, where);
      along_row(row, form, where);
      alone(form, where);
      nothing_between_two(form, where);
    }
    past_empty_edge(where);
  }
  MPI_Comm_free(&star);
  MPI_Comm_free(&row);
  return mpi.finish("absent_neighbors");
}
