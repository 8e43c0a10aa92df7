/* What the examples share: the check of a call, and of a result. */
#ifndef GPUCOLL_EXAMPLE_H
#define GPUCOLL_EXAMPLE_H

#include <gpucoll/gpucoll.h>
#include <stdio.h>
#include <stdlib.h>

/* Ends the program with the sentence that belongs to the error. */
#define CHECK(call)                                                                                     \
  do {                                                                                                  \
    gpucollResult_t result_ = (call);                                                                   \
    if (result_ != gpucollSuccess) {                                                                    \
      fprintf(stderr, "%s:%d: %s: %s: %s\n", __FILE__, __LINE__, #call, gpucollGetErrorString(result_), \
              gpucollGetLastError(NULL));                                                               \
      exit(1);                                                                                          \
    }                                                                                                   \
  } while (0)

/* An odd number of elements, so that nothing divides evenly. */
enum { COUNT = 100003 };

/* What rank `rank` begins with: every element of every rank is another one. */
static inline int input(int rank, int i) { return rank * 1000 + i % 1000; }

/* The sum of all ranks' inputs. */
static inline int sum_of_inputs(int n_ranks, int i) {
  int sum = 0;
  for (int rank = 0; rank < n_ranks; ++rank) sum += input(rank, i);
  return sum;
}

/* COUNT elements of device memory that hold the input of `rank`. */
static inline int *new_input(int rank) {
  void *device = NULL;
  int *host = malloc(COUNT * sizeof *host);
  if (host == NULL) exit(1);
  for (int i = 0; i < COUNT; ++i) host[i] = input(rank, i);
  CHECK(gpucollMalloc(&device, COUNT * sizeof *host));
  CHECK(gpucollMemcpy(device, host, COUNT * sizeof *host));
  free(host);
  return device;
}

/* COUNT elements of device memory without a meaning yet. */
static inline int *new_output(void) {
  void *device = NULL;
  CHECK(gpucollMalloc(&device, COUNT * sizeof(int)));
  CHECK(gpucollMemset(device, 0xff, COUNT * sizeof(int)));
  return device;
}

/* Ends the program unless the device memory holds the sum (sum_of >= 0 ranks) or else the input of rank `rank`. */
static inline void expect(const char *what, const int *device, int sum_of, int rank) {
  int *host = malloc(COUNT * sizeof *host);
  if (host == NULL) exit(1);
  CHECK(gpucollMemcpy(host, device, COUNT * sizeof *host));
  for (int i = 0; i < COUNT; ++i) {
    const int right = sum_of >= 0 ? sum_of_inputs(sum_of, i) : input(rank, i);
    if (host[i] == right) continue;
    fprintf(stderr, "%s: element %d is %d and should be %d\n", what, i, host[i], right);
    exit(1);
  }
  free(host);
}

static inline void expect_sum(const char *what, const int *device, int n_ranks) { expect(what, device, n_ranks, 0); }
static inline void expect_input(const char *what, const int *device, int rank) { expect(what, device, -1, rank); }

#endif
