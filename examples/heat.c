/* The host's part of the heat examples: options, blocks, the field at the beginning, the emulated device, and the check
 * against a run of one process. */
#include "heat.h"

#include <math.h>
#include <string.h>

#include "example.h"

/* ---- options ---- */

static void usage(const char *program, int is_plate) {
  fprintf(stderr,
          "usage: %s [--size %sROWS COLUMNS] [--steps N] [--exchange messages|neighbors]%s\n"
          "  --exchange  how the halo comes: by MPI_Isend and MPI_Irecv, or by MPI_Ineighbor_alltoallw\n",
          program, is_plate ? "" : "PLANES ", is_plate ? " [--output FILE.npy]" : "");
  exit(2);
}

/* Returns a number > 0; 0: the word is none. */
static int read_number(const char *word) {
  char *end;
  const long number = word == NULL ? 0 : strtol(word, &end, 10);
  return number > 0 && number <= 1000000000 && *end == '\0' ? (int)number : 0;
}

void heat_read_options(int argc, char **argv, heat_options *options) {
  const int is_plate = options->size[PLANES] == 1;
  int wrong = 0;
  for (int i = 1; i < argc && !wrong; ++i) {
    const char *value = argv[i + 1]; /* argv ends with NULL */
    if (strcmp(argv[i], "--size") == 0) {
      for (int d = is_plate ? ROWS : PLANES; d < DIMENSIONS && !wrong; ++d)
        wrong = (options->size[d] = read_number(argv[++i])) == 0;
    } else if (strcmp(argv[i], "--steps") == 0) {
      wrong = (options->steps = read_number(argv[++i])) == 0;
    } else if (strcmp(argv[i], "--exchange") == 0 && value != NULL) {
      options->by_neighbors = strcmp(argv[++i], "neighbors") == 0;
      wrong = !options->by_neighbors && strcmp(value, "messages") != 0;
    } else if (strcmp(argv[i], "--output") == 0 && value != NULL && is_plate) {
      options->output = argv[++i];
    } else {
      wrong = 1;
    }
  }
  if (wrong) usage(argv[0], is_plate);
  if (!is_plate && options->size[PLANES] == 1) { /* which would have no halo in this dimension */
    fprintf(stderr, "one plane is a plate: use heat_2d, or --size with two planes or more\n");
    exit(2);
  }
}

/* ---- blocks ---- */

heat_block heat_make_block(const int size[DIMENSIONS], const int blocks[DIMENSIONS],
                           const int coordinates[DIMENSIONS]) {
  heat_block block;
  for (int d = 0; d < DIMENSIONS; ++d) {
    if (size[d] < blocks[d]) {
      fprintf(stderr, "%d points cannot be shared among %d ranks: use fewer ranks, or --size\n", size[d], blocks[d]);
      exit(2);
    }
    block.first[d] = (int)((long long)size[d] * coordinates[d] / blocks[d]);
    block.count[d] = (int)((long long)size[d] * (coordinates[d] + 1) / blocks[d]) - block.first[d];
    block.halo[d] = d != PLANES || size[PLANES] > 1;
  }
  return block;
}

/* Takes the first and the last points of each dimension from what is left. */
int heat_split(const heat_block *block, heat_box *inside, heat_box rim[2 * DIMENSIONS]) {
  int n = 0;
  for (int d = 0; d < DIMENSIONS; ++d) {
    inside->first[d] = 0;
    inside->count[d] = block->count[d];
  }
  for (int d = 0; d < DIMENSIONS; ++d) {
    for (int end = 0; end < 2 && inside->count[d] > 0 && block->halo[d]; ++end) {
      heat_box slice = *inside;
      slice.first[d] += end == 0 ? 0 : inside->count[d] - 1;
      slice.count[d] = 1;
      inside->first[d] += end == 0;
      inside->count[d] -= 1;
      rim[n++] = slice;
    }
  }
  return n;
}

static size_t points_with_halo(const heat_block *block) {
  return (size_t)heat_stride(block, PLANES) * (size_t)(block->count[PLANES] + 2 * block->halo[PLANES]);
}

