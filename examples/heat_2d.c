/* Heat in a plate, on any number of GPUs: a stencil code whose halos go by MPI straight from GPU to GPU.
 *
 *   mpirun --mca coll gpucoll -np 4 heat_2d [--size ROWS COLUMNS] [--steps N] [--exchange messages|neighbors]
 *                                           [--output FILE.npy]
 *
 * Each rank passes pointers to device memory to MPI, with types that say where the points lie. No program code copies
 * anything to the host or packs anything. While the halo is under way, the GPU computes the points that do not need it.
 * Rank 0 collects the field at the end, and compares it with a run of its own. */
#include "heat_mpi.h"

/* The neighbours in the order that MPI gives those on a cartesian communicator. */
enum { BEFORE, AFTER, LEFT, RIGHT };

static heat_halo make_halo(MPI_Comm plate, const heat_block *block) {
  const int rows = block->count[ROWS], columns = block->count[COLUMNS];
  const MPI_Aint point = sizeof(double);
  heat_halo h = heat_make_halo(plate, 2);

  MPI_Datatype row, column; /* of a row, the points lie side by side; of a column, a row with its halo apart */
  MPI_Type_contiguous(columns, MPI_DOUBLE, &row);
  MPI_Type_vector(rows, 1, columns + 2, MPI_DOUBLE, &column);
  MPI_Type_commit(&row);
  MPI_Type_commit(&column);
  h.sent[BEFORE] = h.sent[AFTER] = h.received[BEFORE] = h.received[AFTER] = row;
  h.sent[LEFT] = h.sent[RIGHT] = h.received[LEFT] = h.received[RIGHT] = column;

  h.send_at[BEFORE] = point * heat_place(block, 0, 0, 0);
  h.send_at[AFTER] = point * heat_place(block, 0, rows - 1, 0);
  h.send_at[LEFT] = point * heat_place(block, 0, 0, 0);
  h.send_at[RIGHT] = point * heat_place(block, 0, 0, columns - 1);
  h.receive_at[BEFORE] = point * heat_place(block, 0, -1, 0);
  h.receive_at[AFTER] = point * heat_place(block, 0, rows, 0);
  h.receive_at[LEFT] = point * heat_place(block, 0, 0, -1);
  h.receive_at[RIGHT] = point * heat_place(block, 0, 0, columns);
  return h;
}

static void free_halo(heat_halo *h) {
  MPI_Type_free(&h->sent[BEFORE]); /* all rows have it, all columns the other one */
  MPI_Type_free(&h->sent[LEFT]);
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  choose_device();
  heat_options options = {.size = {1, 300, 400}, .steps = 500};
  heat_read_options(argc, argv, &options);

  /* Each rank gets a block of the plate. */
  int n_ranks, rank, blocks[DIMENSIONS] = {1, 0, 0}, at[DIMENSIONS] = {0};
  const int periodic[2] = {0, 0};
  MPI_Comm plate;
  MPI_Comm_size(MPI_COMM_WORLD, &n_ranks);
  MPI_Dims_create(n_ranks, 2, blocks + ROWS);
  MPI_Cart_create(MPI_COMM_WORLD, 2, blocks + ROWS, periodic, 1, &plate);
  MPI_Comm_rank(plate, &rank);
  MPI_Cart_coords(plate, rank, 2, at + ROWS);
  const heat_block block = heat_make_block(options.size, blocks, at);

  heat_halo h = make_halo(plate, &block);
  const int differs = heat_main(&h, &block, &options, blocks);
  free_halo(&h);
  MPI_Comm_free(&plate);
  MPI_Finalize();
  return differs;
}
