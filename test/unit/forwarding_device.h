// A device that does all that another one does: for tests that look at some of it, or change it.
#pragma once
#include "gpu/device.h"

namespace gpucoll_test {

namespace gpu = gpucoll::gpu;
using gpucoll::Result;
using gpucoll::Status;

class ForwardingDevice : public gpu::Device {
 public:
  using Stream = gpu::Stream;
  using Event = gpu::Event;
  using Graph = gpu::Graph;
  explicit ForwardingDevice(gpu::Device& to) : to_(to) {}

  const gpu::Identity& identity() const override { return to_.identity(); }
  int index() const override { return to_.index(); }
  Defaults defaults() const override { return to_.defaults(); }
  int warp_threads() const override { return to_.warp_threads(); }
  bool keeps_lines_whole() const override { return to_.keeps_lines_whole(); }
  bool has_native_atomics(const gpu::Identity& peer) const override { return to_.has_native_atomics(peer); }
  bool uses_host_page_tables() const override { return to_.uses_host_page_tables(); }
  bool has_signals() const override { return to_.has_signals(); }
  bool shares_between_processes() const override { return to_.shares_between_processes(); }
  int resident_blocks() const override { return to_.resident_blocks(); }
  Status health() override { return to_.health(); }

  Result<void*> allocate(size_t bytes) override { return to_.allocate(bytes); }
  void release(void* address) noexcept override { to_.release(address); }
  Result<void*> user_allocate(size_t bytes) override { return to_.user_allocate(bytes); }
  Status user_release(void* address) override { return to_.user_release(address); }
  Result<gpu::HostBlock> allocate_host(size_t bytes) override { return to_.allocate_host(bytes); }
  void release_host(const gpu::HostBlock& block) noexcept override { to_.release_host(block); }
  Result<gpu::HostBlock> register_host(void* host, size_t bytes) override { return to_.register_host(host, bytes); }
  void unregister_host(const gpu::HostBlock& block) noexcept override { to_.unregister_host(block); }
  Result<gpu::MemoryHandle> export_memory(void* address) override { return to_.export_memory(address); }
  Result<void*> open_memory(const gpu::MemoryHandle& handle) override { return to_.open_memory(handle); }
  void close_memory(void* address) noexcept override { to_.close_memory(address); }
  bool can_reach(const gpu::Identity& peer) const override { return to_.can_reach(peer); }
  void* kernel_address(const void* address) const override { return to_.kernel_address(address); }
  gpu::PointerInfo classify_kernel(const void* address) const override { return to_.classify_kernel(address); }
  Status copy(void* dst, const void* src, size_t bytes) override { return to_.copy(dst, src, bytes); }
  Status fill(void* dst, int byte, size_t bytes) override { return to_.fill(dst, byte, bytes); }
  Status upload(void* address, const void* host, size_t bytes) override { return to_.upload(address, host, bytes); }

  Result<Stream> create_stream() override { return to_.create_stream(); }
  Result<Stream> create_urgent_stream() override { return to_.create_urgent_stream(); }
  Result<Stream> create_waiting_stream() override { return to_.create_waiting_stream(); }
  Status destroy_stream(Stream stream) override { return to_.destroy_stream(stream); }
  uint64_t stream_id(Stream stream) noexcept override { return to_.stream_id(stream); }
  Status synchronize(Stream stream) override { return to_.synchronize(stream); }
  Status stream_wait(Stream stream, Stream other) override { return to_.stream_wait(stream, other); }
  Result<Event> create_event() override { return to_.create_event(); }
  void destroy_event(Event event) noexcept override { to_.destroy_event(event); }
  Status record(Event event, Stream stream) override { return to_.record(event, stream); }
  Status wait_event(Stream stream, Event event) override { return to_.wait_event(stream, event); }
  Result<bool> reached(Event event) override { return to_.reached(event); }
  Status copy_async(void* dst, const void* src, size_t bytes, Stream stream) override {
    return to_.copy_async(dst, src, bytes, stream);
  }
  Status write_value(Stream stream, uint64_t* word, uint64_t value) override {
    return to_.write_value(stream, word, value);
  }
  Status wait_value(Stream stream, const uint64_t* word, uint64_t value, const uint32_t* abort) override {
    return to_.wait_value(stream, word, value, abort);
  }
  Result<uint64_t> capture_of(Stream stream) override { return to_.capture_of(stream); }
  Status begin_capture(Stream stream) override { return to_.begin_capture(stream); }
  Result<Graph> end_capture(Stream stream) override { return to_.end_capture(stream); }
  Status launch_graph(Graph graph, Stream stream) override { return to_.launch_graph(graph, stream); }
  Status destroy_graph(Graph graph) override { return to_.destroy_graph(graph); }
  Status keep_with_graph(Stream stream, void (*release)(void*), void* argument) override {
    return to_.keep_with_graph(stream, release, argument);
  }
  Status prepare(const gpu::Kernel& kernel) override { return to_.prepare(kernel); }
  Status launch(const gpu::Kernel& kernel, const gpucoll::proto::Plan& plan, int blocks, int threads,
                Stream stream) override {
    return to_.launch(kernel, plan, blocks, threads, stream);
  }
  Result<gpu::CachedLaunch> keep_launches(std::span<const gpu::Launch> launches, Stream stream) override {
    return to_.keep_launches(launches, stream);
  }
  Status launch_kept(gpu::CachedLaunch launch, Stream stream) override { return to_.launch_kept(launch, stream); }
  void drop_launch(gpu::CachedLaunch launch) noexcept override { to_.drop_launch(launch); }

 private:
  gpu::Device& to_;
};

}  // namespace gpucoll_test
