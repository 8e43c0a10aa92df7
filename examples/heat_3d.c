/* Heat in a block, on any number of GPUs: as heat_2d.c, whose comments are not repeated here, but in three dimensions.
 * The halo is made of faces. A type of MPI_Type_create_subarray says which points of a field a face has.
 *
 *   mpirun --mca coll gpucoll -np 4 heat_3d [--size PLANES ROWS COLUMNS] [--steps N] [--exchange messages|neighbors] */
#include "heat_mpi.h"

static heat_halo make_halo(MPI_Comm grid, const heat_block *block) {
  heat_halo h = heat_make_halo(grid, DIMENSIONS); /* each type counts from the field's beginning */
  for (int d = 0; d < DIMENSIONS; ++d) {
    const int low = 2 * d, high = low + 1, n = block->count[d];
    int first[DIMENSIONS] = {1, 1, 1}, count[DIMENSIONS] = {block->count[0], block->count[1], block->count[2]};
    count[d] = 1;
    first[d] = 0;
    h.received[low] = heat_make_part(block, first, count);
    first[d] = 1;
    h.sent[low] = heat_make_part(block, first, count);
    first[d] = n;
    h.sent[high] = heat_make_part(block, first, count);
    first[d] = n + 1;
    h.received[high] = heat_make_part(block, first, count);
  }
  return h;
}

static void free_halo(heat_halo *h) {
  for (int side = 0; side < h->sides; ++side) {
    MPI_Type_free(&h->sent[side]);
    MPI_Type_free(&h->received[side]);
  }
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  choose_device();
  heat_options options = {.size = {100, 110, 120}, .steps = 100};
  heat_read_options(argc, argv, &options);

  int n_ranks, rank, blocks[DIMENSIONS] = {0}, at[DIMENSIONS];
  const int periodic[DIMENSIONS] = {0};
  MPI_Comm grid;
  MPI_Comm_size(MPI_COMM_WORLD, &n_ranks);
  MPI_Dims_create(n_ranks, DIMENSIONS, blocks);
  MPI_Cart_create(MPI_COMM_WORLD, DIMENSIONS, blocks, periodic, 1, &grid);
  MPI_Comm_rank(grid, &rank);
  MPI_Cart_coords(grid, rank, DIMENSIONS, at);
  const heat_block block = heat_make_block(options.size, blocks, at);

  heat_halo h = make_halo(grid, &block);
  const int differs = heat_main(&h, &block, &options, blocks);
  free_halo(&h);
  MPI_Comm_free(&grid);
  MPI_Finalize();
  return differs;
}
