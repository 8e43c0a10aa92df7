/* Heat in a block, on any number of GPUs: as heat_2d.c, whose comments are not repeated here, but in three dimensions.
 * The halo is made of faces. A type of MPI_Type_create_subarray says which points of a field a face has.
 *
 *   mpirun --mca coll gpucoll -np 4 heat_3d [--size PLANES ROWS COLUMNS] [--steps N] [--exchange messages|neighbors] */
#include <mpi.h>

#include "example.h"
#include "heat.h"

/* The neighbours in the order that MPI gives those on a cartesian communicator. The other side of a side is side ^ 1.
 */
enum { SIDES = 2 * DIMENSIONS };

/* What goes to the neighbours, and comes from them. */
typedef struct halo {
  MPI_Comm grid;
  int neighbor[SIDES];          /* MPI_PROC_NULL at the edge of the grid */
  MPI_Datatype sent[SIDES];     /* the outermost points of the block */
  MPI_Datatype received[SIDES]; /* those beyond */
  int one[SIDES];               /* how many are sent: one to each */
  MPI_Aint beginning[SIDES];    /* each type counts from the field's beginning */
} halo;

static void choose_device(void) {
  MPI_Comm node;
  int rank_on_node, devices;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
  MPI_Comm_rank(node, &rank_on_node);
  MPI_Comm_free(&node);
  CHECK(gpucollDeviceCount(&devices));
  CHECK(gpucollSetDevice(rank_on_node % devices));
}

/* Returns a type for part of a field with its halo: `count` points from `first` on, in each dimension. */
static MPI_Datatype make_part(const heat_block *block, const int first[], const int count[]) {
  int with_halo[DIMENSIONS];
  MPI_Datatype part;
  for (int d = 0; d < DIMENSIONS; ++d) with_halo[d] = block->count[d] + 2;
  MPI_Type_create_subarray(DIMENSIONS, with_halo, count, first, MPI_ORDER_C, MPI_DOUBLE, &part);
  MPI_Type_commit(&part);
  return part;
}

static halo make_halo(MPI_Comm grid, const heat_block *block) {
  halo h = {.grid = grid};
  for (int d = 0; d < DIMENSIONS; ++d) {
    const int low = 2 * d, high = low + 1, n = block->count[d];
    int first[DIMENSIONS] = {1, 1, 1}, count[DIMENSIONS] = {block->count[0], block->count[1], block->count[2]};
    MPI_Cart_shift(grid, d, 1, &h.neighbor[low], &h.neighbor[high]);
    count[d] = 1;
    first[d] = 0;
    h.received[low] = make_part(block, first, count);
    first[d] = 1;
    h.sent[low] = make_part(block, first, count);
    first[d] = n;
    h.sent[high] = make_part(block, first, count);
    first[d] = n + 1;
    h.received[high] = make_part(block, first, count);
    h.one[low] = h.one[high] = 1;
  }
  return h;
}

static void free_halo(halo *h) {
  for (int side = 0; side < SIDES; ++side) {
    MPI_Type_free(&h->sent[side]);
    MPI_Type_free(&h->received[side]);
  }
}

static int start_messages(const halo *h, double *field, MPI_Request *requests) {
  int n = 0;
  for (int side = 0; side < SIDES; ++side)
    MPI_Irecv(field, 1, h->received[side], h->neighbor[side], side ^ 1, h->grid, &requests[n++]);
  for (int side = 0; side < SIDES; ++side)
    MPI_Isend(field, 1, h->sent[side], h->neighbor[side], side, h->grid, &requests[n++]);
  return n;
}

static int start_neighbors(const halo *h, double *field, MPI_Request *requests) {
  MPI_Ineighbor_alltoallw(field, h->one, h->beginning, h->sent, field, h->one, h->beginning, h->received, h->grid,
                          requests);
  return 1;
}

static double run(const halo *h, const heat_block *block, const heat_options *options, double **now) {
  heat_box inside, rim[2 * DIMENSIONS];
  const int n_rim = heat_split(block, &inside, rim);
  double *next = heat_new_field(block, options->size);
  gpucollStream_t stream;
  CHECK(gpucollStreamCreate(&stream));
  MPI_Barrier(h->grid);
  const double began = MPI_Wtime();
  for (int step = 0; step < options->steps; ++step) {
    MPI_Request requests[2 * SIDES];
    const int n = (options->by_neighbors ? start_neighbors : start_messages)(h, *now, requests);
    heat_compute(block, inside, next, *now, stream);
    MPI_Waitall(n, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < n_rim; ++i) heat_compute(block, rim[i], next, *now, stream);
    CHECK(gpucollStreamSynchronize(stream));
    double *const old = *now;
    *now = next;
    next = old;
  }
  MPI_Barrier(h->grid);
  const double seconds = (MPI_Wtime() - began) / options->steps;
  CHECK(gpucollStreamDestroy(stream));
  CHECK(gpucollFree(next));
  return seconds;
}

static void start_collecting(MPI_Comm grid, const int size[], const int blocks[], int n_ranks, double *all,
                             MPI_Request *requests) {
  for (int from = 0; from < n_ranks; ++from) {
    int at[DIMENSIONS];
    MPI_Cart_coords(grid, from, DIMENSIONS, at);
    const heat_block theirs = heat_make_block(size, blocks, at);
    MPI_Datatype part;
    MPI_Type_create_subarray(DIMENSIONS, size, theirs.count, theirs.first, MPI_ORDER_C, MPI_DOUBLE, &part);
    MPI_Type_commit(&part);
    MPI_Irecv(all, 1, part, from, 0, grid, &requests[from]);
    MPI_Type_free(&part);
  }
}

static double *collect(MPI_Comm grid, const heat_block *mine, const int size[], const int blocks[], double *field) {
  int rank, n_ranks;
  MPI_Comm_rank(grid, &rank);
  MPI_Comm_size(grid, &n_ranks);
  MPI_Request requests[n_ranks];
  const size_t points = (size_t)size[PLANES] * (size_t)size[ROWS] * (size_t)size[COLUMNS];
  double *const all = rank == 0 ? malloc(points * sizeof *all) : NULL;
  if (rank == 0) start_collecting(grid, size, blocks, n_ranks, all, requests);
  const int inside[DIMENSIONS] = {1, 1, 1};
  MPI_Datatype part = make_part(mine, inside, mine->count);
  MPI_Send(field, 1, part, 0, 0, grid);
  MPI_Type_free(&part);
  if (rank == 0) MPI_Waitall(n_ranks, requests, MPI_STATUSES_IGNORE);
  return all;
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

  halo h = make_halo(grid, &block);
  double *field = heat_new_field(&block, options.size);
  const double seconds = run(&h, &block, &options, &field);
  double *const all = collect(grid, &block, options.size, blocks, field);
  int differs = 0;
  if (rank == 0) {
    heat_report(&options, blocks, seconds);
    differs = heat_differs(&options, all);
    free(all);
  }
  MPI_Bcast(&differs, 1, MPI_INT, 0, grid);

  CHECK(gpucollFree(field));
  free_halo(&h);
  MPI_Comm_free(&grid);
  MPI_Finalize();
  return differs;
}
