// Where connections from other nodes come in: one thread a process, with a listening socket for each of its addresses,
// from the first communicator on that needs them. The thread also serves the channels.
//
// Whoever waits for a connection tells its token first, and then claims the socket; a channel waits by itself. Whoever
// knocks without a token that is waited for is hung up on (net/bootstrap/door.h).
// Thread safety: any function from any thread.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "net/bootstrap/door.h"
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
  // Returns the connection with this number that has come with the token; empty while there is none.
  UniqueFd claim(const Token& token, int number);
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
  void report(const Status& status) noexcept;
  std::vector<std::shared_ptr<Channel>> channels();

  std::mutex mutex_;  // guards what follows but door_, which is the thread's once it runs
  bool listening_ = false;
  Addresses own_;  // without ports; found once, as finding takes a quarter of a millisecond
  proto::ListenAddress address_ = {};
  UniqueFd wake_;
  std::map<Token, Waiting> waiting_;
  std::vector<std::shared_ptr<Channel>> channels_;
  Door door_;
  bool reported_ = false;  // the thread's
};

// A connection that is being made to an endpoint, without waiting. An endpoint may hang up on it before it has heard
// the token, where too many knock at once: then it dials again.
class DialedConnection {
 public:
  // Errors: remote; as Endpoint::way_to().
  static Result<DialedConnection> start(const proto::ListenAddress& at, const Token& token, int number);
  // Returns the connection once the endpoint has admitted it; empty before. Errors: remote.
  Result<UniqueFd> finish();

 private:
  DialedConnection(Dial dial, const Address& address, const Token& token, int number)
      : dial_(std::move(dial)), address_(address), token_(token), number_(number) {}
  Status say_hello();
  Dial dial_;
  Address address_;
  Token token_;
  int number_;
  UniqueFd fd_;  // of a connection that has shown the token
  Clock::time_point again_{};
};

}  // namespace gpucoll::net
