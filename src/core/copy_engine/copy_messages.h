// Carries large messages between two ranks whose devices reach each other. The sender's copy engine moves them straight
// from buffer to buffer, without a kernel. proto/format/copy.h says how the ranks talk.
//
// begin() takes a group's messages; put_ready() and put_end() put the group's part on its stream; the process's proxy
// does the rest. All copies of this rank go in one stream, ordered by the distance of their receivers, so that ranks
// that keep step never write to one device together (send_order.h). A rank receives through a bounce buffer, in pieces,
// where others cannot open its buffer. Both ranks choose between this way and kernels by the message's bytes and the
// transport of their link, which are equal on both. Where sizes differ, or one of the two uses kernels after all, one
// of the ranks sees it and the communicator fails.
//
// Thread safety: begin() and the put functions by one caller at a time; the rest from any thread.
// Ownership: the context outlives it; it owns streams, mappings and bounce buffers. Destroy it when passed() ==
// groups(), or a fault is latched, and the peers are done with this rank's memory.
// Invariant: copy streams hold only copies whose both ends are ready, and waits for these copies. So streams that share
// a hardware queue with them get on.
#pragma once
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "core/connect/links.h"
#include "core/copy_engine/send_order.h"
#include "core/launch/stream_ops.h"
#include "core/memory/registration.h"
#include "core/peer/fault.h"
#include "core/peer/peer_pages.h"
#include "core/peer/peers.h"
#include "core/plan/copy_engine_limits.h"
#include "core/plan/task.h"
#include "core/progress/device_watch.h"
#include "core/progress/proxy.h"
#include "core/progress/quiescence.h"
#include "gpu/device.h"
#include "proto/format/copy.h"

namespace gpucoll::core {

struct CopyContext {
  gpu::Device& device;
  Fault& fault;
  const Peers& peers;
  const Links& links;
  Exports& exports;
  CopyEngineLimits limits;                    // of messages that go by copy engine
  uint64_t piece_bytes;                       // of a bounce buffer
  const DeviceState* device_state = nullptr;  // null: nobody watches the device
};

class CopyMessages final : public ProxyWork, public StreamOps, public InFlight {
 public:
  CopyMessages(const CopyContext& context, PeerPages& pages);
  ~CopyMessages() override;
  CopyMessages(const CopyMessages&) = delete;
  CopyMessages& operator=(const CopyMessages&) = delete;

  // Takes the messages of a group that go by copy engine, and returns whether there are any; then *rest gets what
  // remains.
  // REQUIRES: the messages' links are made; no stream is capturing. On failure the communicator must fail.
  Result<bool> begin(const TaskQueue& queue, TaskQueue* rest);
  // Counts the messages of a group of which it takes none. On failure the communicator must fail.
  Status count_messages(const TaskQueue& queue) { return take(queue); }
  // Put the part of the group that was begun last on a stream. put_ready(), with step 0, tells that the buffers may be
  // used from this point on. put_end() makes the stream wait until they have been used.
  Status put_ready(gpu::Stream stream, uint32_t step) override;
  Status put_waits(gpu::Stream, uint32_t) override { return {}; }
  bool has_ended() const noexcept override;
  Status put_end(gpu::Stream stream) override;

  // Return how many groups have had their waits put, and how many have passed these waits.
  uint64_t groups() const noexcept { return groups_.load(std::memory_order_relaxed); }
  uint64_t passed() const noexcept;
  // Returns how many groups have begun to be put: those whose end is held back (Launcher::advance) count.
  uint64_t groups_begun() const noexcept { return groups() + (putting_.load(std::memory_order_relaxed) ? 1 : 0); }
  bool device_failed() const noexcept { return context_.device_state && context_.device_state->failed(); }
  // Returns whether a group is under way, from the first word that is put for it on.
  bool in_flight() const noexcept override {
    return (putting_.load(std::memory_order_relaxed) || passed() < groups()) && !context_.fault.raised();
  }
  // Tells the peers whether this rank's host is kept out of starting copies (Proxy::is_kept_out()), for their reports.
  void tell_if_kept_out() noexcept;
  // Returns which message is waited for, for reports; "" for none.
  std::string waiting_for();
  // Looks for memory of peers that has been freed. Called now and then.
  void look_for_freed() noexcept;
  // Lets the streams go on that wait for messages, if the proxy is kept out (Proxy::is_kept_out()) and cannot do it. A
  // copy that it was about to start still comes. The watchdog calls it again and again once the communicator has
  // failed.
  void release_if_kept_out() noexcept;

  Progress progress() noexcept override;
  void tidy() noexcept override { imports_.close_dropped_at_rest(mutex_); }

 private:
  struct Message {
    uint64_t number, ordinal, bytes;
    uint8_t* buffer;
    uint64_t turn = 0;                        // of a send
    std::optional<ExportedPlace> place = {};  // of a receive into pinned memory; none: by bounce buffer
    uint64_t taken = 0;                       // bytes that have left the bounce buffer
    int64_t traced_from_ns = 0;               // of a receive that is recorded
  };
  // The messages of one direction with one peer. Kernel addresses are null until the first message by copy.
  struct Direction {
    int peer;
    bool p2p;
    uint64_t messages = 0, copies = 0;  // so far
    proto::CopyLane *own, *theirs;
    proto::CopyLane *own_kernel = nullptr, *their_kernel = nullptr;
    std::vector<Message> pending;  // in order: sends that are not started, receives that are not done
    uint64_t pieces = 0;           // how many have been moved, or taken
  };
  struct Sending : Direction {
    // The first pending message: its target, once known, and how much of it is on its way.
    uint8_t* target = nullptr;
    uint64_t piece_bytes = 0, moved = 0;
    uint64_t last_in_pieces = 0;    // number of the last message by bounce buffer
    uint64_t issued = 0;            // number of the last message whose copies are all on the stream
    uint64_t group = 0, round = 0;  // of the last group with messages by copy: its number, and how many messages it had
  };
  struct Receiving : Direction {
    gpu::Stream stream = nullptr;  // carries data out of the bounce buffer
    uint64_t posted = 0;
    uint8_t* bounce = nullptr;
    gpu::MemoryHandle bounce_handle = {};
  };
  // A word for the stream of the last begun group to store, or to wait for.
  struct Mark {
    uint64_t* word;  // kernel address
    uint64_t number;
  };

  Sending& sending(int peer);
  Receiving& receiving(int peer);
  bool is_kept_out(int peer) const noexcept;
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
  void release_all() noexcept;

  // The proxy calls these, all with the lock held.
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
  PeerPages& pages_;
  proto::CopyPage& page_;  // of this rank
  std::atomic<uint64_t> groups_{0};
  std::atomic<bool> putting_{false};  // part of a group has been put, but not its end
  std::vector<Mark> ready_, done_;    // the caller's: for each word the last number
  std::vector<Mark> ends_;            // as done_, but where the host finds the words
  std::atomic<bool> active_{false};   // progress() may have something to do
  int64_t locked_out_since_ns_ = 0;   // the watchdog's: since when it has found the lock taken; 0: it has not

  std::mutex mutex_;                               // guards what follows
  std::vector<std::unique_ptr<Sending>> sending_;  // by peer; null until the first message
  std::vector<std::unique_ptr<Receiving>> receiving_;
  gpu::Stream stream_ = nullptr, words_stream_ = nullptr;  // of all sends, and of the words that tell of them
  SendOrder send_order_;
  uint64_t groups_taken_ = 0, first_turn_ = 0, last_turn_ = 0;  // first_turn_: of the group taken last
  Imports imports_;
};

}  // namespace gpucoll::core
