// Makes the boards of processes on other nodes known here, and this process's board there (remote_process.h).
//
// Each process of a job that may have several nodes listens, as one with host memory alone has to answer as well. Who
// wants to look at another process's board dials it, unless that one has dialed before. A thread of its own answers
// questions; it sleeps while nobody asks, and looks at this process's board while somebody waits for one of its ranks.
//
// Thread safety: any thread. Ownership: owns all that it returns, until the process ends.
#pragma once
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "mpi/remote_process.h"
#include "net/tcp/endpoint.h"
#include "net/tcp/token.h"
#include "proto/format/remote_page.h"
#include "topo/node.h"

namespace gpucoll::coll {

// Names a process in all nodes.
struct ProcessId {
  topo::NodeId node;
  int32_t pid;
  uint64_t board_inode;
  auto operator<=>(const ProcessId&) const = default;
};

class RemoteBoards {
 public:
  static RemoteBoards& instance();

  // Begins to listen, and writes where: what others need to reach this process, whose board is `own`. Errors: what
  // keeps this process from it.
  Status listen(const ProcessId& self, core::Board* own, proto::NetworkAddress* address);
  // Returns the process of that name. Errors: out_of_memory, system.
  Result<RemoteProcess*> process(const ProcessId& id);
  // Makes channels to those that have none. Waits, and calls `idle`. Errors: remote, timed_out; the sentence tells whom
  // this process cannot reach, by *failed, its place in the list.
  struct Wanted {
    RemoteProcess* process;
    proto::NetworkAddress address;
  };
  Status connect(const std::vector<Wanted>& wanted, void (*idle)(), size_t* failed);
  // Goes on making a channel to a process, unless there is one, and never waits: the channel ends with the process.
  // Returns the process; null where it does not listen. Call it again now and then.
  const RemoteProcess* watch(const ProcessId& id, const proto::NetworkAddress& address) noexcept;
  // Tells all processes that this one runs.
  void tell_pulse() noexcept;

 private:
  class Link;
  struct Request {
    proto::BoardMessage kind;
    proto::BoardQuestion question;
    RemoteProcess* process;  // that has asked
  };
  struct Watching {
    std::optional<net::DialedConnection> dialed;
    net::Backoff pause;  // after a failure
  };

  void welcome(UniqueFd connected);
  std::shared_ptr<net::Channel> make_channel(RemoteProcess* process);
  void take(UniqueFd connected, RemoteProcess* process);
  Status go_on(Watching* watching, RemoteProcess* process, const proto::NetworkAddress& address);
  void dial(RemoteProcess* process, const proto::NetworkAddress& address);
  void enqueue(Request request);
  void run();
  void answer(const Request& request);
  bool read_arrivals(const proto::BoardQuestion& question, proto::BoardArrivals* told) const noexcept;
  bool tells_arrival(const Request& request, bool first) noexcept;
  bool is_ready(const proto::BoardQuestion& question) const noexcept;

  std::mutex mutex_;  // of processes_ and links_
  std::map<ProcessId, std::unique_ptr<RemoteProcess>> processes_;
  std::vector<std::unique_ptr<Link>> links_;
  std::mutex watching_mutex_;
  std::map<RemoteProcess*, Watching> watching_;  // those without a channel

  core::Board* own_ = nullptr;
  proto::BoardHello hello_ = {};

  std::mutex requests_mutex_;  // of what follows
  std::condition_variable changed_;
  std::deque<Request> requests_;
  std::vector<Request> awaiting_;  // the thread's
};

}  // namespace gpucoll::coll
