#include "case_run.h"

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <thread>

#include "case_rank.h"
#include "nodes.h"

namespace gpucoll_test {
namespace {

// A group that is ended whatever happens.
class Grouped {
 public:
  Grouped() { must(gpucollGroupStart(), "gpucollGroupStart"); }
  ~Grouped() {
    if (!ended_) gpucollGroupEnd();
  }
  Grouped(const Grouped&) = delete;
  Grouped& operator=(const Grouped&) = delete;
  void end() {
    ended_ = true;
    must(gpucollGroupEnd(), "gpucollGroupEnd");
  }

 private:
  bool ended_ = false;
};

void run_group(const Group& group, Rank& rank) {
  if (group.grouped) {
    Grouped grouped;
    for (const Call& call : group.calls) rank.issue(call);
    return grouped.end();
  }
  for (const Call& call : group.calls) rank.issue(call);
}

void run_rank(const Case& c, int r, const gpucollUniqueId& id, const Memory& first, const Memory& expected) {
  Rank rank(c, r);
  rank.prepare(first[static_cast<size_t>(r)]);
  rank.init(id);
  for (size_t i = 0; i < c.splits.size(); ++i) {
    gpucollComm_t made = nullptr;
    rank.split(i, &made);
    rank.keep(i, made);
  }
  for (const Group& group : c.groups) run_group(group, rank);
  rank.finish(expected[static_cast<size_t>(r)]);
  rank.destroy();
}

// What a failure says, with the rank.
template <class Body>
std::string failure_of(const std::string& who, Body&& body) {
  try {
    body();
    return "";
  } catch (const std::exception& e) {
    return who + ": " + e.what();
  }
}

// The first one that is not what follows from another's failure.
std::string first_failure(const std::vector<std::string>& failures) {
  std::string first;
  for (const std::string& failure : failures) {
    if (failure.empty()) continue;
    if (failure.find("aborted by its program") == std::string::npos &&
        failure.find("another rank") == std::string::npos)
      return failure;
    if (first.empty()) first = failure;
  }
  return first;
}

std::string run_threads(const Case& c, const Memory& first, const Memory& expected) {
  gpucollUniqueId id;
  if (gpucollGetUniqueId(&id) != gpucollSuccess) return "gpucollGetUniqueId failed";
  std::vector<std::string> failures(static_cast<size_t>(c.n_ranks));
  std::vector<std::thread> threads;
  for (int r = 0; r < c.n_ranks; ++r)
    threads.emplace_back([&, r] {
      failures[static_cast<size_t>(r)] =
          failure_of("rank " + std::to_string(r), [&] { run_rank(c, r, id, first, expected); });
    });
  for (auto& thread : threads) thread.join();
  return first_failure(failures);
}

using Ranks = std::vector<std::unique_ptr<Rank>>;

void split_together(size_t i, Ranks& ranks) {
  std::vector<gpucollComm_t> made(ranks.size());
  Grouped grouped;
  for (size_t r = 0; r < ranks.size(); ++r) ranks[r]->split(i, &made[r]);
  grouped.end();
  for (size_t r = 0; r < ranks.size(); ++r) ranks[r]->keep(i, made[r]);
}

void run_group_together(const std::vector<const Call*>& calls, Ranks& ranks) {
  Grouped grouped;
  for (auto& rank : ranks) {
    rank->use_device();
    for (const Call* call : calls) rank->issue(*call);
  }
  grouped.end();
}

void run_together(const Case& c, const Memory& first, const Memory& expected) {
  Ranks ranks;
  std::vector<gpucollComm_t> comms(static_cast<size_t>(c.n_ranks));
  std::vector<int> devices;
  for (int r = 0; r < c.n_ranks; ++r) {
    ranks.push_back(std::make_unique<Rank>(c, r));
    ranks.back()->prepare(first[static_cast<size_t>(r)]);
    devices.push_back(ranks.back()->device());
  }
  must(gpucollCommInitAll(comms.data(), c.n_ranks, devices.data()), "gpucollCommInitAll");
  for (size_t r = 0; r < ranks.size(); ++r) ranks[r]->init(comms[r]);
  for (size_t i = 0; i < c.splits.size(); ++i) split_together(i, ranks);
  for (const Group& group : c.groups) {
    std::vector<const Call*> calls;
    for (const Call& call : group.calls) {
      calls.push_back(&call);
      if (!group.grouped) run_group_together({&call}, ranks);
    }
    if (group.grouped) run_group_together(calls, ranks);
  }
  for (size_t r = 0; r < ranks.size(); ++r) ranks[r]->finish(expected[r]);
  for (auto& rank : ranks) rank->destroy();
}

// A pipe that its ends close.
struct Pipe {
  int ends[2];
  Pipe() {
    if (pipe(ends) != 0) throw Failure("no pipe");
  }
  ~Pipe() {
    close(ends[0]);
    close(ends[1]);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
};

// In the child: never returns. The id goes from rank 0 through the others' pipes.
[[noreturn]] void run_child(const Case& c, int r, std::vector<std::unique_ptr<Pipe>>& ids, int report,
                            const Memory& first, const Memory& expected) {
  constexpr unsigned kMostSeconds = 120;
  alarm(kMostSeconds);
  choose_node(r);
  const std::string failure = failure_of("rank " + std::to_string(r), [&] {
    gpucollUniqueId id;
    const auto place = static_cast<size_t>(r);
    if (r == 0) {
      must(gpucollGetUniqueId(&id), "gpucollGetUniqueId");
      for (size_t other = 1; other < ids.size(); ++other)
        if (write(ids[other]->ends[1], &id, sizeof id) != sizeof id) throw Failure("cannot write the id");
    } else if (read(ids[place]->ends[0], &id, sizeof id) != sizeof id) {
      throw Failure("cannot read the id");
    }
    run_rank(c, r, id, first, expected);
  });
  if (!failure.empty() && write(report, failure.data(), std::min<size_t>(failure.size(), 2000)) < 0) _exit(3);
  _exit(failure.empty() ? 0 : 1);
}

std::string result_of_child(int r, pid_t child, int report) {
  int status = 0;
  waitpid(child, &status, 0);
  if (status == 0) return "";
  if (WIFSIGNALED(status)) return "rank " + std::to_string(r) + " died of signal " + std::to_string(WTERMSIG(status));
  char said[2048];
  pollfd ready = {report, POLLIN, 0};
  const ssize_t bytes = poll(&ready, 1, 0) == 1 ? read(report, said, sizeof said) : 0;
  return bytes > 0 ? std::string(said, static_cast<size_t>(bytes)) : "rank " + std::to_string(r) + " failed";
}

std::string run_processes(const Case& c, const Memory& first, const Memory& expected) {
  std::vector<std::unique_ptr<Pipe>> ids, reports;
  for (int r = 0; r < c.n_ranks; ++r) {
    ids.push_back(std::make_unique<Pipe>());
    reports.push_back(std::make_unique<Pipe>());
  }
  std::vector<pid_t> children;
  for (int r = 0; r < c.n_ranks; ++r) {
    const pid_t child = fork();
    if (child == 0) run_child(c, r, ids, reports[static_cast<size_t>(r)]->ends[1], first, expected);
    children.push_back(child);
  }
  std::vector<std::string> failures;
  for (int r = 0; r < c.n_ranks; ++r) {
    const auto place = static_cast<size_t>(r);
    failures.push_back(result_of_child(r, children[place], reports[place]->ends[0]));
  }
  return first_failure(failures);
}

// Cases with one call left out, then with halved counts.
std::vector<Case> smaller_cases(const Case& c) {
  std::vector<Case> smaller;
  for (size_t g = 0; g < c.groups.size(); ++g) {
    smaller.push_back(c);
    smaller.back().groups.erase(smaller.back().groups.begin() + static_cast<std::ptrdiff_t>(g));
  }
  for (size_t g = 0; g < c.groups.size(); ++g)
    for (size_t i = 0; i < c.groups[g].calls.size(); ++i) {
      smaller.push_back(c);
      auto& calls = smaller.back().groups[g].calls;
      calls.erase(calls.begin() + static_cast<std::ptrdiff_t>(i));
    }
  for (size_t g = 0; g < c.groups.size(); ++g)
    for (size_t i = 0; i < c.groups[g].calls.size(); ++i) {
      const Call& call = c.groups[g].calls[i];
      if (call.count < 2) continue;
      smaller.push_back(c);
      smaller.back().groups[g].calls[i].count = call.count / 2;
    }
  return smaller;
}

}  // namespace

std::string run_case(const Case& c) {
  const Memory first = first_memory(c), expected = expected_memory(c);
  switch (c.drive) {
    case Drive::processes: return run_processes(c, first, expected);
    case Drive::threads: return run_threads(c, first, expected);
    default: return failure_of("all ranks", [&] { run_together(c, first, expected); });
  }
}

Case shrink(const Case& c, int seconds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  Case best = c;
  for (bool better = true; better;) {
    better = false;
    for (const Case& candidate : smaller_cases(best)) {
      if (std::chrono::steady_clock::now() > end) return best;
      if (run_case(candidate).empty()) continue;
      best = candidate;
      better = true;
      break;
    }
  }
  return best;
}

}  // namespace gpucoll_test
