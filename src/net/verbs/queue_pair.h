// A reliable connection (RC queue pair) with one completion queue, polled without waiting.
//
// Receives carry no memory: peers write by RDMA, and what comes here is immediate data. The pair posts a receive again
// as soon as its completion has been polled.
// Thread safety: one caller at a time. Ownership: borrows the device.
#pragma once
#include <chrono>
#include <memory>
#include <optional>

#include "net/verbs/device.h"

namespace gpucoll::net {

// Where a queue pair is reached: bytes that the other side reads.
struct QueuePairAddress {
  uint8_t gid[16];
  uint32_t number;         // of the queue pair
  uint32_t packet_number;  // of its first packet
  uint16_t lid;
  uint8_t roce;  // whether there is Ethernet below
  uint8_t mtu;   // ibv_mtu
};

struct Completion {
  bool received;       // else what this side has sent is acknowledged
  uint64_t id;         // of what this side has sent
  bool written;        // it has come by an RDMA write, else by a send
  uint32_t immediate;  // of what has come
  uint32_t bytes;      // of an RDMA write that has come
};

class QueuePair {
 public:
  // `sends` and `receives` are how many may be outstanding. Errors: unsupported, system.
  static Result<std::unique_ptr<QueuePair>> create(VerbsDevice& device, int sends, int receives);
  ~QueuePair();
  QueuePair(const QueuePair&) = delete;
  QueuePair& operator=(const QueuePair&) = delete;

  // Ends the queue pair: from then on its device neither reads nor writes memory for it. Nothing else may be called
  // then. Errors: system, where the device keeps it; calling it again tries it again.
  Status destroy();
  QueuePairAddress address() const noexcept;
  // Returns how many bytes a packet carries. REQUIRES: connected.
  uint32_t packet_bytes() const noexcept { return packet_bytes_; }
  // Lets messages of the peer come, and may send to it: what is sent before the peer has connected is lost, and comes
  // only after a time-out. Errors: remote, system.
  Status connect(const QueuePairAddress& peer);

  struct Local {
    const void* data;
    uint32_t bytes;
    uint32_t key;
  };
  struct Remote {
    uint64_t address;
    uint32_t key;
  };
  // Writes into the peer's memory; nobody is told. REQUIRES: room; another function of this pair sends behind it.
  Status write(const Local& from, const Remote& to);
  // Writes into the peer's memory and hands `immediate` to the peer, behind the data.
  Status write_with_immediate(const Local& from, const Remote& to, uint32_t immediate, uint64_t id);
  Status send_immediate(uint32_t immediate, uint64_t id);
  // Returns whether there is a completion, and which. Errors: remote, what has broken the connection.
  Result<bool> poll(Completion* completion);

 private:
  explicit QueuePair(VerbsDevice& device) : device_(device) {}
  Status make(int sends, int receives);
  Status reset_to_init();
  Status receive_again();
  Status post(ibv_send_wr* request);
  Status failure(const ibv_wc& completion) const;
  Status flushed();

  VerbsDevice& device_;
  ibv_cq* queue_ = nullptr;
  ibv_qp* pair_ = nullptr;
  uint32_t packet_number_ = 0, packet_bytes_ = 0;
  // When the first request was given up because another one has failed; that one's completion may come later.
  std::optional<std::chrono::steady_clock::time_point> flushed_at_;
  bool inlines_ = false;  // takes a note's bytes with the request
};

}  // namespace gpucoll::net
