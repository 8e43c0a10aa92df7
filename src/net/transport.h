// How the ring buffers between two ranks are placed and reached: one interface for every transport.
//
// A link is one direction between two ranks, with a ring buffer (lane) for each channel that uses it. Each rank makes
// its end, both exchange the ends' blobs (by any means), each connects with the other's blob until the end is
// established, and from then on kernels move steps through the proto::Connectors. Over p2p and shm the sender's kernels
// store into memory that the receiver's kernels load from. Over tcp and verbs each side has such memory of its own, and
// the hosts move the steps between them: progress().
//
// Transports reach device memory through a MemoryPort that core passes down. Thread safety: one caller at a time per
// link; finish(), unacknowledged() and peer_end() read what progress() writes, so the caller serialises them with it.
// Ownership: the caller owns ends; an end releases its memory when destroyed, so the peer must be done with it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/status.h"
#include "net/mesh_lines.h"
#include "proto/format/connection.h"

namespace gpucoll::net {

// The plain bytes that one end tells the other.
struct LinkBlob {
  uint8_t bytes[160];
};

// Memory as transports need it; core implements it over the device.
class MemoryPort {
 public:
  virtual ~MemoryPort() = default;
  // Zeroed device memory (kernel address), and the handle that lets the peer open it.
  virtual Result<void*> allocate(size_t bytes, LinkBlob* handle) = 0;
  virtual void release(void* kernel_address) noexcept = 0;
  // The peer's memory: kernel address. Errors: whatever keeps this device from reaching it.
  virtual Result<void*> open(const LinkBlob& handle) = 0;
  virtual void close(void* kernel_address) noexcept = 0;
  // Makes shared host memory visible to kernels: kernel address.
  virtual Result<void*> map_host(void* host, size_t bytes) = 0;
  virtual void unmap_host(void* host, void* kernel_address, size_t bytes) noexcept = 0;
  // Returns the directory in sysfs of the device, by which transports find network devices near it (topo/pci.h); empty:
  // it is not on the PCI bus.
  virtual std::string pci_directory() const { return {}; }
};

enum class Side { send, receive };

struct LinkShape {
  int lanes;
  proto::ConnectionShape slots;
  MeshMemory mesh = {};  // if there is any: the link brings its lines, instead of steps, and has no connectors
};

// An end has nothing left to move; or something, once the other side or the kernels go on; or it has just moved some.
enum class StepProgress { none, pending, moved };

// The other end tells this when its rank closes the communicator in order.
struct PeerEnd {
  uint64_t messages;  // of send and receive that its rank has moved; proto::kUnknownMessages
  bool all_taken;     // it has drained all that this end's kernels have filled
};

class LinkEnd {
 public:
  virtual ~LinkEnd() = default;
  virtual const LinkBlob& blob() const = 0;
  virtual Status connect(const LinkBlob& peer) = 0;
  // Returns whether the ends must try the connection once both have connected, since only then they know that they
  // reach each other.
  virtual bool needs_trial() const { return false; }
  // Sends what shows the other end that it is reached. REQUIRES: both ends are connected.
  virtual Status begin_trial() { return {}; }
  // Returns whether kernels may use it; before the trial of an end that needs one, whether the trial may begin. Never
  // waits. REQUIRES: connected. Errors: what keeps the ends from each other.
  virtual Result<bool> established() { return true; }
  // At its first step. REQUIRES: connected.
  virtual proto::Connector connector(int lane) const = 0;
  // Returns whether the host must move the steps.
  virtual bool needs_progress() const { return false; }
  // Moves the steps that can be moved without waiting. REQUIRES: established. Errors: what broke the connection, from
  // then on.
  virtual Result<StepProgress> progress() { return StepProgress::none; }
  // Returns whether the ends tell each other when their ranks close in order. An end without that is a failure.
  virtual bool tells_end() const { return false; }
  // Tells the other end that this one moves nothing more. progress() sends it. REQUIRES: progress() has found nothing
  // to move, and no kernel runs; once.
  virtual void finish(uint64_t /*messages*/) {}
  // Returns how many bytes that progress() sends, or has sent, the other side's system has not acknowledged: they are
  // lost where this process ends now.
  virtual size_t unacknowledged() const { return 0; }
  // Returns what the other end has told by finish(); empty until that has come, behind all its steps.
  virtual std::optional<PeerEnd> peer_end() const { return {}; }
};

class Transport {
 public:
  virtual ~Transport() = default;
  virtual const char* name() const = 0;
  // Returns why this process cannot use it at all.
  virtual Status usable() { return {}; }
  virtual Result<std::unique_ptr<LinkEnd>> make_end(Side side, const LinkShape& shape, MemoryPort& memory) = 0;
};

// Device memory of the receiver, written directly by the sender's kernels (peer access, CUDA IPC).
Transport& p2p_transport();
// Host memory that both map; for devices that cannot reach each other.
Transport& shm_transport();
// Sockets, between any two nodes: the steps lie in host memory of either side.
Transport& tcp_transport();
// RDMA, between any two nodes that have devices for it: the steps lie in host memory of either side.
Transport& verbs_transport();

}  // namespace gpucoll::net
