#include <gpucoll/gpucoll.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <thread>
#include <vector>

#include "tune/member.h"
#include "tune/team.h"

namespace gpucoll::tune {
namespace {

using proto::Function;

// A meeting of threads that are about to be timed: nobody sleeps. Ends as well when one of them has failed.
class Meeting {
 public:
  explicit Meeting(int n) : n_(n) {}
  bool arrive(int round) {
    arrived_.fetch_add(1, std::memory_order_acq_rel);
    while (arrived_.load(std::memory_order_acquire) < (round + 1) * n_ && !failed()) sched_yield();
    return !failed();
  }
  void fail() { failed_.store(true, std::memory_order_release); }

 private:
  bool failed() const { return failed_.load(std::memory_order_acquire); }

  const int n_;
  std::atomic<int> arrived_{0};
  std::atomic<bool> failed_{false};
};

// Rank r is members_[r], on device r.
class ThreadTeam final : public Team {
 public:
  // Side by side: destroying a communicator waits for its peers.
  ~ThreadTeam() override {
    on_every_rank([this](size_t rank) {
      members_[rank].reset();
      return Status();
    }).ignore();
  }
  Status open(int n_ranks, size_t buffer_bytes);
  Result<double> time(Function function, uint64_t bytes, Engines engines, Repeats repeats) override;

 private:
  Status on_every_rank(const std::function<Status(size_t)>& work);

  std::vector<std::unique_ptr<Member>> members_;
};

Status ThreadTeam::open(int n_ranks, size_t buffer_bytes) {
  for (int rank = 0; rank < n_ranks; ++rank) members_.push_back(std::make_unique<Member>(rank, n_ranks, MPI_COMM_NULL));
  for (Engines engines : {Engines::off, Engines::on}) {
    GC_TRY(prepare_engines(engines));
    std::vector<gpucollComm_t> comms(members_.size());
    GC_TRY(from_api(gpucollCommInitAll(comms.data(), n_ranks, nullptr), nullptr, "gpucollCommInitAll"));
    for (size_t i = 0; i < comms.size(); ++i) members_[i]->adopt(engines, comms[i]);
  }
  return on_every_rank([&](size_t rank) { return members_[rank]->prepare(buffer_bytes); });
}

// The first failure, or OK.
Status ThreadTeam::on_every_rank(const std::function<Status(size_t)>& work) {
  std::vector<Status> answers(members_.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < members_.size(); ++i)
    threads.emplace_back([&, i] {
      answers[i] = from_api(gpucollSetDevice(static_cast<int>(i)), nullptr, "gpucollSetDevice");
      if (answers[i]) answers[i] = work(i);
    });
  for (std::thread& thread : threads) thread.join();
  for (Status& answer : answers)
    if (!answer) return std::move(answer);
  return {};
}

Result<double> ThreadTeam::time(Function function, uint64_t bytes, Engines engines, Repeats repeats) {
  Meeting meeting(static_cast<int>(members_.size()));
  std::vector<std::vector<double>> times(members_.size());
  GC_TRY(on_every_rank([&](size_t rank) {
    const auto meet = [&](int round) { return meeting.arrive(round); };
    Status status = members_[rank]->time_calls(function, bytes / sizeof(float), engines, repeats, meet, &times[rank]);
    if (!status) {
      meeting.fail();
      members_[rank]->abort();  // the others may be waiting for this rank
    }
    return status;
  }));
  return median_of_slowest(times);
}

}  // namespace

Result<std::unique_ptr<Team>> thread_team(int n_ranks, size_t buffer_bytes) {
  auto team = std::make_unique<ThreadTeam>();
  GC_TRY(team->open(n_ranks, buffer_bytes));
  return std::unique_ptr<Team>(std::move(team));
}

}  // namespace gpucoll::tune
