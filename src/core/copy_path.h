// Large messages between two ranks whose devices reach each other: moved by the sender's copy engine, straight from
// buffer to buffer, without a kernel. proto/format/copy.h says how the ranks talk.
//
// begin() takes a group's messages on; put_ready() and put_end() put the group's part on its stream; the rest is done
// by the process's proxy: all copies of this rank in one stream, in turn by the distance of their receivers, so that
// ranks that keep step never write to one device together (copy_turns.h). A buffer that others cannot open is received
// through a bounce buffer, in pieces. Both ranks choose this way or kernels from the message's bytes and the transport
// of their link, which are equal. Where sizes differ, or one of the two uses kernels after all, one of the ranks sees
// it and the communicator fails.
//
// Thread safety: begin() and what puts something on a stream by one caller at a time; the rest from any thread.
// Ownership: the context outlives it; it owns streams, mappings and bounce buffers. Destroy it when passed() ==
// groups(), or a fault is latched, and the peers are done with this rank's memory.
// Invariant: copy streams hold copies whose both ends are ready, and waits for these copies, so whatever shares a queue
// with them gets on.
#pragma once
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "core/copy_limits.h"
#include "core/copy_turns.h"
#include "core/fault.h"
#include "core/flights.h"
#include "core/kernel_pages.h"
#include "core/links.h"
#include "core/peers.h"
#include "core/proxy.h"
#include "core/registration.h"
#include "core/stream_part.h"
#include "core/task.h"
#include "gpu/device.h"
#include "proto/format/copy.h"

namespace gpucoll::core {

struct CopyContext {
  gpu::Device& device;
  Fault& fault;
  const Peers& peers;
  const Links& links;
  Exports& exports;
  KernelPages& pages;
  CopyLimits limits;     // of messages that go this way
  uint64_t piece_bytes;  // of a bounce buffer
};

class CopyPath final : public ProxyWork, public StreamPart, public Flying {
 public:
  explicit CopyPath(const CopyContext& context);
  ~CopyPath() override;
  CopyPath(const CopyPath&) = delete;
  CopyPath& operator=(const CopyPath&) = delete;

  // Whether some of a group's messages go this way; then *rest becomes what does not.
  // REQUIRES: the messages' links are made; no stream is capturing. On failure the communicator must fail.
  Result<bool> begin(const TaskQueue& queue, TaskQueue* rest);
  // Of what was begun last: the buffers may be used from this point of the stream on (with step 0); in the end it goes
  // on once they have been.
  Status put_ready(gpu::Stream stream, uint32_t step) override;
  Status put_waits(gpu::Stream, uint32_t) override { return {}; }
  Status put_end(gpu::Stream stream) override;

  // Groups whose waits have been put, and those whose waits are over.
  uint64_t groups() const noexcept { return groups_.load(std::memory_order_relaxed); }
  uint64_t passed() const noexcept;
  // From the first that is put of a group on.
  bool flies() const noexcept override {
    return (putting_.load(std::memory_order_relaxed) || passed() < groups()) && !context_.fault.raised();
  }
  // For reports: which message is waited for; "" for none.
  std::string waiting_for();
  // Now and then: notices memory of peers that is gone.
  void look_for_freed() noexcept;

  Progress progress() noexcept override;
  void tidy() noexcept override { imports_.close_dropped_at_rest(mutex_); }

 private:
  struct Message {
    uint64_t number, ordinal, bytes;
    uint8_t* buffer;
    uint64_t turn = 0;                        // of a send
    std::optional<ExportedPlace> place = {};  // of a receive: pinned; none: by bounce buffer
    uint64_t taken = 0;                       // bytes that have left the bounce buffer
  };
  // What there is of one direction with one peer. Kernel addresses are null until the first message by copy.
  struct Direction {
    int peer;
    bool p2p;
    uint64_t messages = 0, copies = 0;  // so far
    proto::CopyLane *own, *theirs;
    proto::CopyLane *own_kernel = nullptr, *their_kernel = nullptr;
    std::vector<Message> pending;  // in order; sends that are not started, receives that are not done
    uint64_t pieces = 0;           // that have been moved, or taken
  };
  struct Sending : Direction {
    // Of the first pending message: where it goes, once known; and what of it is on its way.
    uint8_t* target = nullptr;
    uint64_t piece_bytes = 0, moved = 0;
    uint64_t last_in_pieces = 0;    // the number of the last message by bounce buffer
    uint64_t issued = 0;            // the number of the last message whose copies are all on the stream
    uint64_t group = 0, round = 0;  // of the last group with messages by copy: how many there were in it
  };
  struct Receiving : Direction {
    gpu::Stream stream = nullptr;  // out of the bounce buffer
    uint64_t posted = 0;
    uint8_t* bounce = nullptr;
    gpu::MemoryHandle bounce_handle = {};
  };
  // Of the group that was begun last: a word for its stream to store, or to wait for.
  struct Mark {
    uint64_t* word;  // kernel address
    uint64_t number;
  };

  Sending& sending(int peer);
  Receiving& receiving(int peer);
  void place_lanes(Direction& direction, int peer, net::Side side) const;
  bool by_copy(const Direction& direction, const TaskQueue::Pair& task) const {
    const uint64_t least = task.exchange ? context_.limits.exchanges : context_.limits.messages;
    return direction.p2p && least && task.bytes >= least;
  }
  Status take(const TaskQueue& queue);
  static void note(std::vector<Mark>& marks, uint64_t* word, uint64_t number);
  Status take_send(const TaskQueue::Pair& task);
  uint64_t turn_of(Sending& sending);
  Status take_receive(const TaskQueue::Pair& task);
  Status prepare(Direction& direction);
  Status make_streams();
  Status make_bounce(Receiving& receiving);

  void wake();

  // The proxy's; all with the lock held.
  Progress look() noexcept;
  Status advance_all(bool* moved, bool* waiting);
  Status advance_sends(bool* moved, bool* waiting);
  Result<Sending*> next_send();
  Result<bool> may_go(Sending& s);
  bool any_send_under_way() const noexcept;
  Result<bool> advance(Sending& s, bool* moved);
  Result<bool> match(Sending& s, const Message& message);
  bool start(Sending& s, const Message& message);
  Result<bool> move_whole(Sending& s, const Message& message);
  Result<bool> move_pieces(Sending& s, const Message& message, bool* moved);
  Status advance(Receiving& r, bool* moved);
  void drop_done(Receiving& r, bool* moved);
  void post(Receiving& r);
  Status take_pieces(Receiving& r, bool* moved);
  Progress give_up() noexcept;
  bool under_way(const Sending& s) const noexcept;
  bool under_way(const Receiving& r) const noexcept;

  const CopyContext context_;
  proto::CopyPage& page_;  // of this rank
  std::atomic<uint64_t> groups_{0};
  std::atomic<bool> putting_{false};  // some of a group, but not its end
  std::vector<Mark> ready_, done_;    // the caller's: of each word the last number
  std::atomic<bool> active_{false};   // progress() may have something to do

  std::mutex mutex_;                               // of what follows
  std::vector<std::unique_ptr<Sending>> sending_;  // by peer; null until the first message
  std::vector<std::unique_ptr<Receiving>> receiving_;
  gpu::Stream stream_ = nullptr, words_stream_ = nullptr;  // of all sends, and of the words that tell of them
  CopyTurns turns_;
  uint64_t groups_taken_ = 0, first_turn_ = 0, last_turn_ = 0;  // first_turn_: of the group taken last
  Imports imports_;
};

}  // namespace gpucoll::core
