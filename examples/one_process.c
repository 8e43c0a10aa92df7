/* One process, one thread, all devices: each device is a rank.
 *
 *   one_process [NUMBER OF DEVICES]
 *
 * Calls for several ranks belong into a group: none of them may wait for another one that this thread has not come to
 * yet. */
#include "example.h"

enum { MOST = 64 };

/* What a rank has. */
struct rank {
  gpucollStream_t stream;
  int *in, *sum, *received;
};

static void set_up(struct rank *rank, int device) {
  CHECK(gpucollSetDevice(device));
  CHECK(gpucollStreamCreate(&rank->stream));
  rank->in = new_input(device);
  rank->sum = new_output();
  rank->received = new_output();
}

static void tear_down(struct rank *rank, int device) {
  CHECK(gpucollSetDevice(device));
  CHECK(gpucollFree(rank->in));
  CHECK(gpucollFree(rank->sum));
  CHECK(gpucollFree(rank->received));
  CHECK(gpucollStreamDestroy(rank->stream));
}

/* Every rank gets the sum of all ranks' inputs. */
static void all_reduce(struct rank *ranks, gpucollComm_t *comms, int n) {
  CHECK(gpucollGroupStart());
  for (int r = 0; r < n; ++r)
    CHECK(gpucollAllReduce(ranks[r].in, ranks[r].sum, COUNT, gpucollInt32, gpucollSum, comms[r], ranks[r].stream));
  CHECK(gpucollGroupEnd());
}

/* Every rank sends its input to the next one. */
static void ring_exchange(struct rank *ranks, gpucollComm_t *comms, int n) {
  CHECK(gpucollGroupStart());
  for (int r = 0; r < n; ++r) {
    const int next = (r + 1) % n, previous = (r + n - 1) % n;
    CHECK(gpucollSend(ranks[r].in, COUNT, gpucollInt32, next, comms[r], ranks[r].stream));
    CHECK(gpucollRecv(ranks[r].received, COUNT, gpucollInt32, previous, comms[r], ranks[r].stream));
  }
  CHECK(gpucollGroupEnd());
}

int main(int argc, char **argv) {
  struct rank ranks[MOST];
  gpucollComm_t comms[MOST];
  const char *kind;
  int n;
  CHECK(gpucollDeviceKind(&kind));
  CHECK(gpucollDeviceCount(&n));
  if (argc > 1 && atoi(argv[1]) < n) n = atoi(argv[1]);
  if (n > MOST) n = MOST;
  if (n < 1) return fprintf(stderr, "usage: one_process [NUMBER OF DEVICES]\n"), 2;

  for (int r = 0; r < n; ++r) set_up(&ranks[r], r);
  CHECK(gpucollCommInitAll(comms, n, NULL));

  /* Stream-ordered: the calls return at once, and the exchange follows the allreduce on each stream. */
  all_reduce(ranks, comms, n);
  ring_exchange(ranks, comms, n);

  for (int r = 0; r < n; ++r) {
    CHECK(gpucollStreamSynchronize(ranks[r].stream));
    expect_sum("allreduce", ranks[r].sum, n);
    expect_input("ring exchange", ranks[r].received, (r + n - 1) % n);
  }
  CHECK(gpucollGroupStart());
  for (int r = 0; r < n; ++r) CHECK(gpucollCommFinalize(comms[r]));
  CHECK(gpucollGroupEnd());
  for (int r = 0; r < n; ++r) {
    CHECK(gpucollCommDestroy(comms[r]));
    tear_down(&ranks[r], r);
  }
  printf("one process: allreduce and ring exchange of %d devices (%s) are right\n", n, kind);
  return 0;
}
