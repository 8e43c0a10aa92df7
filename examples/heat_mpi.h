/* The MPI that heat_2d.c and heat_3d.c share: the exchange of the halo, the steps, and the whole field on rank 0.
 * heat_2d.c and heat_3d.c themselves cut the grid into blocks, and make the types of the halo. */
#ifndef GPUCOLL_HEAT_MPI_H
#define GPUCOLL_HEAT_MPI_H

#include <mpi.h>

#include "example_mpi.h"
#include "heat.h"

enum { MOST_SIDES = 2 * DIMENSIONS };

/* The points that go to the neighbours, and those that come from them. The neighbours are in the order that MPI gives
 * those on a cartesian communicator: before and after in each of its dimensions, which are the last of the grid's. The
 * other side of a side is side ^ 1. */
typedef struct heat_halo {
  MPI_Comm grid;
  int dimensions, sides;
  int neighbor[MOST_SIDES];                             /* MPI_PROC_NULL at the edge of the grid */
  MPI_Datatype sent[MOST_SIDES], received[MOST_SIDES];  /* the outermost points of the block, and those beyond */
  MPI_Aint send_at[MOST_SIDES], receive_at[MOST_SIDES]; /* where they begin, in bytes from the field's beginning */
  int one[MOST_SIDES];                                  /* how many are sent: one to each */
} heat_halo;

/* Returns a halo without types. */
static heat_halo heat_make_halo(MPI_Comm grid, int dimensions) {
  heat_halo h = {.grid = grid, .dimensions = dimensions, .sides = 2 * dimensions};
  for (int d = 0; d < dimensions; ++d) MPI_Cart_shift(grid, d, 1, &h.neighbor[2 * d], &h.neighbor[2 * d + 1]);
  for (int side = 0; side < h.sides; ++side) h.one[side] = 1;
  return h;
}

/* Starts the exchange of the halo by a message to and from each neighbour. Returns the number of requests. */
static int start_messages(const heat_halo *h, double *field, MPI_Request *requests) {
  char *const bytes = (char *)field;
  int n = 0;
  for (int side = 0; side < h->sides; ++side)
    MPI_Irecv(bytes + h->receive_at[side], 1, h->received[side], h->neighbor[side], side ^ 1, h->grid, &requests[n++]);
  for (int side = 0; side < h->sides; ++side)
    MPI_Isend(bytes + h->send_at[side], 1, h->sent[side], h->neighbor[side], side, h->grid, &requests[n++]);
  return n;
}

/* Starts the same exchange as one collective call: the communicator knows the neighbours. */
static int start_neighbors(const heat_halo *h, double *field, MPI_Request *requests) {
  MPI_Ineighbor_alltoallw(field, h->one, h->send_at, h->sent, field, h->one, h->receive_at, h->received, h->grid,
                          requests);
  return 1;
}

/* Runs all steps from the field *now on, which becomes the last one. Returns the seconds of a step. */
static double heat_run(const heat_halo *h, const heat_block *block, const heat_options *options, double **now) {
  heat_box inside, rim[2 * DIMENSIONS];
  const int n_rim = heat_split(block, &inside, rim);
  double *next = heat_new_field(block, options->size); /* its halo has the values at the edge */
  gpucollStream_t stream;
  CHECK(gpucollStreamCreate(&stream));
  MPI_Barrier(h->grid);
  const double began = MPI_Wtime();
  for (int step = 0; step < options->steps; ++step) {
    MPI_Request requests[2 * MOST_SIDES];
    const int n = (options->by_neighbors ? start_neighbors : start_messages)(h, *now, requests);
    heat_compute(block, inside, next, *now, stream); /* needs no halo: it runs while the halo is under way */
    MPI_Waitall(n, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < n_rim; ++i) heat_compute(block, rim[i], next, *now, stream);
    CHECK(gpucollStreamSynchronize(stream)); /* MPI knows no streams: what it sends must be there */
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

/* Starts to receive each rank's points into a grid in host memory. */
static void start_collecting(const heat_halo *h, const int size[], const int blocks[], int n_ranks, double *all,
                             MPI_Request *requests) {
  const int lacks = DIMENSIONS - h->dimensions;
  for (int from = 0; from < n_ranks; ++from) {
    int at[DIMENSIONS] = {0};
    MPI_Cart_coords(h->grid, from, h->dimensions, at + lacks);
    const heat_block theirs = heat_make_block(size, blocks, at);
    MPI_Datatype part;
    MPI_Type_create_subarray(DIMENSIONS, size, theirs.count, theirs.first, MPI_ORDER_C, MPI_DOUBLE, &part);
    MPI_Type_commit(&part);
    MPI_Irecv(all, 1, part, from, 0, h->grid, &requests[from]);
    MPI_Type_free(&part); /* the request keeps it */
  }
}

/* Returns a type for part of a field with its halo: `count` points from `first` on, in each dimension. */
static MPI_Datatype heat_make_part(const heat_block *block, const int first[], const int count[]) {
  int with_halo[DIMENSIONS];
  MPI_Datatype part;
  for (int d = 0; d < DIMENSIONS; ++d) with_halo[d] = block->count[d] + 2 * block->halo[d];
  MPI_Type_create_subarray(DIMENSIONS, with_halo, count, first, MPI_ORDER_C, MPI_DOUBLE, &part);
  MPI_Type_commit(&part);
  return part;
}

/* Returns all points in host memory of rank 0, without halos; NULL on other ranks. The type of each side of a message
 * says where its points lie: on the device within a halo, on the host within the grid. */
static double *heat_collect(const heat_halo *h, const heat_block *mine, const int size[], const int blocks[],
                            double *field) {
  int rank, n_ranks;
  MPI_Comm_rank(h->grid, &rank);
  MPI_Comm_size(h->grid, &n_ranks);
  MPI_Request requests[n_ranks];
  const size_t points = (size_t)size[PLANES] * (size_t)size[ROWS] * (size_t)size[COLUMNS];
  double *const all = rank == 0 ? malloc(points * sizeof *all) : NULL;
  if (rank == 0) start_collecting(h, size, blocks, n_ranks, all, requests);
  MPI_Datatype part = heat_make_part(mine, mine->halo, mine->count); /* its first point lies behind the halo */
  MPI_Send(field, 1, part, 0, 0, h->grid);
  MPI_Type_free(&part);
  if (rank == 0) MPI_Waitall(n_ranks, requests, MPI_STATUSES_IGNORE);
  return all;
}

/* Runs all steps, and compares and writes the result. Returns the program's exit status. */
static int heat_main(const heat_halo *h, const heat_block *block, const heat_options *options, const int blocks[]) {
  int rank, differs = 0;
  MPI_Comm_rank(h->grid, &rank);
  double *field = heat_new_field(block, options->size);
  const double seconds = heat_run(h, block, options, &field);
  double *const all = heat_collect(h, block, options->size, blocks, field);
  if (rank == 0) {
    heat_report(options, blocks, seconds);
    differs = heat_differs(options, all);
    if (options->output != NULL) heat_write(options, all);
    free(all);
  }
  MPI_Bcast(&differs, 1, MPI_INT, 0, h->grid);
  CHECK(gpucollFree(field));
  return differs;
}

#endif