/* ---- the field ---- */

/* Returns the value at the beginning: a hot ball in the middle, and one hot edge. */
static double first_value(const int size[DIMENSIONS], const int at[DIMENSIONS]) {
  double distance = 0;
  for (int d = 0; d < DIMENSIONS; ++d) {
    if (at[d] < 0 || at[d] >= size[d]) return at[ROWS] < 0 ? 1 : 0;
    const double from_middle = (at[d] + 0.5) / size[d] - 0.5;
    distance += from_middle * from_middle;
  }
  return distance < 0.04 ? 1 : 0;
}

static double *new_host_memory(size_t points) {
  double *memory = malloc(points * sizeof *memory);
  if (memory != NULL) return memory;
  fprintf(stderr, "there is no host memory for %zu points\n", points);
  exit(1);
}

/* Returns host memory. */
static double *new_host_field(const heat_block *block, const int size[DIMENSIONS]) {
  double *field = new_host_memory(points_with_halo(block));
  const int *halo = block->halo, *count = block->count, *first = block->first;
  for (int p = -halo[PLANES]; p < count[PLANES] + halo[PLANES]; ++p) {
    for (int r = -halo[ROWS]; r < count[ROWS] + halo[ROWS]; ++r) {
      for (int c = -halo[COLUMNS]; c < count[COLUMNS] + halo[COLUMNS]; ++c) {
        const int at[DIMENSIONS] = {first[PLANES] + p, first[ROWS] + r, first[COLUMNS] + c};
        field[heat_place(block, p, r, c)] = first_value(size, at);
      }
    }
  }
  return field;
}

double *heat_new_field(const heat_block *block, const int size[DIMENSIONS]) {
  const size_t bytes = points_with_halo(block) * sizeof(double);
  double *host = new_host_field(block, size);
  void *device;
  CHECK(gpucollMalloc(&device, bytes)); /* a program for GPUs alone would call cudaMalloc */
  CHECK(gpucollMemcpy(device, host, bytes));
  free(host);
  return device;
}

/* ---- computing ---- */

/* Computes the points of one row. `here` and the others are old values, of the row and of its neighbours. */
static void compute_row(double *to, int n, const double *here, const double *before, const double *after,
                        const double *above, const double *below) {
  for (int i = 0; i < n; ++i)
    to[i] = heat_new_value(here[i], here[i - 1], here[i + 1], before[i], after[i], above[i], below[i]);
}

/* Stands for a kernel on the emulated device, whose memory the host cannot touch: copies rows to the host and back. */
static void compute_emulated(const heat_block *block, heat_box box, double *to, const double *from) {
  const int n = box.count[COLUMNS];
  const size_t bytes = (size_t)n * sizeof(double);
  const ptrdiff_t row = heat_stride(block, ROWS), plane = block->halo[PLANES] ? heat_stride(block, PLANES) : 0;
  double *rows = new_host_memory(6 * (size_t)n + 2);
  double *made = rows, *here = made + n + 1, *beside[4];
  for (int i = 0; i < 4; ++i) beside[i] = here + n + 1 + i * n;
  for (int p = box.first[PLANES]; p < box.first[PLANES] + box.count[PLANES]; ++p) {
    for (int r = box.first[ROWS]; r < box.first[ROWS] + box.count[ROWS]; ++r) {
      const ptrdiff_t at = heat_place(block, p, r, box.first[COLUMNS]);
      const ptrdiff_t neighbors[4] = {at - row, at + row, at - plane, at + plane};
      CHECK(gpucollMemcpy(here - 1, from + at - 1, bytes + 2 * sizeof(double)));
      for (int i = 0; i < 4; ++i) CHECK(gpucollMemcpy(beside[i], from + neighbors[i], bytes));
      compute_row(made, n, here, beside[0], beside[1], beside[2], beside[3]);
      CHECK(gpucollMemcpy(to + at, made, bytes));
    }
  }
  free(rows);
}

