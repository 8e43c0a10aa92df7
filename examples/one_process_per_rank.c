/* One process for each rank, without MPI.
 *
 *   one_process_per_rank RANK SIZE FILE
 *
 * Rank 0 makes the unique id and puts it into FILE, where the others find it; FILE must not exist before. Any other
 * way to hand 128 bytes to all ranks is as good. run_ranks.sh starts the processes. */
#include <time.h>

#include "example.h"

/* Under another name first, so that nobody reads half of it. */
static void write_id(const char *path, const gpucollUniqueId *id) {
  char unfinished[4096];
  snprintf(unfinished, sizeof unfinished, "%s.unfinished", path);
  FILE *file = fopen(unfinished, "wb");
  if (file == NULL || fwrite(id, sizeof *id, 1, file) != 1 || fclose(file) != 0 || rename(unfinished, path) != 0) {
    perror(path);
    exit(1);
  }
}

static void read_id(const char *path, gpucollUniqueId *id) {
  for (int tries = 0; tries < 6000; ++tries) { /* a minute */
    FILE *file = fopen(path, "rb");
    if (file != NULL) {
      const size_t read = fread(id, sizeof *id, 1, file);
      fclose(file);
      if (read == 1) return;
    }
    nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
  }
  fprintf(stderr, "rank 0 has not written its id to %s\n", path);
  exit(1);
}

int main(int argc, char **argv) {
  const int rank = argc == 4 ? atoi(argv[1]) : -1, size = argc == 4 ? atoi(argv[2]) : 0;
  if (rank < 0 || rank >= size) return fprintf(stderr, "usage: one_process_per_rank RANK SIZE FILE\n"), 2;

  /* The device is chosen before anything is allocated. The ranks of one node should have different ones. */
  int n_devices;
  CHECK(gpucollDeviceCount(&n_devices));
  CHECK(gpucollSetDevice(rank % n_devices));

  gpucollUniqueId id;
  if (rank == 0) {
    CHECK(gpucollGetUniqueId(&id));
    write_id(argv[3], &id);
  } else {
    read_id(argv[3], &id);
  }
  gpucollComm_t comm;
  CHECK(gpucollCommInitRank(&comm, size, id, rank));

  gpucollStream_t stream;
  CHECK(gpucollStreamCreate(&stream));
  int *in = new_input(rank), *sum = new_output(), *received = new_output();
  const int next = (rank + 1) % size, previous = (rank + size - 1) % size;

  CHECK(gpucollAllReduce(in, sum, COUNT, gpucollInt32, gpucollSum, comm, stream));
  /* A send and a receive that wait for each other belong into a group. */
  CHECK(gpucollGroupStart());
  CHECK(gpucollSend(in, COUNT, gpucollInt32, next, comm, stream));
  CHECK(gpucollRecv(received, COUNT, gpucollInt32, previous, comm, stream));
  CHECK(gpucollGroupEnd());
  CHECK(gpucollStreamSynchronize(stream));
  expect_sum("allreduce", sum, size);
  expect_input("ring exchange", received, previous);

  CHECK(gpucollCommDestroy(comm));
  CHECK(gpucollFree(in));
  CHECK(gpucollFree(sum));
  CHECK(gpucollFree(received));
  CHECK(gpucollStreamDestroy(stream));
  printf("rank %d of %d: allreduce and ring exchange are right\n", rank, size);
  return 0;
}
