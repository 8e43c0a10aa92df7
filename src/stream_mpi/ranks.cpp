#include "stream_mpi/ranks.h"

#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <list>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "abi/meeting.h"
#include "base/fork.h"

namespace gpucoll::stream_mpi {
namespace {

// All of this process, for MPI_Finalize. It is never destroyed: MPI may be finalized while statics go.
struct Known {
  std::mutex mutex;
  std::list<Ranks> ranks;
  int keyval = MPI_KEYVAL_INVALID;
  bool ended = false;
};
Known& known() {
  static Known* const the_one = new Known;
  return *the_one;
}

// Destroys the communicator of the C API; what fails was told by it.
void let_go(gpucollComm_t comm) {
  if (comm) (void)gpucoll_comm_leave(comm);
}

// Forgets what is kept, and returns its communicator.
gpucollComm_t remove(Ranks* ranks) {
  std::lock_guard lock(known().mutex);
  gpucollComm_t comm = ranks->comm;
  known().ranks.remove_if([&](const Ranks& other) { return &other == ranks; });
  return comm;
}

// Where this fails, MPI keeps the attribute and the communicator: what the open group holds would be lost with it.
int on_delete(MPI_Comm, int, void* value, void*) {
  auto* const ranks = static_cast<Ranks*>(value);
  if (ranks->comm && gpucoll_group_open()) {
    gpucoll_refuse("MPI_Comm_free", gpucollInvalidUsage,
                   "a group is open, which may hold calls on this communicator: call gpucollGroupEnd before "
                   "MPI_Comm_free");
    return MPI_ERR_OTHER;
  }
  let_go(remove(ranks));
  return MPI_SUCCESS;
}

// The attributes themselves stay: MPI may be going through those of this very communicator.
int on_finalize(MPI_Comm, int, void*, void*) {
  std::vector<gpucollComm_t> left;
  {
    std::lock_guard lock(known().mutex);
    known().ended = true;
    for (Ranks& ranks : known().ranks) left.push_back(std::exchange(ranks.comm, nullptr));
  }
  for (gpucollComm_t comm : left) let_go(comm);
  return MPI_SUCCESS;
}

Status mpi(const char* function, int error) {
  if (error == MPI_SUCCESS) return {};
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  PMPI_Error_string(error, text, &length);
  return Status::error(Code::system, "%s failed: %s", function, text);
}

// Returns the key under which communicators keep theirs, after having made it at the first call. PMPI, here and
// elsewhere, as a profiler must not see calls that the program did not make.
Result<int> keyval() {
  std::lock_guard lock(known().mutex);
  if (known().ended) return Status::error(Code::invalid_usage, "MPI_Finalize has been called");
  if (known().keyval != MPI_KEYVAL_INVALID) return int{known().keyval};
  int initialized = 0, finalized = 0, at_end = MPI_KEYVAL_INVALID;
  GC_TRY(mpi("MPI_Initialized", PMPI_Initialized(&initialized)));
  GC_TRY(mpi("MPI_Finalized", PMPI_Finalized(&finalized)));
  if (!initialized || finalized)
    return Status::error(Code::invalid_usage, "MPI does not run: call this between MPI_Init and MPI_Finalize");
  GC_TRY(mpi("MPI_Comm_create_keyval", PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, on_finalize, &at_end, nullptr)));
  GC_TRY(mpi("MPI_Comm_set_attr", PMPI_Comm_set_attr(MPI_COMM_SELF, at_end, nullptr)));
  GC_TRY(mpi("MPI_Comm_free_keyval", PMPI_Comm_free_keyval(&at_end)));  // lives on until the attribute is deleted
  GC_TRY(mpi("MPI_Comm_create_keyval",
             PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, on_delete, &known().keyval, nullptr)));
  return int{known().keyval};
}

// The ranks while they meet.
struct Meeting {
  const Ranks& ranks;
  bool given_up = false;  // this rank has left an exchange that others may still be in
};

// Holds what an exchange reads and writes: this must stay where MPI may still come to it after the wait for it was
// given up.
struct Exchange {
  std::vector<char> mine, all;
  MPI_Request request = MPI_REQUEST_NULL;
};

