/* Graphs: groups are captured once and launched many times; one process drives all devices.
 *
 *   graphs [NUMBER OF LAUNCHES]
 *
 * The graph holds two steps round the ring, so that after k launches rank r has the input of rank r - 2k, and an
 * allreduce of where the data is then. */
#include "example.h"

enum { MOST = 64 };

struct rank {
  gpucollStream_t stream;
  int *data, *other, *sum;
};

static void shift(struct rank *ranks, gpucollComm_t *comms, int n, int back) {
  CHECK(gpucollGroupStart());
  for (int r = 0; r < n; ++r) {
    struct rank *me = &ranks[r];
    CHECK(gpucollSend(back ? me->other : me->data, COUNT, gpucollInt32, (r + 1) % n, comms[r], me->stream));
    CHECK(gpucollRecv(back ? me->data : me->other, COUNT, gpucollInt32, (r + n - 1) % n, comms[r], me->stream));
  }
  CHECK(gpucollGroupEnd());
}

/* What is put into ranks[0].stream between begin and end is recorded. The other streams take part from where they wait
 * for it, and it must wait for them before the end. */
static gpucollGraph_t capture(struct rank *ranks, gpucollComm_t *comms, int n) {
  gpucollGraph_t graph;
  CHECK(gpucollSetDevice(0));
  CHECK(gpucollStreamBeginCapture(ranks[0].stream));
  for (int r = 1; r < n; ++r) CHECK(gpucollStreamWaitStream(ranks[r].stream, ranks[0].stream));
  shift(ranks, comms, n, 0);
  shift(ranks, comms, n, 1);
  CHECK(gpucollGroupStart());
  for (int r = 0; r < n; ++r)
    CHECK(gpucollAllReduce(ranks[r].data, ranks[r].sum, COUNT, gpucollInt32, gpucollSum, comms[r], ranks[r].stream));
  CHECK(gpucollGroupEnd());
  for (int r = 1; r < n; ++r) CHECK(gpucollStreamWaitStream(ranks[0].stream, ranks[r].stream));
  CHECK(gpucollStreamEndCapture(ranks[0].stream, &graph));
  return graph;
}

int main(int argc, char **argv) {
  struct rank ranks[MOST];
  gpucollComm_t comms[MOST];
  const int launches = argc > 1 ? atoi(argv[1]) : 25;
  int n;
  CHECK(gpucollDeviceCount(&n));
  if (n > MOST) n = MOST;
  for (int r = 0; r < n; ++r) {
    CHECK(gpucollSetDevice(r));
    CHECK(gpucollStreamCreate(&ranks[r].stream));
    ranks[r].data = new_input(r);
    ranks[r].other = new_output();
    ranks[r].sum = new_output();
  }
  CHECK(gpucollCommInitAll(comms, n, NULL));

  gpucollGraph_t graph = capture(ranks, comms, n);
  for (int r = 0; r < n; ++r) expect_input("capture", ranks[r].data, r); /* nothing has run yet */
  for (int i = 0; i < launches; ++i) CHECK(gpucollGraphLaunch(graph, ranks[0].stream));
  CHECK(gpucollStreamSynchronize(ranks[0].stream));
  for (int r = 0; r < n; ++r) {
    expect_input("two steps round the ring", ranks[r].data, ((r - 2 * launches) % n + n) % n);
    if (launches > 0) expect_sum("allreduce", ranks[r].sum, n);
  }

  CHECK(gpucollGraphDestroy(graph));
  CHECK(gpucollGroupStart());
  for (int r = 0; r < n; ++r) CHECK(gpucollCommFinalize(comms[r]));
  CHECK(gpucollGroupEnd());
  for (int r = 0; r < n; ++r) {
    CHECK(gpucollSetDevice(r));
    CHECK(gpucollCommDestroy(comms[r]));
    CHECK(gpucollFree(ranks[r].data));
    CHECK(gpucollFree(ranks[r].other));
    CHECK(gpucollFree(ranks[r].sum));
    CHECK(gpucollStreamDestroy(ranks[r].stream));
  }
  printf("graphs: %d launches on %d devices are right\n", launches, n);
  return 0;
}
