/* Heat in a plate, on any number of GPUs: a stencil code whose halos go by MPI straight from GPU to GPU.
 *
 *   mpirun --mca coll gpucoll -np 4 heat_2d [--size ROWS COLUMNS] [--steps N] [--exchange messages|neighbors]
 *                                           [--output FILE.npy]
 *
 * Each rank passes pointers to device memory to MPI, with types that say where the points lie. No program code copies
 * anything to the host or packs anything. While the halo is under way, the GPU computes the points that do not need it.
 * Rank 0 collects the field at the end, and compares it with a run of its own. */
#include <mpi.h>

#include "example.h"
#include "heat.h"

/* The neighbours in the order that MPI gives those on a cartesian communicator. The other side of a side is side ^ 1.
 */
enum { BEFORE, AFTER, LEFT, RIGHT, SIDES };

/* What goes to the neighbours, and comes from them. */
typedef struct halo {
  MPI_Comm plate;
  int neighbor[SIDES];                        /* MPI_PROC_NULL at the edge of the plate */
  MPI_Datatype type[SIDES];                   /* a row or a column of the block */
  MPI_Aint send_at[SIDES], receive_at[SIDES]; /* where it begins, in bytes from the field's beginning */
  int one[SIDES];                             /* how many are sent: one to each */
} halo;

/* Chooses the device before anything is allocated: the ranks of a node should have different ones. */
static void choose_device(void) {
  MPI_Comm node;
  int rank_on_node, devices;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
  MPI_Comm_rank(node, &rank_on_node);
  MPI_Comm_free(&node);
  CHECK(gpucollDeviceCount(&devices));
  CHECK(gpucollSetDevice(rank_on_node % devices)); /* cudaSetDevice */
}

