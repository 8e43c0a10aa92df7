// A process on another node, as this one knows it: a copy of its arrival board, and the channel over which both tell
// each other what changes (proto/format/remote_board.h).
//
// Thread safety: any thread; messages come in on the endpoint's thread or by receive_now(). Ownership: RemoteBoards
// keeps it until the process ends.
#pragma once
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "mpi/board.h"
#include "net/tcp/channel.h"
#include "proto/format/remote_board.h"

namespace gpucoll::coll {

class RemoteProcess {
 public:
  explicit RemoteProcess(core::Board copy) : copy_(std::move(copy)) {}
  RemoteProcess(const RemoteProcess&) = delete;
  RemoteProcess& operator=(const RemoteProcess&) = delete;

  // The copy. Only messages of that process change it.
  const core::Board& board() const noexcept { return copy_; }
  // Adds a connection with that process. The first one is that over which this process sends.
  void add(std::shared_ptr<net::Channel> channel);
  bool has_channel() const noexcept { return out_.load(std::memory_order_acquire) != nullptr; }
  // Takes what has come, where nobody else is at it.
  void receive_now() noexcept;
  // Returns whether no connection has ended.
  bool alive() const noexcept;

  // Sends a message; does nothing before there is a channel. What no memory is left for is lost, and so is the process
  // for this one.
  void put(proto::BoardMessage kind, const void* payload, size_t bytes) noexcept;
  // Tells that this process runs, or that its heart does not beat. A process that does not read is not told.
  void tell_pulse(bool beats) noexcept;

  // Asks the process to tell when its rank has come to a collective with host memory.
  void await(const core::BoardKey& key, uint32_t order, uint64_t number) noexcept;
  // Asks whether the process has called MPI_Finalize, unless it is being asked. Its board says so then.
  void ask_end() noexcept;
  // Raises the `launch_number` of the process where its rank is not ready for a call (proto/format/remote_board.h), or
  // has scheduled no more steps. Returns whether that is so, or that the rank is ready; none: the answer is not there
  // yet, so call again. A process that has ended, or has not answered for `timeout`, counts as one that is not ready.
  enum class Place { behind, ready };
  std::optional<Place> raise(const core::BoardKey& key, uint32_t order, uint64_t number, uint64_t raise_to) noexcept;
  // Returns the `launch_number` of the process at some time since the last forget_number(); none: call again.
  std::optional<uint64_t> ask_number(const core::BoardKey& key) noexcept;
  void forget_number(const core::BoardKey& key) noexcept;
  // Drops what is known of a communicator's questions.
  void forget(const core::BoardKey& key) noexcept;

  // Takes a message that has come from the process, an answer or what it has stored. Returns whether it makes sense.
  bool take(proto::BoardMessage kind, const uint8_t* payload, size_t bytes) noexcept;

 private:
  struct Question {
    uint64_t number = 0, raise_to = 0;
    bool outstanding = false, answered = false, ready = false;
    uint64_t launch_number = 0;
    int64_t asked_ns = 0;
  };
  bool ask(const core::BoardKey& key, uint32_t order, uint64_t number, uint64_t raise_to, Question* known) noexcept;
  static void give_up_late(Question* question) noexcept;
  gc_board_entry* entry(const core::BoardKey& key) noexcept;
  bool take_stores(const uint8_t* payload, size_t bytes) noexcept;
  bool take_arrivals(const proto::BoardArrivals& came) noexcept;
  void take_answer(const proto::BoardAnswer& answer) noexcept;
  void release(const core::BoardKey& key) noexcept;
  void hear(bool beats) noexcept;

  core::Board copy_;
  std::atomic<net::Channel*> out_{nullptr}, second_{nullptr};  // both sides may dial at once
  std::atomic<bool> lost_{false}, asks_end_{false};
  std::mutex copy_mutex_;     // guards changes of the copy: two connections may bring some
  mutable std::mutex mutex_;  // of what follows. Nothing is put while it is held, as messages come in under a channel's
  std::vector<std::shared_ptr<net::Channel>> channels_;
  std::map<std::pair<uint64_t, uint32_t>, Question> questions_;  // by key and order
};

}  // namespace gpucoll::coll
