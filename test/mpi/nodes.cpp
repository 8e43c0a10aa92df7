// Ranks that cannot see each other's processes, as in containers of their own or on hosts: what they call runs on their
// devices, whether all of them call it or the ranks of one node; without a network between them, what all call goes
// through the host, and gives what it should.
// nodes.sh runs it. usage: nodes RANKS_OF_A_NODE [staged]
#include "abi/abi.h"
#include "call_form.h"

namespace {
using namespace mpi_test;

uint64_t runs() { return gpucoll_abi(GC_ABI_VERSION)->runs(); }

int value(int rank, int i) {
  return static_cast<int>(mix(static_cast<uint64_t>(rank), static_cast<uint64_t>(i)) % 1000);
}

// `first`: of the ranks of the world that comm has, which follow each other. Whether the results are right.
bool is_right(MPI_Comm comm, int first, int count, Form form) {
  int n = 0;
  MPI_Comm_size(comm, &n);
  const size_t elements = static_cast<size_t>(count);
  std::vector<int> input(elements), sums(elements), all(elements * static_cast<size_t>(n));
  for (int i = 0; i < count; i++) input[static_cast<size_t>(i)] = value(g_rank, i);
  Memory send(Where::device, 4 * elements), sum(Where::device, 4 * elements), gathered(Where::device, 4 * all.size());
  send.write(input.data());
  MPI_Request request;
  bool right = GC_CALL_IN_FORM(form, comm, Allreduce, allreduce, send.at(0), sum.at(0), count, MPI_INT, MPI_SUM) ==
                   MPI_SUCCESS &&
               GC_CALL_IN_FORM(form, comm, Allgather, allgather, send.at(0), count, MPI_INT, gathered.at(0), count,
                               MPI_INT) == MPI_SUCCESS;
  sum.read(sums.data());
  gathered.read(all.data());
  for (int i = 0; i < count; i++) {
    int expected = 0;
    for (int r = 0; r < n; r++) {
      expected += value(first + r, i);
      right = right && all[static_cast<size_t>(r * count + i)] == value(first + r, i);
    }
    right = right && sums[static_cast<size_t>(i)] == expected;
  }
  return right;
}

void use(const char* what, MPI_Comm comm, int first, bool on_device) {
  for (const Form form : kForms)
    for (const int count : {1, 3000, 300000}) {
      const uint64_t before = runs();
      if (!checked(is_right(comm, first, count, form))) fail("%s%s: wrong results", name_of(form), what);
      const uint64_t times = runs() - before;
      if (!checked(times == (on_device ? 2u : 0u)))
        fail("%s%s: %d calls ran on the device", name_of(form), what, static_cast<int>(times));
    }
}

}  // namespace

int main(int argc, char** argv) {
  Mpi mpi(argc, argv);
  use_own_device();
  const int in_node = argc > 1 ? std::atoi(argv[1]) : 1, first = g_rank / in_node * in_node;
  const bool staged = argc > 2;
  MPI_Comm node;
  MPI_Comm_split(MPI_COMM_WORLD, first, g_rank, &node);
  for (int round = 0; round < 2; round++) {
    use("all ranks", MPI_COMM_WORLD, 0, !staged);
    use("a node's ranks", node, first, true);
  }
  MPI_Comm_free(&node);
  return mpi.finish("nodes");
}
