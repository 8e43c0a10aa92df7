/* Conjugate gradients in MPI, in three forms that differ only in how they communicate:
 *   blocking  MPI_Sendrecv and MPI_Allreduce, which know no streams: the program waits for its kernels before each;
 *   stream    gpucollMPISendrecv and gpucollMPIAllreduce, in the stream of the kernels: the program waits once, at the
 * end; graph     the same calls, captured once and launched as one graph (on GPUs).
 *
 *   cg [--size ROWS COLUMNS] [--steps N]
 *
 * Each step has two sums of one number over all ranks; both stay on the devices. Each form solves the same equations,
 * and the program compares the residual that the devices carry along with the one that the host computes from the
 * solution. */
#include "cg.h"

#include <gpucoll/mpi.h>
#include <math.h>
#include <string.h>

#include "example_mpi.h"

enum { BLOCKING, STREAM, GRAPH, N_FORMS };
static const char *const form_names[N_FORMS] = {"blocking", "stream", "graph"};

typedef struct options {
  int rows, columns, steps;
} options;

/* The neighbours, MPI_PROC_NULL at the edge. */
typedef struct ranks {
  int rank, size, above, below;
} ranks;

static int read_number(const char *word) {
  const long number = word == NULL ? 0 : strtol(word, NULL, 10);
  if (number < 1 || number > 1000000) {
    fprintf(stderr, "usage: cg [--size ROWS COLUMNS] [--steps N]\n");
    exit(2);
  }
  return (int)number;
}

static options read_options(int argc, char **argv) {
  options o = {256, 256, 100};
  for (int i = 1; i < argc; ++i) {
    if (strcmp(argv[i], "--size") == 0) {
      o.rows = read_number(argv[++i]);
      o.columns = read_number(i < argc ? argv[++i] : NULL);
    } else {
      o.steps = read_number(strcmp(argv[i], "--steps") == 0 ? argv[++i] : NULL);
    }
  }
  return o;
}

static double *new_vector(size_t n) {
  void *device;
  CHECK(gpucollMalloc(&device, n * sizeof(double)));
  CHECK(gpucollMemset(device, 0, n * sizeof(double)));
  return device;
}

/* The right side of the equations, without symmetry. */
static double right_side(size_t row, size_t column) { return (double)((row * 31 + column * 17) % 101) / 101 - 0.4; }

static double *new_right_side(const cg_part *part, size_t first_row) {
  const size_t columns = (size_t)part->columns;
  double *b = malloc((size_t)part->rows * columns * sizeof *b);
  if (b == NULL) exit(1);
  for (size_t i = 0; i < (size_t)part->rows * columns; ++i) b[i] = right_side(first_row + i / columns, i % columns);
  return b;
}

