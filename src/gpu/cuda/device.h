// One GPU through CUDA: its primary context, memory, streams and launches.
//
// Thread safety: as gpu::Device. Ownership: keeps the primary context for as long as the process lives and never
// destroys anything at exit (the driver may be gone by then). Invariant: every call runs with this GPU's context
// current and leaves the calling thread with the context it had.
#pragma once
#include <atomic>
#include <mutex>
#include <set>
#include <vector>

#include "gpu/cuda/driver.h"
#include "gpu/cuda/imports.h"
#include "gpu/device.h"

namespace gpucoll::gpu::cuda {

class CudaDevice final : public Device {
 public:
  // The first to touch the GPU `index`. REQUIRES: index < device_count(), driver() != nullptr.
  static Result<CudaDevice*> create(int index);

  const Identity& identity() const override { return identity_; }
  int index() const override { return index_; }
  std::string pci_address() const override;
  Defaults defaults() const override { return kGpuDefaults; }
  int warp_threads() const override { return 32; }
  bool keeps_lines_whole() const override { return keeps_lines_whole_; }
  bool has_native_atomics(const Identity& peer) const override;
  bool uses_host_page_tables() const override { return uses_host_page_tables_; }
  bool has_signals() const override { return has_signals_; }
  bool shares_between_processes() const override;
  int resident_blocks() const override { return multiprocessors_; }  // the largest kernels fill one with a block

  Status health() override;
  Result<void*> allocate(size_t bytes) override;
  void release(void* kernel_address) noexcept override;
  Result<void*> user_allocate(size_t bytes) override;
  Status user_release(void* user_address) override;

  Result<HostBlock> allocate_host(size_t bytes) override;
  void release_host(const HostBlock& block) noexcept override;
  Result<HostBlock> register_host(void* host, size_t bytes) override;
  void unregister_host(const HostBlock& block) noexcept override;

  Result<MemoryHandle> export_memory(void* kernel_address) override;
  Result<void*> open_memory(const MemoryHandle& handle) override;
  void close_memory(void* kernel_address) noexcept override;
  bool can_reach(const Identity& peer) const override;

  void* kernel_address(const void* user_address) const override { return const_cast<void*>(user_address); }
  PointerInfo classify_kernel(const void* address) const override;
  Status copy(void* dst, const void* src, size_t bytes) override;
  Status fill(void* dst, int byte, size_t bytes) override;
  Status upload(void* kernel_address, const void* host, size_t bytes) override;

  Result<Stream> create_stream() override;
  Result<Stream> create_urgent_stream() override;
  Result<Stream> create_waiting_stream() override;
  Status destroy_stream(Stream stream) override;
  uint64_t stream_id(Stream stream) noexcept override;
  Status synchronize(Stream stream) override;
  Status stream_wait(Stream stream, Stream other) override;

  Result<Event> create_event() override;
  void destroy_event(Event event) noexcept override;
  Status record(Event event, Stream stream) override;
  Result<bool> reached(Event event) override;
  Status wait_event(Stream stream, Event event) override;

  Status copy_async(void* dst, const void* src, size_t bytes, Stream stream) override;
  Status write_value(Stream stream, uint64_t* word, uint64_t value) override;
  Status wait_value(Stream stream, const uint64_t* word, uint64_t value, const uint32_t* abort) override;

  Result<uint64_t> capture_of(Stream stream) override;
  Status begin_capture(Stream stream) override;
  Result<Graph> end_capture(Stream stream) override;
  Status launch_graph(Graph graph, Stream stream) override;
  Status destroy_graph(Graph graph) override;
  Status keep_with_graph(Stream stream, void (*release)(void*), void* argument) override;

  Status prepare(const Kernel& kernel) override;
  Status launch(const Kernel& kernel, const proto::Plan& plan, int blocks, int threads, Stream stream) override;
  Result<CachedLaunch> keep_launches(std::span<const Launch> launches, Stream stream) override;
  Status launch_kept(CachedLaunch launch, Stream stream) override;
  void drop_launch(CachedLaunch launch) noexcept override;

  CUcontext context() const noexcept { return context_; }

 private:
  CudaDevice(int index, CUcontext context) : index_(index), context_(context) {}

  Status set_up();
  bool has_queues() const;
  // Returns the blocks of a cluster in which kernels like this one can be started; 1: without clusters.
  int cluster_size_for(const Kernel& kernel) const;
  // Returns the blocks of a cluster for a launch of so many blocks, once a kernel has been prepared.
  unsigned cluster_of(int blocks) const noexcept;
  Status clear(void* memory, size_t bytes);
  Result<void*> reach_own(const struct CudaHandle& handle);
  cudaStream_t copy_stream();
  Result<Stream> create_stream_below_highest(int steps);
  Result<cudaEvent_t> take_event();
  Status record_foreign(cudaStream_t other, CUcontext owner, cudaStream_t waiter);
  Result<bool> capturing(Stream stream);
  Status check_signals() const;

  const int index_;
  const CUcontext context_;
  Identity identity_{};
  bool keeps_lines_whole_ = false, uses_host_page_tables_ = false;
  int multiprocessors_ = 0;
  bool has_signals_ = false;        // 64-bit words as signals between streams
  cudaStream_t service_ = nullptr;  // for what must not wait for the application's work
  Imports imports_;
  std::mutex mutex_;
  std::vector<cudaEvent_t> events_;  // free ones, for stream_wait()
  std::set<const void*> prepared_;   // kernels
  std::atomic<int> cluster_size_ = 1;
};

}  // namespace gpucoll::gpu::cuda
