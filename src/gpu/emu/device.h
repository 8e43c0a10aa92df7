// One emulated device: its identity, and its way into the memory and streams that all of them share.
//
// Thread safety: as gpu::Device. Ownership: memory and streams belong to the platform and outlive the devices.
// Invariants: devices of a node differ in the last byte of their uuid; device 0 is the one that processes share.
#pragma once
#include <mutex>
#include <set>
#include <vector>

#include "gpu/device.h"
#include "gpu/emu/failure.h"
#include "gpu/emu/memory.h"
#include "gpu/emu/streams.h"

namespace gpucoll::gpu::emu {

class EmuDevice final : public Device {
 public:
  EmuDevice(int index, Memory& memory, Streams& streams);

  const Identity& identity() const override { return identity_; }
  int index() const override { return index_; }
  Defaults defaults() const override { return kEmulatedDefaults; }
  int warp_threads() const override { return 1; }
  bool keeps_lines_whole() const override { return true; }  // as far as proto/platform.h promises
  bool has_native_atomics(const Identity& peer) const override { return can_reach(peer); }
  bool uses_host_page_tables() const override { return true; }
  bool has_signals() const override { return true; }
  bool shares_between_processes() const override;
  int resident_blocks() const override { return 1 << 20; }  // threads of the host; emu_blocks is for each process

  Status health() override { return health_of(index_); }
  Result<void*> allocate(size_t bytes) override { return memory_.allocate(bytes); }
  void release(void* kernel_address) noexcept override;
  Result<void*> user_allocate(size_t bytes) override { return memory_.user_allocate(bytes, index_); }
  Status user_release(void* user_address) override;

  Result<HostBlock> allocate_host(size_t bytes) override;
  void release_host(const HostBlock& block) noexcept override;
  Result<HostBlock> register_host(void* host, size_t bytes) override { return HostBlock{host, host, bytes}; }
  void unregister_host(const HostBlock&) noexcept override {}

  Result<MemoryHandle> export_memory(void* address) override { return memory_.export_memory(address); }
  Result<void*> open_memory(const MemoryHandle& handle) override { return memory_.open_memory(handle); }
  void close_memory(void* address) noexcept override;
  bool can_reach(const Identity& peer) const override;

  void* kernel_address(const void* address) const override { return memory_.kernel_address(address); }
  PointerInfo classify_kernel(const void* address) const override { return memory_.classify_kernel(address); }
  Status copy(void* dst, const void* src, size_t bytes) override;
  Status fill(void* dst, int byte, size_t bytes) override;
  Status upload(void* kernel_address, const void* host, size_t bytes) override;

  Result<Stream> create_stream() override { return streams_.create(false, index_); }
  Result<Stream> create_urgent_stream() override { return streams_.create(false, index_); }
  Result<Stream> create_waiting_stream() override { return streams_.create(false, index_); }
  Status destroy_stream(Stream stream) override;
  // A stream that goes has ended.
  uint64_t stream_id(Stream stream) noexcept override { return reinterpret_cast<uintptr_t>(stream) + 1; }
  Status synchronize(Stream stream) override;
  Status stream_wait(Stream stream, Stream other) override { return streams_.wait(own(stream), own(other)); }

  Result<gpu::Event> create_event() override { return static_cast<gpu::Event>(new Event); }
  void destroy_event(gpu::Event event) noexcept override { delete static_cast<Event*>(event); }
  Status record(gpu::Event event, Stream stream) override;
  Status wait_event(Stream stream, gpu::Event event) override;
  Result<bool> reached(gpu::Event event) override;

  Status copy_async(void* dst, const void* src, size_t bytes, Stream stream) override;
  Status write_value(Stream stream, uint64_t* word, uint64_t value) override;
  Status wait_value(Stream stream, const uint64_t* word, uint64_t value, const uint32_t* abort) override;

  Result<uint64_t> capture_of(Stream stream) override { return streams_.capture_of(own(stream)); }
  Status begin_capture(Stream stream) override { return streams_.begin_capture(own(stream)); }
  Result<Graph> end_capture(Stream stream) override { return streams_.end_capture(own(stream)); }
  Status launch_graph(Graph graph, Stream stream) override;
  Status destroy_graph(Graph graph) override { return streams_.destroy_graph(graph); }
  Status keep_with_graph(Stream stream, void (*release)(void*), void* argument) override {
    return streams_.keep(own(stream), release, argument);
  }
  Status prepare(const Kernel& kernel) override;
  Status launch(const Kernel& kernel, const proto::Plan& plan, int blocks, int threads, Stream stream) override;
  Result<CachedLaunch> keep_launches(std::span<const Launch> launches, Stream stream) override;
  Status launch_kept(CachedLaunch launch, Stream stream) override;
  void drop_launch(CachedLaunch launch) noexcept override { delete static_cast<KeptWork*>(launch); }

 private:
  using KeptWork = std::vector<Work>;
  void rest_as_a_gpu();
  Status put(Stream stream, const Work& work);
  Stream own(Stream stream) const { return stream != nullptr ? stream : default_; }
  Result<void*> resolve(const void* address, size_t bytes);
  bool is_prepared(const Kernel& kernel);
  Status check_launch(const Kernel& kernel, int blocks, int threads);

  const int index_;
  const Identity identity_;
  Memory& memory_;
  Streams& streams_;
  const Stream default_;
  std::mutex mutex_;
  std::set<void (*)(const EmuBlock&, const proto::Plan&)> prepared_;  // kernels
};

}  // namespace gpucoll::gpu::emu
