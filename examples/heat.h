/* The part of heat_2d.c and heat_3d.c that has nothing to do with MPI. heat.c is for the host, heat_cuda.cu the kernel
 * for GPUs.
 *
 * The heat equation on a regular grid, by explicit steps: the new value of a point follows from its old value and those
 * of its neighbours in each dimension. A plate is a grid of one plane. Each rank has a block of the grid. Around it,
 * the rank keeps a copy of the nearest points of the neighbouring blocks: the halo. At the edge of the grid the halo
 * has the edge's values, which never change. */
#ifndef GPUCOLL_HEAT_H
#define GPUCOLL_HEAT_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif
#ifdef __CUDACC__
#define HEAT_POINT static inline __host__ __device__
#else
#define HEAT_POINT static inline
#endif

/* Dimensions in the order of C's arrays. */
enum { PLANES, ROWS, COLUMNS, DIMENSIONS };

/* The points of one rank. */
typedef struct heat_block {
  int first[DIMENSIONS]; /* in the grid */
  int count[DIMENSIONS];
  int halo[DIMENSIONS]; /* its width: 1, or 0 in the dimension that a plate lacks */
} heat_block;

/* Some points of a block, counted from the block's first one. */
typedef struct heat_box {
  int first[DIMENSIONS], count[DIMENSIONS];
} heat_box;

typedef struct heat_options {
  int size[DIMENSIONS]; /* of the grid */
  int steps;
  int by_neighbors;   /* MPI_Ineighbor_alltoallw instead of MPI_Isend and MPI_Irecv */
  const char *output; /* a file for the field, or NULL */
} heat_options;

/* Returns how many points lie between two that are neighbours in a dimension, as the block lies in memory. */
HEAT_POINT ptrdiff_t heat_stride(const heat_block *block, int dimension) {
  ptrdiff_t stride = 1;
  for (int d = DIMENSIONS - 1; d > dimension; --d) stride *= block->count[d] + 2 * block->halo[d];
  return stride;
}

/* Returns where a point lies in memory; -1 and count are the halo. */
HEAT_POINT ptrdiff_t heat_place(const heat_block *block, int plane, int row, int column) {
  return (plane + block->halo[PLANES]) * heat_stride(block, PLANES) +
         (row + block->halo[ROWS]) * heat_stride(block, ROWS) + (column + block->halo[COLUMNS]);
}

/* Returns the new value of a point. A plate's planes add nothing: above and below are then the point itself. */
HEAT_POINT double heat_new_value(double here, double left, double right, double before, double after, double above,
                                 double below) {
  return here +
         0.1 * ((left - here + (right - here)) + (before - here + (after - here)) + (above - here + (below - here)));
}

/* Reads the words of the command line, and ends the program where they are wrong. */
void heat_read_options(int argc, char **argv, heat_options *options);
/* Returns the block at `coordinates` of a grid that is cut into `blocks` in each dimension. */
heat_block heat_make_block(const int size[DIMENSIONS], const int blocks[DIMENSIONS], const int coordinates[DIMENSIONS]);
/* Returns device memory for a block and its halo, filled with the values at the beginning. */
double *heat_new_field(const heat_block *block, const int size[DIMENSIONS]);
/* Splits a block: the points at its rim, which are sent to other ranks and need points of theirs, in up to six boxes,
 * and those inside. Returns the number of boxes. */
int heat_split(const heat_block *block, heat_box *inside, heat_box rim[2 * DIMENSIONS]);
/* Computes the new values of a box's points. On a GPU it returns at once, and the stream does the work. */
void heat_compute(const heat_block *block, heat_box box, double *to, const double *from, void *stream);
/* Prints what was computed, on how many ranks, and in what time. */
void heat_report(const heat_options *options, const int blocks[DIMENSIONS], double seconds_a_step);
/* Compares a field in host memory, without a halo, with one that this process computes alone. Prints the greatest
 * difference, and returns whether it is more than what comes of rounding. */
int heat_differs(const heat_options *options, const double *field);
/* Writes a plate to a file of NumPy's format. */
void heat_write(const heat_options *options, const double *field);

/* heat_cuda.cu */
void heat_compute_cuda(const heat_block *block, heat_box box, double *to, const double *from, void *stream);

#ifdef __cplusplus
}
#endif
#endif
