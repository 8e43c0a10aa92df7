// Children of ranks, forked in several states of their communicators, that end as programs do: by exit() and by
// returning from main, with destructors that use the C API. They must end at once, and change nothing of their parents.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "../resources.h"
#include "gpucoll/gpucoll.h"

namespace {

constexpr int kRanks = 2, kChild = 42;
constexpr size_t kCount = 1000;
constexpr std::chrono::seconds kBound(5);  // 10 is what a child once took that waited for peers

enum class State { alive, destroyed_here, destroyed, under_way, in_group };
constexpr State kStates[] = {State::alive, State::destroyed_here, State::destroyed, State::under_way, State::in_group};
const char* name_of(State state) {
  constexpr const char* kNames[] = {"alive", "destroyed on one rank", "destroyed", "under way", "in a group"};
  return kNames[static_cast<int>(state)];
}

bool g_is_child = false;

// What a program may have as an object of static storage. In a child nothing of it may succeed, as it would be gone in
// the parent, too.
struct Held {
  gpucollComm_t comm = nullptr;
  gpucollStream_t stream = nullptr;
  void* memory = nullptr;

  void let_go(gpucollResult_t expected) {
    if (stream && gpucollStreamSynchronize(stream) != expected) _exit(20);
    if (comm && gpucollCommDestroy(comm) != expected) _exit(21);
    if (memory && gpucollFree(memory) != expected) _exit(22);
    if (stream && gpucollStreamDestroy(stream) != expected) _exit(23);
    comm = nullptr;
    stream = nullptr;
    memory = nullptr;
  }
  ~Held() { let_go(g_is_child ? gpucollInvalidUsage : gpucollSuccess); }
};
Held g_held;

#define CHECK(...)                                                                                     \
  do {                                                                                                 \
    if (!(__VA_ARGS__)) {                                                                              \
      std::fprintf(stderr, "line %d: %s: %s\n", __LINE__, #__VA_ARGS__, gpucollGetLastError(nullptr)); \
      _exit(2);                                                                                        \
    }                                                                                                  \
  } while (0)

// Ranks take turns: rank 1 waits for rank 0's word.
struct Pipe {
  int ends[2];
  Pipe() { CHECK(pipe(ends) == 0); }
  void tell() const { CHECK(write(ends[1], "", 1) == 1); }
  void await() const {
    char byte;
    CHECK(read(ends[0], &byte, 1) == 1);
  }
};

bool ends_in_time(pid_t child, State state) {
  const int status = gpucoll_test::status_in_time(child, kBound);
  if (WIFEXITED(status) && WEXITSTATUS(status) == kChild) return true;
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
    std::fprintf(stderr, "%s: a child has not ended by exit()\n", name_of(state));
  else
    std::fprintf(stderr, "%s: a child ended with status %d\n", name_of(state), status);
  return false;
}

// Two children, one after the other. True in the one that is to return from main.
bool fork_children(State state) {
  for (bool returns : {false, true}) {
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
      g_is_child = true;
      if (returns) return true;
      std::exit(kChild);
    }
    CHECK(ends_in_time(child, state));
  }
  return false;
}

void all_reduce() {
  CHECK(!gpucollAllReduce(g_held.memory, g_held.memory, kCount, gpucollInt32, gpucollSum, g_held.comm, g_held.stream));
}

void check_results(int32_t expected) {
  std::vector<int32_t> result(kCount);
  CHECK(!gpucollStreamSynchronize(g_held.stream));
  CHECK(!gpucollMemcpy(result.data(), g_held.memory, kCount * sizeof(int32_t)));
  for (int32_t value : result) CHECK(value == expected);
}

void destroy() {
  CHECK(!gpucollCommDestroy(g_held.comm));
  g_held.comm = nullptr;
}

// Rank 0, with one reduction done, forks in the state; rank 1 comes to the same when it is told. True in a child.
bool fork_in(State state, int rank, const Pipe& turn) {
  int32_t expected = kRanks;
  if (state == State::destroyed) destroy();
  if (state == State::destroyed_here && rank == 0) destroy();
  if (state == State::in_group) CHECK(!gpucollGroupStart());
  if (rank == 1) turn.await();
  if (state == State::under_way || state == State::in_group) all_reduce(), expected *= kRanks;
  if (rank == 0 && fork_children(state)) return true;
  if (rank == 0) turn.tell();
  if (state == State::in_group) CHECK(!gpucollGroupEnd());
  check_results(expected);
  return false;
}

int run_rank(State state, int rank, const gpucollUniqueId& id, const Pipe& turn) {
  int devices = 0;
  CHECK(!gpucollDeviceCount(&devices));
  CHECK(!gpucollSetDevice(rank % devices));
  CHECK(!gpucollCommInitRank(&g_held.comm, kRanks, id, rank));
  CHECK(!gpucollStreamCreate(&g_held.stream));
  CHECK(!gpucollMalloc(&g_held.memory, kCount * sizeof(int32_t)));
  const std::vector<int32_t> ones(kCount, 1);
  CHECK(!gpucollMemcpy(g_held.memory, ones.data(), kCount * sizeof(int32_t)));
  all_reduce();
  check_results(kRanks);
  if (fork_in(state, rank, turn)) return kChild;
  g_held.let_go(gpucollSuccess);
  return 0;
}

}  // namespace

int main() {
  for (State state : kStates) {
    const Pipe turn, ids;
    pid_t children[kRanks];
    for (int rank = 0; rank < kRanks; ++rank) {
      if ((children[rank] = fork())) continue;
      gpucollUniqueId id;
      if (rank == 0) {
        CHECK(!gpucollGetUniqueId(&id));
        CHECK(write(ids.ends[1], &id, sizeof id) == sizeof id);
      } else {
        CHECK(read(ids.ends[0], &id, sizeof id) == sizeof id);
      }
      return run_rank(state, rank, id, turn);
    }
    int status = 0;
    for (int ended = 0; ended < kRanks && status == 0; ++ended) wait(&status);
    if (status == 0) continue;
    for (pid_t child : children) kill(child, SIGKILL);  // the other may wait for the one that failed
    std::fprintf(stderr, "%s: a rank ended with status %d\n", name_of(state), status);
    return 1;
  }
  std::puts("all children have ended");
  return 0;
}
