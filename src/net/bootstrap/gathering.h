// The ranks of one unique id, as its maker sees them: who has come, who is ready, and who failed first
// (proto/format/bootstrap.h). Thread safety: one caller at a time.
#pragma once
#include <string>
#include <vector>

#include "net/bootstrap/door.h"
#include "net/bootstrap/socket.h"

namespace gpucoll::net {

class Gathering {
 public:
  // `number` counts the ids of the process.
  Gathering(uint64_t number, Deadline until) : number_(number), deadline_(until) {}

  uint64_t number() const noexcept { return number_; }
  bool unused() const noexcept { return state_ == State::unused; }
  // Returns whether some ranks have come and wait for others.
  bool gathers() const noexcept { return state_ == State::gathering; }
  bool failed() const noexcept { return state_ == State::failed; }
  // REQUIRES: failed().
  Status failure() const;
  // Nobody needs it any more.
  bool over() const noexcept { return over_; }
  // When to look again, whatever comes.
  Deadline deadline() const noexcept { return deadline_; }

  void watch(PollSet* set) const;
  // A rank has come.
  void admit(Door::Guest guest, std::chrono::seconds after_failure);
  // A rank cannot take part; it needs no answer.
  void decline(int rank, int size, const Status& why, std::chrono::seconds after_failure);
  // All are told, who is there now and who comes.
  void fail(const Status& why, std::chrono::seconds after_failure);
  void turn(const PollSet& set, std::chrono::seconds after_failure);

 private:
  enum class State { unused, gathering, readying, parting, failed };
  struct Seat {
    Line line;
    int pid = 0;
    std::string place;  // "on host node7", or "at 10.1.2.3" while its host's name is not known
    int32_t timeout_s = 0;
    uint64_t host = 0;
    proto::BootstrapAddress listener = {};
    bool come = false, ready = false, told = false;
  };
  // Returns "rank 1 (process 4711 on host node7)". REQUIRES: the rank has come.
  std::string name(size_t rank) const;
  Status contradiction(const proto::BootstrapHello& hello) const;
  void begin(int size);
  void wait_no_longer_than(int32_t timeout_s);
  void tell(Line* line) const;
  void serve(int rank, std::chrono::seconds after_failure);
  // A rank has hung up without a word.
  void miss(int rank, std::chrono::seconds after_failure);
  void take(int rank, const proto::BootstrapWord& word, std::chrono::seconds after_failure);
  // The next step, where all have come as far.
  void go_on();
  void end_if_all_are_told();
  bool all(bool Seat::*fact) const;
  // Returns the first rank of this process, which made the id; -1 where no rank is in this process.
  int maker() const;
  Status too_late() const;

  uint64_t number_;
  State state_ = State::unused;
  Deadline deadline_;
  int32_t timeout_s_ = 0;  // of the rank whose time runs out first
  bool over_ = false;
  std::vector<Seat> seats_;
  proto::BootstrapWord failure_ = {};
};

// Returns "process 4711 on host node7".
std::string process_at(const proto::BootstrapAddress& of);

// The word that tells of a failure, and what it tells.
proto::BootstrapWord failed_word(const Status& why);
Status failure_of(const proto::BootstrapWord& word);

}  // namespace gpucoll::net
