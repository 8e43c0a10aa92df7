/* Reads gpucoll's parameters and counters as any tool would, through MPI_T: each parameter is a control variable, and
 * each counter a performance variable that counts what the program has called. `again`: the tool has been there before,
 * and ended, as Open MPI then has forgotten its output. */
#include <gpucoll/gpucoll.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kCount = 4, kCalls = 10, kMost = 128, kMostText = 4096 };

static int failures, rank, size;
static MPI_T_pvar_session session;

static void check(int right, const char *what) {
  if (right) return;
  failures++;
  printf("rank %d: FAILED: %s\n", rank, what);
}

/* Reads a control variable, which is a text. */
static int read_parameter(const char *name, char *value) {
  int index, count;
  MPI_T_cvar_handle handle;
  if (MPI_T_cvar_get_index(name, &index) != MPI_SUCCESS) return 0;
  if (MPI_T_cvar_handle_alloc(index, NULL, &handle, &count) != MPI_SUCCESS) return 0;
  value[0] = 0;
  const int read = count <= kMostText && MPI_T_cvar_read(handle, value) == MPI_SUCCESS;
  MPI_T_cvar_handle_free(&handle);
  return read;
}

typedef struct counter {
  char name[kMost];
  MPI_T_pvar_handle handle;
} counter;
static counter counters[kMost];
static int n_counters;

/* Starts all counters whose names begin with the component's. */
static void start_counters(void) {
  int all;
  MPI_T_pvar_get_num(&all);
  for (int i = 0; i < all && n_counters < kMost; i++) {
    char name[kMost] = "", help[512] = "";
    int name_length = sizeof name, help_length = sizeof help, verbosity, class, bind, readonly, continuous, atomic,
        count;
    MPI_Datatype type;
    MPI_T_enum words;
    if (MPI_T_pvar_get_info(i, name, &name_length, &verbosity, &class, &type, &words, help, &help_length, &bind,
                            &readonly, &continuous, &atomic) != MPI_SUCCESS ||
        strncmp(name, "coll_gpucoll_", 13) != 0)
      continue;
    const size_t length = strlen(name);
    const int sums = strcmp(name + length - 5, "bytes") == 0 && strstr(name, "slow_") == NULL;
    check(class == (sums ? MPI_T_PVAR_CLASS_AGGREGATE : MPI_T_PVAR_CLASS_COUNTER) && type == MPI_UNSIGNED_LONG_LONG &&
              readonly && continuous && help[0],
          name);
    counter *its = &counters[n_counters++];
    snprintf(its->name, sizeof its->name, "%s", name + 13);
    check(MPI_T_pvar_handle_alloc(session, i, NULL, &its->handle, &count) == MPI_SUCCESS && count == 1, name);
  }
}

static unsigned long long read_counter(const char *name) {
  unsigned long long value = 0;
  for (int i = 0; i < n_counters; i++) {
    if (strcmp(counters[i].name, name) != 0) continue;
    check(MPI_T_pvar_read(session, counters[i].handle, &value) == MPI_SUCCESS, name);
    return value;
  }
  printf("there is no counter %s\n", name);
  failures++;
  return 0;
}

static void expect(const char *name, unsigned long long since, unsigned long long wanted) {
  const unsigned long long counted = read_counter(name) - since;
  if (counted == wanted) return;
  failures++;
  printf("rank %d: FAILED: %s counted %llu, not %llu\n", rank, name, counted, wanted);
}

static void check_parameters(void) {
  char value[kMostText];
  check(read_parameter("coll_gpucoll_timeout", value) && strcmp(value, "77") == 0, "timeout reads 77");
  check(read_parameter("coll_gpucoll_protocol", value) && strcmp(value, "auto") == 0, "protocol reads auto");
  check(!read_parameter("coll_gpucoll_nothing", value), "there is no parameter `nothing`");
}

static void check_counters(void) {
  void *send = NULL, *recv = NULL;
  long double host = 1;
  check(gpucollMalloc(&send, 1024) == gpucollSuccess && gpucollMalloc(&recv, 1024) == gpucollSuccess, "memory");
  const int values[kCount] = {1, 2, 3, 4};
  gpucollMemcpy(send, values, sizeof values);
  MPI_Allreduce(send, recv, kCount, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  const unsigned long long calls = read_counter("calls"), bytes = read_counter("bytes"),
                           staged = read_counter("calls_staged"), requests = read_counter("requests"),
                           copies = read_counter("staged_copies"), made = read_counter("plans_made"),
                           kept = read_counter("plans_kept"), fresh = read_counter("launches_new"),
                           graphs = read_counter("launches_kept"), resident = read_counter("launches_resident");
  for (int i = 0; i < kCalls; i++) MPI_Allreduce(send, recv, kCount, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  expect("calls", calls, kCalls);
  expect("bytes", bytes, kCalls * sizeof values);
  expect("calls_staged", staged, 0);
  check(read_counter("plans_made") - made + read_counter("plans_kept") - kept == kCalls, "each call has a plan");
  check(read_counter("plans_kept") > kept, "equal calls find their plans");
  check(read_counter("launches_new") - fresh + read_counter("launches_kept") - graphs +
                read_counter("launches_resident") - resident >=
            kCalls,
        "a kernel runs each call");
  /* The devices have no long double. */
  gpucollMemcpy(send, &host, sizeof host);
  MPI_Allreduce(send, recv, 1, MPI_LONG_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  expect("calls", calls, kCalls + 1);
  expect("calls_staged", staged, 1);
  expect("slow_user_operation", 0, 1);
  expect("slow_other_rank", 0, 0);
  check(read_counter("staged_copies") > copies, "a staged call copies");
  MPI_Request request;
  MPI_Iallreduce(send, recv, kCount, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  expect("requests", requests, 1);
  expect("calls", calls, kCalls + 1);
  (void)read_counter("network_bytes");
  (void)read_counter("calls_waited");
  gpucollFree(send);
  gpucollFree(recv);
}

int main(int argc, char **argv) {
  int threads, all = 0;
  const int again = argc > 1 && strcmp(argv[1], "again") == 0;
  MPI_T_init_thread(MPI_THREAD_SINGLE, &threads);
  if (again) MPI_T_finalize();
  MPI_Init(&argc, &argv);
  if (again) MPI_T_init_thread(MPI_THREAD_SINGLE, &threads);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_T_pvar_session_create(&session);
  check_parameters();
  start_counters();
  check_counters();
  MPI_T_pvar_session_free(&session);
  MPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0) printf("mpi_t: %d counters, %d failures\n", n_counters, all);
  MPI_T_finalize(); /* Open MPI 4.1.4 crashes where this comes after MPI_Finalize, without gpucoll, too */
  MPI_Finalize();
  return all != 0;
}
