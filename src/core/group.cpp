#include "core/group.h"

#include <algorithm>
#include <thread>
#include <vector>

namespace gpucoll::core {
namespace {

struct Queue {
  Communicator* communicator;
  std::vector<Task> tasks;
};

struct Group {
  int depth = 0;
  Status failure;
  std::vector<std::function<Status()>> jobs;
  std::vector<Queue> queues;  // in order of appearance
};

thread_local Group the_group;

// Runs jobs that wait for each other side by side. The first failure in their order.
Status run_all(std::vector<std::function<Status()>> jobs) {
  if (jobs.size() == 1) return jobs[0]();
  std::vector<Status> results(jobs.size());
  std::vector<std::thread> threads;
  threads.reserve(jobs.size());
  for (size_t i = 0; i < jobs.size(); ++i) {
    Status started = contained([&]() -> Status {
      threads.emplace_back([&, i] { results[i] = contained(jobs[i]); });
      return {};
    });
    if (!started) results[i] = std::move(started);
  }
  for (auto& thread : threads) thread.join();
  for (Status& result : results)
    if (!result) return std::move(result);
  return {};
}

Status connect_missing(const std::vector<Queue>& queues) {
  std::vector<std::function<Status()>> jobs;
  for (const Queue& q : queues)
    if (!q.communicator->connected()) jobs.push_back([c = q.communicator] { return c->connect(); });
  return jobs.empty() ? Status() : run_all(std::move(jobs));
}

}  // namespace

bool group_open() { return the_group.depth > 0; }
void group_start() { ++the_group.depth; }

Status group_end() {
  if (the_group.depth == 0)
    return Status::error(Code::invalid_usage, "gpucollGroupEnd without a gpucollGroupStart before it");
  if (--the_group.depth > 0) return {};
  Group group = std::exchange(the_group, Group());
  GC_TRY(std::move(group.failure));
  if (!group.jobs.empty()) GC_TRY(run_all(std::move(group.jobs)));
  GC_TRY(connect_missing(group.queues));
  Status first;
  for (Queue& q : group.queues) {
    Status status = q.communicator->launch(q.tasks);
    if (!status && first) first = std::move(status);
  }
  return first;
}

Status enqueue(Communicator& communicator, const Task& task) {
  if (the_group.depth == 0) {
    GC_TRY(communicator.connect());
    return communicator.launch({task});
  }
  auto& queues = the_group.queues;
  auto q = std::find_if(queues.begin(), queues.end(), [&](const Queue& q) { return q.communicator == &communicator; });
  if (q == queues.end()) q = queues.insert(q, {&communicator, {}});
  q->tasks.push_back(task);
  return {};
}

Status enqueue_job(std::function<Status()> job) {
  if (the_group.depth == 0) return job();
  the_group.jobs.push_back(std::move(job));
  return {};
}

Status fail_group(Status status) {
  if (the_group.depth == 0 || status.ok() || !the_group.failure) return status;
  the_group.failure = status;
  the_group.failure.mark_told();  // by the call that failed
  return status;
}

void forget(const Communicator& communicator) {
  std::erase_if(the_group.queues, [&](const Queue& q) { return q.communicator == &communicator; });
}

}  // namespace gpucoll::core