/* x = 0, so that r = p = b. */
static cg_part new_part(const options *o, size_t first_row, int rows, double *rr_of_all) {
  const size_t n = (size_t)rows * (size_t)o->columns;
  cg_part part = {.rows = rows, .columns = o->columns};
  part.x = new_vector(n);
  part.r = new_vector(n);
  part.q = new_vector(n);
  part.p = new_vector(n + 2 * (size_t)o->columns);
  part.rr = new_vector((size_t)o->steps + 1);
  part.pq = new_vector((size_t)o->steps);
  double *b = new_right_side(&part, first_row), sum = 0;
  for (size_t i = 0; i < n; ++i) sum += b[i] * b[i];
  MPI_Allreduce(&sum, rr_of_all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  CHECK(gpucollMemcpy(part.r, b, n * sizeof *b));
  CHECK(gpucollMemcpy(cg_row(&part, 0), b, n * sizeof *b));
  CHECK(gpucollMemcpy(part.rr, rr_of_all, sizeof *rr_of_all));
  free(b);
  return part;
}

static void free_part(cg_part *part) {
  double *vectors[] = {part->x, part->r, part->q, part->p, part->rr, part->pq};
  for (size_t i = 0; i < sizeof vectors / sizeof *vectors; ++i) CHECK(gpucollFree(vectors[i]));
}

/* ---- the two ways to communicate ---- */

static void exchange_and_wait(const cg_part *part, const ranks *at, gpucollStream_t stream) {
  const int n = part->columns;
  CHECK(gpucollStreamSynchronize(stream)); /* MPI knows no streams: what it sends must be there */
  MPI_Sendrecv(cg_row(part, 0), n, MPI_DOUBLE, at->above, 0, cg_row(part, part->rows), n, MPI_DOUBLE, at->below, 0,
               MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Sendrecv(cg_row(part, part->rows - 1), n, MPI_DOUBLE, at->below, 0, cg_row(part, -1), n, MPI_DOUBLE, at->above, 0,
               MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void sum_and_wait(double *number, gpucollStream_t stream) {
  CHECK(gpucollStreamSynchronize(stream));
  MPI_Allreduce(MPI_IN_PLACE, number, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

static void exchange_on_stream(const cg_part *part, const ranks *at, gpucollStream_t stream) {
  const int n = part->columns;
  CHECK(gpucollGroupStart()); /* both directions at once */
  CHECK(gpucollMPISendrecv(cg_row(part, 0), n, MPI_DOUBLE, at->above, cg_row(part, part->rows), n, MPI_DOUBLE,
                           at->below, MPI_COMM_WORLD, stream));
  CHECK(gpucollMPISendrecv(cg_row(part, part->rows - 1), n, MPI_DOUBLE, at->below, cg_row(part, -1), n, MPI_DOUBLE,
                           at->above, MPI_COMM_WORLD, stream));
  CHECK(gpucollGroupEnd());
}

static void sum_on_stream(double *number, gpucollStream_t stream) {
  CHECK(gpucollMPIAllreduce(MPI_IN_PLACE, number, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, stream));
}

/* ---- the solver ---- */

static void steps(int form, const cg_part *part, const ranks *at, int n_steps, gpucollStream_t stream) {
  for (int step = 0; step < n_steps; ++step) {
    (form == BLOCKING ? exchange_and_wait : exchange_on_stream)(part, at, stream);
    cg_multiply(part, step, stream);
    (form == BLOCKING ? sum_and_wait : sum_on_stream)(&part->pq[step], stream);
    cg_advance(part, step, stream);
    (form == BLOCKING ? sum_and_wait : sum_on_stream)(&part->rr[step + 1], stream);
    cg_turn(part, step, stream);
  }
}

/* Runs all steps; *host: the seconds after which the host was free for other work. Returns the seconds of a step. */
static double run(int form, const cg_part *part, const ranks *at, int n_steps, double *host) {
  gpucollStream_t stream;
  gpucollGraph_t graph = NULL;
  CHECK(gpucollStreamCreate(&stream));
  if (form == GRAPH) {
    CHECK(gpucollStreamBeginCapture(stream));
    steps(form, part, at, n_steps, stream);
    CHECK(gpucollStreamEndCapture(stream, &graph));
  }
  MPI_Barrier(MPI_COMM_WORLD);
  const double began = MPI_Wtime();
  if (graph != NULL)
    CHECK(gpucollGraphLaunch(graph, stream));
  else
    steps(form, part, at, n_steps, stream);
  *host = MPI_Wtime() - began;
  CHECK(gpucollStreamSynchronize(stream));
  double seconds = (MPI_Wtime() - began) / n_steps;
  if (graph != NULL) CHECK(gpucollGraphDestroy(graph));
  CHECK(gpucollStreamDestroy(stream));
  MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  MPI_Allreduce(MPI_IN_PLACE, host, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return seconds;
}

/* Returns |b - A x|^2 of all ranks, computed on the host. */
static double true_residual(const cg_part *part, const ranks *at, size_t first_row) {
  const size_t columns = (size_t)part->columns, n = (size_t)part->rows * columns;
  double *x = calloc(n + 2 * columns, sizeof *x), *b = new_right_side(part, first_row), sum = 0;
  if (x == NULL) exit(1);
  double *inner = x + columns;
  CHECK(gpucollMemcpy(inner, part->x, n * sizeof *x));
  MPI_Sendrecv(inner, part->columns, MPI_DOUBLE, at->above, 1, inner + n, part->columns, MPI_DOUBLE, at->below, 1,
               MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Sendrecv(inner + n - columns, part->columns, MPI_DOUBLE, at->below, 1, x, part->columns, MPI_DOUBLE, at->above, 1,
               MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  for (size_t i = 0; i < n; ++i) {
    const double *here = inner + i;
    const double left = i % columns > 0 ? here[-1] : 0, right = i % columns + 1 < columns ? here[1] : 0;
    const double r = b[i] - (4 * here[0] - left - right - *(here - columns) - here[columns]);
    sum += r * r;
  }
  free(x);
  free(b);
  MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  return sum;
}

static int runs_on_gpus(void) {
  const char *kind;
  CHECK(gpucollDeviceKind(&kind));
  return strcmp(kind, "cuda") == 0;
}

/* Returns whether the result is right. */
static int solve(int form, const options *o, const ranks *at) {
  const size_t first_row = (size_t)o->rows * (size_t)at->rank / (size_t)at->size;
  const int rows = (int)((size_t)o->rows * ((size_t)at->rank + 1) / (size_t)at->size - first_row);
  double rr_first, rr_last, host, seconds = 0;
  for (int warm = 0; warm < 2; ++warm) { /* the first time makes the connections */
    cg_part part = new_part(o, first_row, rows, &rr_first);
    seconds = run(form, &part, at, o->steps, &host);
    CHECK(gpucollMemcpy(&rr_last, &part.rr[o->steps], sizeof rr_last));
    const double rr_true = true_residual(&part, at, first_row);
    free_part(&part);
    /* The residual of the method need not fall at each step; that of a large system grows at first. */
    const double scale = sqrt(fmax(rr_first, rr_last));
    if (fabs(sqrt(rr_true) - sqrt(rr_last)) <= 1e-9 * scale && rr_last != rr_first) continue;
    if (at->rank == 0) fprintf(stderr, "%s: the residual is %g and should be %g\n", form_names[form], rr_last, rr_true);
    return 0;
  }
  if (at->rank == 0)
    printf("%-8s  %9.2f us a step, the host is free after %9.3f ms of %9.3f  |r| %.3e of %.3e\n", form_names[form],
           seconds * 1e6, host * 1e3, seconds * o->steps * 1e3, sqrt(rr_last), sqrt(rr_first));
  return 1;
}

int main(int argc, char **argv) {
  ranks at;
  int right = 1;
  gpucollComm_t comm;
  MPI_Init(&argc, &argv);
  const options o = read_options(argc, argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &at.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &at.size);
  at.above = at.rank > 0 ? at.rank - 1 : MPI_PROC_NULL;
  at.below = at.rank + 1 < at.size ? at.rank + 1 : MPI_PROC_NULL;
  if (o.rows < at.size) {
    if (at.rank == 0) fprintf(stderr, "%d rows cannot be shared among %d ranks: use --size\n", o.rows, at.size);
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  choose_device();
  CHECK(gpucollCommFromMPI(MPI_COMM_WORLD, &comm)); /* messages, which come first, are not collective */
  for (int form = BLOCKING; form < (runs_on_gpus() ? N_FORMS : GRAPH); ++form) right = solve(form, &o, &at) && right;
  if (at.rank == 0 && right)
    printf("cg: %d x %d, %d steps on %d ranks are right\n", o.rows, o.columns, o.steps, at.size);
  MPI_Finalize(); /* destroys the communicator */
  return right ? 0 : 1;
}