static int runs_on_gpus(void) {
  const char *kind;
  CHECK(gpucollDeviceKind(&kind));
  return strcmp(kind, "cuda") == 0;
}

void heat_compute(const heat_block *block, heat_box box, double *to, const double *from, void *stream) {
  for (int d = 0; d < DIMENSIONS; ++d)
    if (box.count[d] == 0) return;
  if (!runs_on_gpus()) {
    compute_emulated(block, box, to, from);
    return;
  }
#ifdef HEAT_CUDA
  heat_compute_cuda(block, box, to, from, stream);
#else
  (void)stream;
  fprintf(stderr, "this program has no kernel for GPUs: see README.md on how to compile it with heat_cuda.cu\n");
  exit(1);
#endif
}

/* ---- the result ---- */

static void print_product(const int numbers[DIMENSIONS], int is_plate) {
  for (int d = is_plate ? ROWS : PLANES; d < DIMENSIONS; ++d)
    printf("%d%s", numbers[d], d < DIMENSIONS - 1 ? " x " : "");
}

void heat_report(const heat_options *options, const int blocks[DIMENSIONS], double seconds_a_step) {
  const int is_plate = options->size[PLANES] == 1;
  print_product(options->size, is_plate);
  printf(" points on ");
  print_product(blocks, is_plate);
  printf(" ranks: %d steps by %s, %.1f us each\n", options->steps,
         options->by_neighbors ? "MPI_Ineighbor_alltoallw" : "MPI_Isend and MPI_Irecv", seconds_a_step * 1e6);
}

static void step_on_host(const heat_block *block, double *to, const double *from) {
  const ptrdiff_t row = heat_stride(block, ROWS), plane = block->halo[PLANES] ? heat_stride(block, PLANES) : 0;
  for (int p = 0; p < block->count[PLANES]; ++p) {
    for (int r = 0; r < block->count[ROWS]; ++r) {
      const double *here = from + heat_place(block, p, r, 0);
      compute_row(to + heat_place(block, p, r, 0), block->count[COLUMNS], here, here - row, here + row, here - plane,
                  here + plane);
    }
  }
}

int heat_differs(const heat_options *options, const double *field) {
  const int one[DIMENSIONS] = {1, 1, 1}, first[DIMENSIONS] = {0, 0, 0};
  const heat_block all = heat_make_block(options->size, one, first);
  double *now = new_host_field(&all, options->size), *next = new_host_field(&all, options->size);
  for (int step = 0; step < options->steps; ++step) {
    step_on_host(&all, next, now);
    double *const old = now;
    now = next;
    next = old;
  }
  double greatest = 0;
  for (int p = 0; p < all.count[PLANES]; ++p) {
    for (int r = 0; r < all.count[ROWS]; ++r) {
      for (int c = 0; c < all.count[COLUMNS]; ++c) {
        const double difference = fabs(*field++ - now[heat_place(&all, p, r, c)]);
        if (difference > greatest || isnan(difference)) greatest = difference; /* a NaN stays */
      }
    }
  }
  free(now);
  free(next);
  printf("the greatest difference from a run of one process is %g\n", greatest);
  return !(greatest <= 1e-12);
}

void heat_write(const heat_options *options, const double *field) {
  const size_t points = (size_t)options->size[ROWS] * (size_t)options->size[COLUMNS];
  char header[128];
  memset(header, ' ', sizeof header);
  memcpy(header, "\x93NUMPY\x01\x00\x76\x00", 10); /* version 1.0, and 118 bytes more */
  const int n =
      snprintf(header + 10, sizeof header - 10, "{'descr': '<f8', 'fortran_order': False, 'shape': (%d, %d), }",
               options->size[ROWS], options->size[COLUMNS]);
  header[10 + n] = ' ';
  header[127] = '\n';
  FILE *file = fopen(options->output, "wb");
  if (file == NULL || fwrite(header, sizeof header, 1, file) != 1 ||
      fwrite(field, sizeof *field, points, file) != points || fclose(file) != 0) {
    perror(options->output);
    exit(1);
  }
  printf("the field is in %s\n", options->output);
}
