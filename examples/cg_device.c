/* The kernels of cg.c: on GPUs those of cg_cuda.cu. On the emulated device, which has no kernels of programs, functions
 * stand for them that copy the vectors to the host and back; these must wait for the stream, as no kernel does. */
#include <string.h>

#include "cg.h"
#include "example.h"

/* A vector of device memory, on the host. */
static double *fetch(const double *device, size_t n) {
  double *host = malloc((n + 1) * sizeof *host);
  if (host == NULL) exit(1);
  CHECK(gpucollMemcpy(host, device, n * sizeof *host));
  return host;
}

static void store(double *device, double *host, size_t n) {
  CHECK(gpucollMemcpy(device, host, n * sizeof *host));
  free(host);
}

static double number(const double *device) {
  double host;
  CHECK(gpucollMemcpy(&host, device, sizeof host));
  return host;
}

static void multiply(const cg_part *part, int step) {
  const size_t columns = (size_t)part->columns, n = (size_t)part->rows * columns;
  double *p = fetch(part->p, n + 2 * columns), *q = malloc((n + 1) * sizeof *q), sum = 0;
  if (q == NULL) exit(1);
  for (size_t i = 0; i < n; ++i) {
    const double *here = p + columns + i;
    const double left = i % columns > 0 ? here[-1] : 0, right = i % columns + 1 < columns ? here[1] : 0;
    q[i] = 4 * here[0] - left - right - *(here - columns) - here[columns];
    sum += here[0] * q[i];
  }
  free(p);
  store(part->q, q, n);
  CHECK(gpucollMemcpy(&part->pq[step], &sum, sizeof sum));
}

static void advance(const cg_part *part, int step) {
  const size_t n = (size_t)part->rows * (size_t)part->columns;
  const double a = number(&part->rr[step]) / number(&part->pq[step]);
  double *x = fetch(part->x, n), *r = fetch(part->r, n), *q = fetch(part->q, n), *p = fetch(cg_row(part, 0), n),
         sum = 0;
  for (size_t i = 0; i < n; ++i) {
    x[i] += a * p[i];
    r[i] -= a * q[i];
    sum += r[i] * r[i];
  }
  free(p);
  free(q);
  store(part->x, x, n);
  store(part->r, r, n);
  CHECK(gpucollMemcpy(&part->rr[step + 1], &sum, sizeof sum));
}

static void turn(const cg_part *part, int step) {
  const size_t n = (size_t)part->rows * (size_t)part->columns;
  const double b = number(&part->rr[step + 1]) / number(&part->rr[step]);
  double *r = fetch(part->r, n), *p = fetch(cg_row(part, 0), n);
  for (size_t i = 0; i < n; ++i) p[i] = r[i] + b * p[i];
  free(r);
  store(cg_row(part, 0), p, n);
}

static int runs_on_gpus(void) {
  const char *kind;
  CHECK(gpucollDeviceKind(&kind));
  return strcmp(kind, "cuda") == 0;
}

#ifdef CG_CUDA
#define ON_GPUS(name) name##_cuda(part, step, stream)
#else
#define ON_GPUS(name) no_kernels()
static void no_kernels(void) {
  fprintf(stderr, "this program has no kernels for GPUs: see README.md on how to compile it with cg_cuda.cu\n");
  exit(1);
}
#endif

#define KERNEL(name, emulated)                             \
  void name(const cg_part *part, int step, void *stream) { \
    if (runs_on_gpus()) {                                  \
      ON_GPUS(name);                                       \
    } else {                                               \
      CHECK(gpucollStreamSynchronize(stream));             \
      emulated(part, step);                                \
    }                                                      \
  }
KERNEL(cg_multiply, multiply)
KERNEL(cg_advance, advance)
KERNEL(cg_turn, turn)
