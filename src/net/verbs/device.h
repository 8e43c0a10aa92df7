// An RDMA device with its port and address (LID, or GID of RoCE).
//
// Thread safety: any function from any thread. Ownership: a device outlives its regions and queue pairs.
#pragma once
#include <array>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "net/verbs/library.h"

namespace gpucoll::net {

class VerbsDevice {
 public:
  // Opens a device for a port; 0: for the first one that can be used. Errors: unsupported; invalid_argument, where a
  // parameter makes no sense.
  static Result<std::unique_ptr<VerbsDevice>> open(const VerbsLibrary& library, ibv_device* device, int port);

  const VerbsLibrary& library() const noexcept { return library_; }
  ibv_context* context() const noexcept { return context_; }
  ibv_pd* domain() const noexcept { return domain_; }
  // Returns "mlx5_0, port 1", for sentences.
  const std::string& name() const noexcept { return name_; }
  int port() const noexcept { return port_; }
  // Returns its directory in sysfs (topo/pci.h); empty: it is none of the PCI bus.
  const std::string& directory() const noexcept { return directory_; }
  const ibv_port_attr& attributes() const noexcept { return attributes_; }
  // Returns how many Mb/s the port carries; 0: it does not say.
  uint64_t rate() const noexcept;
  // Returns whether the port has Ethernet below it: peers are then known by GIDs.
  bool roce() const noexcept { return attributes_.link_layer == IBV_LINK_LAYER_ETHERNET; }
  const ibv_gid& gid() const noexcept { return gid_; }
  int gid_index() const noexcept { return gid_index_; }
  // Returns how many work requests a queue takes.
  int most_requests() const noexcept { return most_requests_; }
  // Returns what the port is now: "active", "down".
  const char* port_state() const noexcept;

  // A peer's device as connections name it: GID and LID.
  using PeerName = std::array<uint8_t, 18>;
  // Remembers that a peer's device has not answered, which has taken seconds to find out: for five minutes no
  // connection to it is tried again.
  void remember_silent(const PeerName& peer);
  // Errors: remote, where the peer's device is remembered.
  Status expect_answer(const PeerName& peer);
  // For tests.
  void forget_silent();

  ~VerbsDevice();
  VerbsDevice(const VerbsDevice&) = delete;
  VerbsDevice& operator=(const VerbsDevice&) = delete;

 private:
  explicit VerbsDevice(const VerbsLibrary& library) : library_(library) {}
  Status use_port(int port);
  Status choose_gid();

  const VerbsLibrary& library_;
  ibv_context* context_ = nullptr;
  ibv_pd* domain_ = nullptr;
  std::string name_, directory_;
  int port_ = 0, gid_index_ = 0, most_requests_ = 0;
  ibv_port_attr attributes_ = {};
  ibv_gid gid_ = {};
  std::mutex mutex_;  // guards what follows
  std::map<PeerName, std::chrono::steady_clock::time_point> silent_;
};

// Host memory that the device may read, and peers that know its key may write.
class MemoryRegion {
 public:
  // `peers_write`: else the device only reads it. Errors: out_of_memory, system.
  static Result<MemoryRegion> create(VerbsDevice& device, void* data, size_t bytes, bool peers_write);
  uint32_t local_key() const noexcept { return region_->lkey; }
  uint32_t remote_key() const noexcept { return region_->rkey; }

 private:
  struct Deregister {
    const VerbsLibrary* library;
    void operator()(ibv_mr* region) const noexcept { library->dereg_mr(region); }
  };
  explicit MemoryRegion(std::unique_ptr<ibv_mr, Deregister> region) : region_(std::move(region)) {}
  std::unique_ptr<ibv_mr, Deregister> region_;
};

}  // namespace gpucoll::net
