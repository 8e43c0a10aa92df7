// Holds what kernels know of a communicator, in device memory: proto::DeviceComm and the tables that it points to.
//
// The tables are written once when they are made, and again where connections are added. Connectors that are there may
// be in use by kernels, and are never touched.
// Thread safety: one caller at a time. Ownership: owns the device memory; the device outlives it.
#pragma once
#include <memory>
#include <span>
#include <vector>

#include "core/connect/nodes.h"
#include "gpu/device.h"
#include "net/transport.h"
#include "proto/format/doorbell.h"
#include "proto/format/line_mesh.h"

namespace gpucoll::core {

struct DeviceTablesOptions {
  int rank;
  Nodes nodes;
  int channels[proto::kLinkKinds];
  proto::ConnectionShape slots[proto::kLinkKinds];
  proto::FaultLatch* latch;   // kernel address
  proto::Doorbell* doorbell;  // kernel address
  bool network_mesh = false;
};

// A connector and where it belongs.
struct PlacedConnector {
  proto::LinkKind kind;
  net::Side side;
  int channel, peer;
  proto::Connector connector;
};

class DeviceTables {
 public:
  static Result<std::unique_ptr<DeviceTables>> create(gpu::Device& device, const DeviceTablesOptions& options);
  ~DeviceTables();
  DeviceTables(const DeviceTables&) = delete;
  DeviceTables& operator=(const DeviceTables&) = delete;

  // Kernel address.
  proto::DeviceComm* comm() const { return reinterpret_cast<proto::DeviceComm*>(base_); }
  // REQUIRES: each was empty before.
  Status add(std::vector<PlacedConnector> connectors);
  // buffers: the buffer of every rank. REQUIRES: there was no mesh.
  Status set_mesh(std::span<void* const> buffers);
  Status set_line_mesh(std::span<void* const> buffers);
  size_t bytes() const { return layout_.end; }

 private:
  // Byte offsets of the parts.
  struct Layout {
    size_t ring_ranks, line_mesh, connectors[proto::kLinkKinds][2], end;
  };
  DeviceTables(gpu::Device& device, const DeviceTablesOptions& options);
  static Layout layout_of(const DeviceTablesOptions& options);
  int n_ranks() const { return options_.nodes.n_ranks(); }
  std::vector<uint8_t> first_image() const;
  void set_up(proto::ChannelComm* comm, int channel) const;
  size_t offset_of(const PlacedConnector& placed) const;
  Status set_buffers(std::span<void* const> buffers, size_t channels, size_t offset, size_t stride);

  gpu::Device& device_;
  const DeviceTablesOptions options_;
  const Layout layout_;
  uint8_t* base_ = nullptr;
  int next_[proto::kMaxChannels], prev_[proto::kMaxChannels];  // in the rings
};

}  // namespace gpucoll::core
