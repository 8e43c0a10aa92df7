#include "tune/team.h"

#include <gpucoll/gpucoll.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

namespace gpucoll::tune {
namespace {

using proto::Function;
using Clock = std::chrono::steady_clock;

Status from_api(gpucollResult_t result, gpucollComm_t comm, const char* call) {
  if (result == gpucollSuccess) return {};
  const char* sentence = gpucollGetLastError(comm);
  if (!*sentence) sentence = gpucollGetErrorString(result);
  return Status::error(static_cast<Code>(result), "%s: %s", call, sentence);
}

// A meeting of threads that are about to be timed: nobody sleeps. Ends as well when one of them has failed.
class Meeting {
 public:
  explicit Meeting(int n) : n_(n) {}
  void arrive(int round) {
    arrived_.fetch_add(1, std::memory_order_acq_rel);
    while (arrived_.load(std::memory_order_acquire) < (round + 1) * n_ && !failed()) sched_yield();
  }
  void fail() { failed_.store(true, std::memory_order_release); }
  bool failed() const { return failed_.load(std::memory_order_acquire); }

 private:
  const int n_;
  std::atomic<int> arrived_{0};
  std::atomic<bool> failed_{false};
};

}  // namespace

struct Team::Member {
  int rank = 0;
  gpucollComm_t comm = nullptr;
  gpucollStream_t stream = nullptr;
  void *send = nullptr, *recv = nullptr;
  std::vector<double> times_us;

  ~Member() {
    gpucollSetDevice(rank);
    if (comm) gpucollCommDestroy(comm);
    if (stream) gpucollStreamDestroy(stream);
    if (send) gpucollFree(send);
    if (recv) gpucollFree(recv);
  }
  Status prepare(size_t bytes);
  Status start(Function function, size_t count);
  Status time_calls(Function function, size_t count, Repeats repeats, Meeting& meeting);
};

Status Team::Member::prepare(size_t bytes) {
  GC_TRY(from_api(gpucollSetDevice(rank), comm, "gpucollSetDevice"));
  GC_TRY(from_api(gpucollStreamCreate(&stream), comm, "gpucollStreamCreate"));
  GC_TRY(from_api(gpucollMalloc(&send, bytes), comm, "gpucollMalloc"));
  GC_TRY(from_api(gpucollMalloc(&recv, bytes), comm, "gpucollMalloc"));
  return from_api(gpucollMemset(send, 0, bytes), comm, "gpucollMemset");
}

Status Team::Member::start(Function function, size_t count) {
  constexpr gpucollDataType_t kType = gpucollFloat32;
  gpucollResult_t result = gpucollUnsupported;
  switch (function) {
    case Function::all_reduce: result = gpucollAllReduce(send, recv, count, kType, gpucollSum, comm, stream); break;
    case Function::reduce: result = gpucollReduce(send, recv, count, kType, gpucollSum, 0, comm, stream); break;
    case Function::broadcast: result = gpucollBroadcast(send, recv, count, kType, 0, comm, stream); break;
    case Function::all_gather: result = gpucollAllGather(send, recv, count, kType, comm, stream); break;
    case Function::reduce_scatter:
      result = gpucollReduceScatter(send, recv, count, kType, gpucollSum, comm, stream);
      break;
    case Function::scan:
    case Function::exscan:
    case Function::all_to_all:
    case Function::gather:
    case Function::scatter:
    case Function::send_recv: break;
  }
  return from_api(result, comm, "collective");
}

Status Team::Member::time_calls(Function function, size_t count, Repeats repeats, Meeting& meeting) {
  times_us.clear();
  for (int i = 0; i < repeats.warmup + repeats.iterations; ++i) {
    meeting.arrive(i);
    if (meeting.failed()) return {};  // whoever failed says why
    const auto begin = Clock::now();
    GC_TRY(start(function, count));
    GC_TRY(from_api(gpucollStreamSynchronize(stream), comm, "gpucollStreamSynchronize"));
    const std::chrono::duration<double, std::micro> took = Clock::now() - begin;
    if (i >= repeats.warmup) times_us.push_back(took.count());
  }
  gpucollResult_t fault = gpucollSuccess;
  GC_TRY(from_api(gpucollCommGetAsyncError(comm, &fault), comm, "gpucollCommGetAsyncError"));
  return from_api(fault, comm, "collective");
}

Result<std::unique_ptr<Team>> Team::create(int n_ranks, size_t buffer_bytes) {
  std::unique_ptr<Team> team(new Team);
  std::vector<gpucollComm_t> comms(static_cast<size_t>(n_ranks));
  GC_TRY(from_api(gpucollCommInitAll(comms.data(), n_ranks, nullptr), nullptr, "gpucollCommInitAll"));
  for (int rank = 0; rank < n_ranks; ++rank) {
    team->members_.push_back(std::make_unique<Member>());
    team->members_.back()->rank = rank;
    team->members_.back()->comm = comms[static_cast<size_t>(rank)];
  }
  GC_TRY(team->on_every_rank([=](Member& member) { return member.prepare(buffer_bytes); }));
  return team;
}

// Side by side: destroying a communicator waits for its peers.
Team::~Team() {
  std::vector<std::thread> threads;
  for (auto& member : members_) threads.emplace_back([&member] { member.reset(); });
  for (std::thread& thread : threads) thread.join();
}

// The first failure, or OK.
Status Team::on_every_rank(const std::function<Status(Member&)>& work) {
  std::vector<Status> answers(members_.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < members_.size(); ++i)
    threads.emplace_back([&, i] {
      answers[i] = from_api(gpucollSetDevice(members_[i]->rank), nullptr, "gpucollSetDevice");
      if (answers[i]) answers[i] = work(*members_[i]);
    });
  for (std::thread& thread : threads) thread.join();
  for (Status& answer : answers)
    if (!answer) return std::move(answer);
  return {};
}

Result<double> Team::time(Function function, uint64_t bytes, Repeats repeats) {
  Meeting meeting(static_cast<int>(members_.size()));
  GC_TRY(on_every_rank([&](Member& member) {
    Status status = member.time_calls(function, bytes / sizeof(float), repeats, meeting);
    if (!status) {
      meeting.fail();
      gpucollCommAbort(std::exchange(member.comm, nullptr));  // the others may be waiting for this rank
    }
    return status;
  }));
  std::vector<double> slowest(static_cast<size_t>(repeats.iterations));
  for (const auto& member : members_)
    for (size_t i = 0; i < slowest.size(); ++i) slowest[i] = std::max(slowest[i], member->times_us[i]);
  std::nth_element(slowest.begin(), slowest.begin() + static_cast<long>(slowest.size() / 2), slowest.end());
  return slowest[slowest.size() / 2];
}

}  // namespace gpucoll::tune
