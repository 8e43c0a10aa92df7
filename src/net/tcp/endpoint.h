// Where connections from other nodes come in: one thread a process, with a listening socket for each of its addresses,
// from the first communicator on that needs them. The thread also serves the channels.
//
// Whoever waits for a connection tells its token first, and then claims the socket; a channel waits by itself. Whoever
// knocks without a token that is waited for is hung up on (net/bootstrap/door.h). Where the process has had no
// descriptor left for 2 s, the thread tells those who knock so, by the spare one (net/bootstrap/spare.h).
// Thread safety: any function from any thread.
#pragma once
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "net/bootstrap/dialed_connection.h"
#include "net/bootstrap/door.h"
#include "net/bootstrap/spare.h"
#include "net/tcp/channel.h"
#include "net/tcp/token.h"

namespace gpucoll::net {

class Endpoint {
 public:
  // Returns this process's; a forked child has its own.
  static Endpoint& instance();

  // Returns where this process listens, and begins to at the first call. Errors: system; invalid_argument (parameter
  // socket_ifname).
  Result<proto::ListenAddress> address();
  // Returns the address by which this process reaches an endpoint that listens at `peer`. Errors: as net::way_to().
  Result<Address> way_to(const proto::ListenAddress& peer);

  // Keeps connections that show the token for claim(), until forget().
  void expect(const Token& token);
  // Hands every connection that shows the token to `welcome`, on the endpoint's thread, until forget().
  using Welcome = std::function<void(UniqueFd)>;
  void expect(const Token& token, Welcome welcome);
  // Returns the connection with this number that has come with the token; empty while there is none. Errors: what keeps
  // the thread from accepting connections, once it has done so for 2 s.
  Result<UniqueFd> claim(const Token& token, int number);
  void forget(const Token& token);

  // Serves a channel, over a connection that has shown the other side's token, or over the first one that shows `token`
  // here.
  void serve(std::shared_ptr<Channel> channel, UniqueFd connected);
  void serve(std::shared_ptr<Channel> channel, const Token& token);
  // Lets the thread look at the channels again: one has more to send than its connection took.
  void wake() noexcept;

 private:
  struct Waiting {
    std::map<int, UniqueFd> come;
    std::shared_ptr<Channel> channel;  // null: connections are kept, or welcome
    Welcome welcome = nullptr;
  };
  Status find_own();
  Status listen();
  void run();
  Status turn();
  void admit(Door::Guest guest);
  bool is_unable() const;
  Status serve_door(const PollSet& set);
  void note(const Status& status) noexcept;
  void report(const Status& status) noexcept;
  std::vector<std::shared_ptr<Channel>> channels();

  std::mutex mutex_;  // guards what follows but door_, which is the thread's once it runs
  bool listening_ = false;
  Addresses own_;  // without ports; found once, as finding takes a quarter of a millisecond
  proto::ListenAddress address_ = {};
  UniqueFd wake_;
  std::map<Token, Waiting> waiting_;
  std::vector<std::shared_ptr<Channel>> channels_;
  Status unable_;  // what has kept the thread from accepting connections, last at unable_at_; ok: nothing
  std::chrono::steady_clock::time_point unable_since_ = {}, unable_at_ = {};
  Door door_;
  std::optional<Spare> spare_;
  bool reported_ = false;  // the thread's
};

// Begins a connection to an endpoint, which shows a token and a number. Errors: remote; as Endpoint::way_to().
Result<DialedConnection> dial_endpoint(const proto::ListenAddress& at, const Token& token, int number);

}  // namespace gpucoll::net
