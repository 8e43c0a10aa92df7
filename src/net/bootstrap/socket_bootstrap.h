// Bootstrap over TCP sockets from a unique id, for programs without MPI.
//
// A rank meets the others once at the maker of the id and learns all addresses; allgathers then run directly
// between ranks in log2(n) steps (Bruck's algorithm), over connections that are made at first use. The connection to
// the maker stays until the bootstrap goes: over it the first failure of a rank reaches all others.
// Thread safety: one caller at a time; make_unique_id and decline from any thread.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "net/bootstrap/bootstrap.h"
#include "net/bootstrap/dialed_connection.h"
#include "net/bootstrap/door.h"
#include "net/bootstrap/socket.h"
#include "net/bootstrap/spare.h"
#include "proto/format/bootstrap.h"

namespace gpucoll::net {

// Starts a rendezvous in the background (rendezvous.h) and says where it is.
Result<proto::UniqueId> make_unique_id();

class SocketBootstrap final : public Bootstrap {
 public:
  // Collective: returns once all `size` ranks have come. Errors: timed_out; invalid_usage when ranks contradict
  // each other (a rank twice, differing sizes); invalid_argument when `id` was not made by make_unique_id; and what
  // another rank could not come for.
  // watch: called several times a second in each wait. Its failure ends this bootstrap, and the others learn of it.
  using Watch = std::function<Status()>;
  static Result<std::unique_ptr<SocketBootstrap>> create(const proto::UniqueId& id, int rank, int size,
                                                         int64_t timeout_s, Watch watch = {});
  // Instead of create(), for a rank that cannot even begin: tells the others why.
  static void decline(const proto::UniqueId& id, int rank, int size, const Status& why) noexcept;
  ~SocketBootstrap() override;
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  Status allgather(const void* mine, void* all, size_t bytes) override;
  Status look() override;
  // Tells the others why this rank fails, unless one of them failed before.
  void give_up(const Status& why) noexcept;

 private:
  // A connection to rank - 2^level that is being made.
  struct Call {
    int level;
    DialedConnection dialed;
  };
  SocketBootstrap(const proto::UniqueId& id, int rank, int size, int64_t timeout_s, Watch watch = {})
      : id_(id), rank_(rank), size_(size), timeout_s_(timeout_s), watch_(std::move(watch)) {}
  Status meet();
  Result<UniqueFd> reach(const Address& root, Deadline deadline);
  // True once all have come, false where the maker hung up without a word.
  Result<bool> come_to(const Address& root, Deadline deadline);
  Status gather(const void* mine, void* all, size_t bytes);
  Status learn_addresses(Deadline deadline);
  Status open_door();
  Status connect(Deadline deadline);
  Status unreached(int level, const Status& why) const;
  Status begin_calls(std::vector<Call>* calls);
  Status advance(std::vector<Call>* calls);
  Status accept(const PollSet& set);
  // Warns after the parameter report_after, once, and fails after the parameter timeout, where a connection is still
  // being made to `whom`.
  Status look_for_silence(const std::string& whom, const Address& at, bool taken);
  Status exchange(int level, const uint8_t* out, uint8_t* in, size_t bytes, Deadline deadline);
  void watch_others(PollSet* set) const;
  // Waits for what is in the set, and for news of the maker and of the ranks that this one sends to.
  Status wait(PollSet* set, Deadline deadline, std::chrono::milliseconds most = std::chrono::milliseconds(1000));
  Status hear_maker();
  void begin_waiting();
  Status ask_watch();
  Status look_for_hangups(const PollSet& set);
  // Returns the error that names a rank, or the maker, whose process is stopped, once this rank has waited for the
  // parameter timeout.
  Status stopped_rank() const;
  std::string maker_name() const;
  std::string rank_at(int rank) const;
  void say_farewell();
  void take_leave();
  // The first failure, as far as it is known within a while, where this rank has only seen what came of it.
  Status cause_of(Status mine) noexcept;
  int levels() const;
  int rank_before(int level) const { return (rank_ - (1 << level) + size_) % size_; }
  int rank_after(int level) const { return (rank_ + (1 << level)) % size_; }
  bool all_connected() const;
  bool expects(const proto::BootstrapHello& hello) const;
  proto::BootstrapHello hello(int level) const;

  const Spare spare_;
  proto::UniqueId id_;
  int rank_, size_;
  int64_t timeout_s_;
  const Watch watch_;
  std::optional<Status> ended_;  // what the watch has ended this for
  Line root_;
  bool one_host_ = false;
  Addresses own_;             // without ports; found once, as finding takes a quarter of a millisecond
  bool turned_away_ = false;  // the maker let this rank in, and hung up on it without a word
  int maker_ = -1;            // the rank whose process made the id, once all have come; -1: no rank's
  bool silence_told_ = false;
  Clock::time_point begun_;  // when this rank began to wait
  Deadline patience_;        // when this rank has waited for the parameter timeout
  bool addresses_follow_ = false;
  std::optional<Status> failure_;  // the first one, that the maker or another rank told, or that this rank has told
  Door door_;
  std::vector<proto::BootstrapAddress> addresses_;
  std::vector<UniqueFd> to_, from_;  // by level: to rank - 2^level, from rank + 2^level
  std::vector<bool> left_;           // by level: the rank that this one sends to is through and has left
  uint32_t rounds_ = 0;              // allgathers that this rank is through with
};

}  // namespace gpucoll::net
