// The device's memory as the transports see it. Thread safety: as the device's.
#pragma once
#include <cstring>

#include "gpu/device.h"
#include "net/transport.h"
#include "topo/pci.h"

namespace gpucoll::core {

class DeviceMemoryPort final : public net::MemoryPort {
 public:
  explicit DeviceMemoryPort(gpu::Device& device) : device_(device) {}

  Result<void*> allocate(size_t bytes, net::LinkBlob* handle) override {
    GC_TRY_AS(void* memory, device_.allocate(bytes));
    auto exported = device_.export_memory(memory);
    if (!exported) {
      device_.release(memory);
      return std::move(exported).status();
    }
    static_assert(sizeof(gpu::MemoryHandle) <= sizeof(net::LinkBlob));
    std::memcpy(handle->bytes, exported->bytes, sizeof exported->bytes);
    return memory;
  }
  void release(void* kernel_address) noexcept override { device_.release(kernel_address); }
  Result<void*> open(const net::LinkBlob& handle) override {
    gpu::MemoryHandle h;
    std::memcpy(h.bytes, handle.bytes, sizeof h.bytes);
    return device_.open_memory(h);
  }
  void close(void* kernel_address) noexcept override { device_.close_memory(kernel_address); }
  Result<void*> map_host(void* host, size_t bytes) override {
    GC_TRY_AS(gpu::HostBlock block, device_.register_host(host, bytes));
    return block.kernel;
  }
  std::string pci_directory() const override {
    const std::string address = device_.pci_address();
    return address.empty() ? address : topo::pci_directory("/sys/bus/pci/devices/" + address);
  }
  void unmap_host(void* host, void* kernel_address, size_t bytes) noexcept override {
    device_.unregister_host({host, kernel_address, bytes});
  }

 private:
  gpu::Device& device_;
};

}  // namespace gpucoll::core