Status wait(Exchange& exchange, int64_t timeout_s, const Ranks& ranks) {
  constexpr timespec kNap = {0, 20'000};
  const auto began = std::chrono::steady_clock::now();
  for (int done = 0;;) {
    GC_TRY(mpi("MPI_Test", PMPI_Test(&exchange.request, &done, MPI_STATUS_IGNORE)));
    if (done) return {};
    if (timeout_s && std::chrono::steady_clock::now() - began >= std::chrono::seconds(timeout_s))
      return Status::error(Code::timed_out,
                           "rank %d has waited %lld s (parameter timeout) for the other %d ranks of the MPI "
                           "communicator: all of them must call gpucollCommFromMPI, or the same collective",
                           ranks.rank, static_cast<long long>(timeout_s), ranks.size - 1);
    nanosleep(&kNap, nullptr);
  }
}

Status exchange_all(const Ranks& ranks, const void* mine, void* all, size_t bytes, int64_t timeout_s) {
  auto exchange = std::make_unique<Exchange>();
  const auto* const begin = static_cast<const char*>(mine);
  exchange->mine.assign(begin, begin + bytes);
  exchange->all.resize(bytes * static_cast<size_t>(ranks.size));
  const auto count = static_cast<int>(bytes);
  GC_TRY(mpi("MPI_Iallgather", PMPI_Iallgather(exchange->mine.data(), count, MPI_BYTE, exchange->all.data(), count,
                                               MPI_BYTE, ranks.mpi, &exchange->request)));
  if (Status waited = wait(*exchange, timeout_s, ranks); !waited) {
    static std::list<std::unique_ptr<Exchange>>* const given_up = new std::list<std::unique_ptr<Exchange>>;
    std::lock_guard lock(known().mutex);
    given_up->push_back(std::move(exchange));
    return waited;
  }
  std::copy(exchange->all.begin(), exchange->all.end(), static_cast<char*>(all));
  return {};
}

gpucollResult_t allgather(void* ctx, const void* mine, void* all, size_t bytes, int64_t timeout_s, char* why,
                          size_t why_bytes) {
  auto& meeting = *static_cast<Meeting*>(ctx);
  const Status status = contained([&] { return exchange_all(meeting.ranks, mine, all, bytes, timeout_s); });
  if (!status) meeting.given_up = true;
  std::snprintf(why, why_bytes, "%s", status.what());
  return static_cast<gpucollResult_t>(status.code());
}

// Keeps `ranks` with its MPI communicator.
Result<Ranks*> keep(int key, const Ranks& ranks) {
  Ranks* kept;
  {
    std::lock_guard lock(known().mutex);
    kept = &known().ranks.emplace_back(ranks);
  }
  Status status = mpi("MPI_Comm_set_attr", PMPI_Comm_set_attr(ranks.mpi, key, kept));
  if (status) return kept;
  remove(kept);
  return status;
}

// Makes the communicator of the C API. `kept`: what an earlier call has kept that failed on all ranks, or null.
Result<const Ranks*> make(const char* where, int key, Ranks ranks, Ranks* kept) {
  claim_process();
  GC_TRY(mpi("MPI_Comm_rank", PMPI_Comm_rank(ranks.mpi, &ranks.rank)));
  GC_TRY(mpi("MPI_Comm_size", PMPI_Comm_size(ranks.mpi, &ranks.size)));
  // Nothing may fail on this rank alone once the ranks have met.
  const Status mine = contained([&]() -> Status {
    if (kept) return {};
    GC_TRY_AS(kept, keep(key, ranks));
    return {};
  });
  Meeting meeting = {ranks};
  const gc_meeting how = {ranks.rank, ranks.size, &meeting, allgather, static_cast<gpucollResult_t>(mine.code()),
                          mine.what()};
  gpucollComm_t comm;
  const gpucollResult_t made = gpucoll_comm_meet(where, &comm, &how);
  if (kept) {
    kept->comm = comm;
    kept->out_of_step = meeting.given_up;
  }
  GC_TRY(told(made));
  return kept;
}

}  // namespace

Result<const Ranks*> ranks_of(const char* where, MPI_Comm comm, Caller caller) {
  if (comm == MPI_COMM_NULL) return Status::error(Code::invalid_argument, "the communicator is MPI_COMM_NULL");
  GC_TRY_AS(const int key, keyval());
  void* value = nullptr;
  int found = 0, is_inter = 0;
  GC_TRY(mpi("MPI_Comm_get_attr", PMPI_Comm_get_attr(comm, key, &value, &found)));
  auto* const kept = found ? static_cast<Ranks*>(value) : nullptr;
  if (kept && kept->comm) return kept;
  if (kept && kept->out_of_step)
    return Status::error(Code::invalid_usage,
                         "an earlier call on this MPI communicator has given up waiting for the other ranks, so that "
                         "they are out of step: make another one of its group by MPI_Comm_create_group (MPI_Comm_dup "
                         "would not do), and use that");
  GC_TRY(mpi("MPI_Comm_test_inter", PMPI_Comm_test_inter(comm, &is_inter)));
  if (is_inter)
    return Status::error(Code::invalid_argument,
                         "this is an intercommunicator, which has no stream-ordered calls: merge its groups by "
                         "MPI_Intercomm_merge, or call MPI's own function after gpucollStreamSynchronize");
  if (caller == Caller::one_rank)
    return Status::error(Code::invalid_usage,
                         "the communicator is not known yet, and a message cannot make it known: call "
                         "gpucollCommFromMPI on all of its ranks first");
  return make(where, key, {comm, nullptr, 0, 0}, kept);
}

}  // namespace gpucoll::stream_mpi