static halo make_halo(MPI_Comm plate, const heat_block *block) {
  const int rows = block->count[ROWS], columns = block->count[COLUMNS];
  const MPI_Aint point = sizeof(double);
  halo h = {.plate = plate, .one = {1, 1, 1, 1}};
  MPI_Cart_shift(plate, 0, 1, &h.neighbor[BEFORE], &h.neighbor[AFTER]);
  MPI_Cart_shift(plate, 1, 1, &h.neighbor[LEFT], &h.neighbor[RIGHT]);

  MPI_Datatype row, column; /* of a row, the points lie side by side; of a column, a row with its halo apart */
  MPI_Type_contiguous(columns, MPI_DOUBLE, &row);
  MPI_Type_vector(rows, 1, columns + 2, MPI_DOUBLE, &column);
  MPI_Type_commit(&row);
  MPI_Type_commit(&column);
  h.type[BEFORE] = h.type[AFTER] = row;
  h.type[LEFT] = h.type[RIGHT] = column;

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

static void free_halo(halo *h) {
  MPI_Type_free(&h->type[BEFORE]); /* and AFTER */
  MPI_Type_free(&h->type[LEFT]);
}

/* Starts the exchange of the halo by a message to and from each neighbour. Returns the number of requests. */
static int start_messages(const halo *h, double *field, MPI_Request *requests) {
  char *const bytes = (char *)field;
  int n = 0;
  for (int side = 0; side < SIDES; ++side)
    MPI_Irecv(bytes + h->receive_at[side], 1, h->type[side], h->neighbor[side], side ^ 1, h->plate, &requests[n++]);
  for (int side = 0; side < SIDES; ++side)
    MPI_Isend(bytes + h->send_at[side], 1, h->type[side], h->neighbor[side], side, h->plate, &requests[n++]);
  return n;
}

/* Starts the same exchange as one collective call: the communicator knows the neighbours. */
static int start_neighbors(const halo *h, double *field, MPI_Request *requests) {
  MPI_Ineighbor_alltoallw(field, h->one, h->send_at, h->type, field, h->one, h->receive_at, h->type, h->plate,
                          requests);
  return 1;
}

/* Runs all steps from the field *now on, which becomes the last one. Returns the seconds of a step. */
static double run(const halo *h, const heat_block *block, const heat_options *options, double **now) {
  heat_box inside, rim[2 * DIMENSIONS];
  const int n_rim = heat_split(block, &inside, rim);
  double *next = heat_new_field(block, options->size); /* its halo has the values at the edge */
  gpucollStream_t stream;
  CHECK(gpucollStreamCreate(&stream));
  MPI_Barrier(h->plate);
  const double began = MPI_Wtime();
  for (int step = 0; step < options->steps; ++step) {
    MPI_Request requests[2 * SIDES];
    const int n = (options->by_neighbors ? start_neighbors : start_messages)(h, *now, requests);
    heat_compute(block, inside, next, *now, stream); /* needs no halo: it runs while the halo is under way */
    MPI_Waitall(n, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < n_rim; ++i) heat_compute(block, rim[i], next, *now, stream);
    CHECK(gpucollStreamSynchronize(stream)); /* MPI knows no streams: what it sends must be there */
    double *const old = *now;
    *now = next;
    next = old;
  }
  MPI_Barrier(h->plate);
  const double seconds = (MPI_Wtime() - began) / options->steps;
  CHECK(gpucollStreamDestroy(stream));
  CHECK(gpucollFree(next));
  return seconds;
}

/* Starts to receive each rank's points into a plate in host memory. */
static void start_collecting(MPI_Comm plate, const int size[], const int blocks[], int n_ranks, double *all,
                             MPI_Request *requests) {
  for (int from = 0; from < n_ranks; ++from) {
    int at[DIMENSIONS] = {0};
    MPI_Cart_coords(plate, from, 2, at + ROWS);
    const heat_block theirs = heat_make_block(size, blocks, at);
    MPI_Datatype part;
    MPI_Type_create_subarray(2, size + ROWS, theirs.count + ROWS, theirs.first + ROWS, MPI_ORDER_C, MPI_DOUBLE, &part);
    MPI_Type_commit(&part);
    MPI_Irecv(all, 1, part, from, 0, plate, &requests[from]);
    MPI_Type_free(&part); /* the request keeps it */
  }
}

/* Returns all points in host memory of rank 0, without halos; NULL on other ranks. The type of each side of a message
 * says where its points lie: on the device within a halo, on the host within the plate. */
static double *collect(MPI_Comm plate, const heat_block *mine, const int size[], const int blocks[], double *field) {
  int rank, n_ranks;
  MPI_Comm_rank(plate, &rank);
  MPI_Comm_size(plate, &n_ranks);
  MPI_Request requests[n_ranks];
  double *const all = rank == 0 ? malloc((size_t)size[ROWS] * (size_t)size[COLUMNS] * sizeof *all) : NULL;
  if (rank == 0) start_collecting(plate, size, blocks, n_ranks, all, requests);
  const int with_halo[2] = {mine->count[ROWS] + 2, mine->count[COLUMNS] + 2}, inside[2] = {1, 1};
  MPI_Datatype part;
  MPI_Type_create_subarray(2, with_halo, mine->count + ROWS, inside, MPI_ORDER_C, MPI_DOUBLE, &part);
  MPI_Type_commit(&part);
  MPI_Send(field, 1, part, 0, 0, plate);
  MPI_Type_free(&part);
  if (rank == 0) MPI_Waitall(n_ranks, requests, MPI_STATUSES_IGNORE);
  return all;
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

  halo h = make_halo(plate, &block);
  double *field = heat_new_field(&block, options.size);
  const double seconds = run(&h, &block, &options, &field);
  double *const all = collect(plate, &block, options.size, blocks, field);
  int differs = 0;
  if (rank == 0) {
    heat_report(&options, blocks, seconds);
    differs = heat_differs(&options, all);
    if (options.output != NULL) heat_write(&options, all);
    free(all);
  }
  MPI_Bcast(&differs, 1, MPI_INT, 0, plate);

  CHECK(gpucollFree(field));
  free_halo(&h);
  MPI_Comm_free(&plate);
  MPI_Finalize();
  return differs;
}
