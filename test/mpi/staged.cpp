// Every collective on device memory against the same call on host memory: all kinds of placement, derived types with
// gaps and negative lower bounds, zero counts, negative displacements, intercommunicators, neighbourhoods, in place;
// blocking, nonblocking and persistent. Whole allocations are compared, so a byte written where none belongs is seen.
//
// staged            everything
// staged addresses  what lies far apart
#include "staged_addresses.h"
#include "staged_calls.h"

namespace {
using namespace staged;

void run_all(std::vector<Case>& cases) {
  uint64_t seed = 17;
  for (const Case& test : cases) run_case(test, seed++);
}

void far_data() {
  crowd_address_space();
  far_gatherv();
  absolute_addresses();
  for (int pieces : {1, 2, 50})
    for (bool host_first : {false, true}) mixed_addresses(host_first, pieces);
  column_and_program();
  mixed_blocks();
  for (int pieces : {2, 100}) two_devices(pieces);
  interleaved_columns();
}

}  // namespace

int main(int argc, char** argv) {
  Mpi mpi(argc, argv);
  use_own_device();
  if (argc > 1 && !std::strcmp(argv[1], "addresses")) {
    far_data();
    return mpi.finish("staged addresses");
  }
  far_displacements();
  const std::vector<Type> types = make_types();
  MPI_Op compose;
  MPI_Op_create(compose_maps, 0, &compose);
  std::vector<Case> cases;
  const Group world = intra("world", MPI_COMM_WORLD, 1);
  for (const Type& type : types) {
    const std::string in = std::string(" of ") + type.name;
    exchange_cases(cases, world, type, in);
    rooted_cases(cases, world, type, in);
    in_place_cases(cases, world, type.type, in);
  }
  reduction_cases(cases, world, MPI_INT, MPI_SUM, " of int");
  reduction_cases(cases, world, types[1].type, compose, " of vector by a user's operation");
  reduction_cases(cases, intra("self", MPI_COMM_SELF, 0), MPI_INT, MPI_SUM, " on self");
  exchange_cases(cases, intra("self", MPI_COMM_SELF, 0), types[1], " on self");
  rooted_cases(cases, intra("self", MPI_COMM_SELF, 0), types[1], " on self");
  reduce_local_case(cases);

  MPI_Comm half, bridge = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, g_rank % 2, g_rank, &half);
  reduction_cases(cases, intra("half", half, 2), MPI_INT, MPI_SUM, " on half");
  if (g_size > 1) {
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - g_rank % 2, 5, &bridge);
    const Group group = inter(bridge, g_rank % 2 == 1);
    exchange_cases(cases, group, types[2], " on an intercommunicator");
    rooted_cases(cases, group, types[1], " on an intercommunicator");
    reduction_cases(cases, group, MPI_INT, MPI_SUM, " on an intercommunicator");
  }

  MPI_Comm grid, ring;
  // Not periodic: Open MPI 4.1's nonblocking ones mix up the two directions where both lead to the same rank.
  int sizes[2] = {g_size, 1}, wraps[2] = {0, 0};
  MPI_Cart_create(MPI_COMM_WORLD, 2, sizes, wraps, 0, &grid);
  neighbor_cases(cases, grid, 4, 4, types[1], " on a grid with borders");
  const int left = (g_rank + g_size - 1) % g_size, right = (g_rank + 1) % g_size;
  const int sources[2] = {left, g_rank}, targets[2] = {right, g_rank};
  MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 2, sources, MPI_UNWEIGHTED, 2, targets, MPI_UNWEIGHTED, MPI_INFO_NULL,
                                 0, &ring);
  neighbor_cases(cases, ring, 2, 2, types[2], " on a ring");

  run_all(cases);
  far_data();

  cases.clear();
  MPI_Comm_free(&grid);
  MPI_Comm_free(&ring);
  if (bridge != MPI_COMM_NULL) MPI_Comm_free(&bridge);
  MPI_Comm_free(&half);
  MPI_Op_free(&compose);
  return mpi.finish("staged");
}
