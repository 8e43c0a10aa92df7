// Where the ranks of unique ids meet: one thread for all ids of this process, with a listening socket for each of its
// addresses, as long as there are any that have not been used.
//
// An id ends when all its ranks are through with each other, a minute after one of them has failed, or, unused, when it
// is a day old or as many newer ones are there as may be. Who comes later is told so, or finds nobody.
// Thread safety: any thread.
#pragma once
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "net/bootstrap/door.h"
#include "net/bootstrap/gathering.h"
#include "net/bootstrap/spare.h"

namespace gpucoll::net {

// Returns the address of this process, which listens there.
proto::BootstrapAddress own_address(const proto::ListenAddress& at);

class Rendezvous {
 public:
  struct Limits {
    size_t most_unused = 1000;
    std::chrono::seconds unused{24 * 3600};
    std::chrono::seconds after_failure{60};
  };
  Rendezvous() : Rendezvous(Limits()) {}
  explicit Rendezvous(const Limits& limits) : limits_(limits) {}
  // The one of this process; a forked child has its own.
  static Rendezvous& instance();

  // Errors: system, where there is no thread or no socket; invalid_argument as local_addresses().
  Result<proto::UniqueId> make_id();
  // Tells the ranks of an id of this process that one of them cannot take part, without a connection. False where the
  // id is not known here.
  bool decline(const proto::UniqueId& id, int rank, int size, const Status& why);
  // Why a rank of this process need not wait for an answer: the id's ranks cannot meet, and no descriptor may be left
  // by which it could be told. It gives up then, and so do the others. Ok for ids of other processes.
  Status refusal(const proto::UniqueId& id, int rank, int size);

 private:
  struct Entrance {
    Addresses wanted, at;  // without and with ports
    Door door;
  };
  Result<proto::ListenAddress> entrance();
  Status start();
  void run();
  PollSet watched() const;
  void serve(const PollSet& set);
  void serve(Entrance& entrance, const PollSet& set);
  void welcome(Door::Guest guest);
  void drop_oldest_unused();
  Deadline next_deadline() const;
  void wake() noexcept;

  const Limits limits_;
  std::mutex mutex_;
  bool running_ = false;
  bool resting_ = false;  // until a descriptor may be left again for who knocks
  Status stuck_;          // why nobody who knocks was let in by the last turn
  UniqueFd wake_;
  std::unique_ptr<Spare> spare_;
  std::list<Entrance> entrances_;
  std::map<uint64_t, Gathering> gatherings_;  // by nonce
  uint64_t made_ = 0;
};

}  // namespace gpucoll::net
