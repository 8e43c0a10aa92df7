// The device runtime: one small interface, two implementations (cuda, emu).
//
// A Platform is a kind of device (GPUs through CUDA, or the emulated device); a Device is one of them.
// Nothing here touches a GPU before open() of a device or the classification of a device pointer asks for it.
//
// Addresses. A user address is what the application holds. A kernel address is what a kernel may use: the same on
// CUDA, an alias mapping on the emulated device (whose user mapping faults on host access in strict mode).
// allocate(), open_memory() and HostBlock::kernel give kernel addresses; user_allocate() gives a user address.
//
// Thread safety: every function may be called from any thread. Ownership: platforms and devices live until the
// process ends; whoever allocates releases. No function leaves another device current on the calling thread.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>

#include "base/status.h"
#include "proto/format/plan.h"

namespace gpucoll::gpu {

enum class MemoryKind : uint8_t {
  host,     // plain memory: not known to the device runtime
  pinned,   // page-locked host memory known to the device
  device,   // memory of a device
  managed,  // migrates between host and device
};

// The blocks in which CUDA's driver gives memory; smaller allocations share one. Other processes map an allocation that
// is not a multiple of it with smaller pages, and copies through these are slower by up to a third (docs/measurements).
inline constexpr size_t kMemoryBlock = size_t{2} << 20;

// Describes the memory at a pointer.
struct PointerInfo {
  MemoryKind kind = MemoryKind::host;
  int device = -1;             // index of the owning device, -1 for host memory and where nothing is allocated
  uint64_t buffer_id = 0;      // changes when the address is allocated anew
  const void* base = nullptr;  // start of the allocation (user address)
  size_t bytes = 0;            // its size; 0 where unknown
  bool exportable = false;     // another process may open it
  // Other allocations may lie in the same block of memory. A process that has opened one of them reaches this one by
  // kernels, but copies may be refused (gpu/cuda/imports.h).
  bool shares_block = false;
};

// Identifies a device across processes and nodes.
struct Identity {
  char kind[8];  // "cuda" or "emu"
  uint8_t uuid[16];
  char name[64];
  char bus_id[20];  // PCI address, "" for the emulated device
};

// A handle by which another process opens memory: plain bytes, valid on this node while the owner lives.
struct MemoryHandle {
  uint8_t bytes[112];
};

// Host memory that host and kernels both see. Page-locked on CUDA.
struct HostBlock {
  void* host = nullptr;
  void* kernel = nullptr;
  size_t bytes = 0;
};

// An ordered queue of work on a device: a cudaStream_t on CUDA, an emu stream otherwise.
using Stream = void*;
// Returns whether a stream is another one in each thread that names it: CUDA's cudaStreamPerThread.
inline bool is_stream_of_each_thread(Stream stream) noexcept {
  constexpr uintptr_t kPerThread = 2;
  return reinterpret_cast<uintptr_t>(stream) == kPerThread;
}
// A point in a stream's work, recorded again and again: a cudaEvent_t on CUDA.
using Event = void*;
// A recorded piece of work that can be launched many times.
using Graph = void*;

// One launch of a kernel, ready to be put into streams any number of times.
using CachedLaunch = void*;

// A kernel in both its forms; either may be null where it was not built.
struct EmuBlock;  // a block of CPU threads: gpu/emu/thread_block.h
struct Kernel {
  const char* name;
  const void* cuda;                                  // the __global__ function: void(proto::Plan)
  void (*emu)(const EmuBlock&, const proto::Plan&);  // called by every thread of every block
};

// One launch of a kernel. What it points to belongs to the caller.
struct Launch {
  const Kernel* kernel;
  const proto::Plan* plan;
  int blocks, threads;
};

class Device {
 public:
  virtual ~Device() = default;
  virtual const Identity& identity() const = 0;
  // Returns whether the kernels of this device run on processors of the host.
  bool is_emulated() const { return std::strcmp(identity().kind, "emu") == 0; }
  virtual int index() const = 0;
  // Returns where it is on the PCI bus, as "0000:17:00.0"; empty: it is not on one.
  virtual std::string pci_address() const { return {}; }
  // Defaults that suit a kind of device; the parameters of these names override them.
  struct CopyBytes {
    size_t two, more;  // of two ranks, of more; 0: never
  };
  static constexpr size_t kAsMessages = ~size_t{0};  // of what all ranks exchange: as copy_engine_bytes
  struct Defaults {
    int channels, threads, pair_channels;
    size_t buffer_bytes, one_shot_bytes, all_pairs_bytes;
    CopyBytes copy_engine_bytes, zero_copy_bytes;
    CopyBytes copy_exchange_bytes, copy_all_gather_bytes;  // of alltoalls, of allgathers
    CopyBytes copy_reduction_bytes;
    CopyBytes copy_reduction_piece;
    int linger_us;
  };
  static constexpr size_t kMiB = size_t{1} << 20;
  static constexpr Defaults kGpuDefaults = {32,
                                            512,
                                            32,
                                            4 * kMiB,
                                            2 * kMiB,
                                            kMiB,
                                            {32 * kMiB, 256 * kMiB},
                                            {kMiB, kMiB / 2},
                                            {kAsMessages, 128 * kMiB},
                                            {kAsMessages, 0},
                                            {256 * kMiB, 256 * kMiB},
                                            {128 * kMiB, 128 * kMiB},
                                            10};
  static constexpr Defaults kEmulatedDefaults = {2,
                                                 1,
                                                 4,
                                                 kMiB / 4,
                                                 kMiB / 64,
                                                 kMiB,
                                                 {kMiB, kMiB},
                                                 {kMiB / 64, kMiB / 64},
                                                 {kAsMessages, kAsMessages},
                                                 {kAsMessages, kAsMessages},
                                                 {4 * kMiB, 4 * kMiB},
                                                 {kMiB / 4, kMiB / 4},
                                                 200};
  virtual Defaults defaults() const = 0;
  // Threads that work in step (a warp): 32 on GPUs, 1 on the emulated device.
  virtual int warp_threads() const = 0;
  // Returns whether a warp's stores of 128 bytes leave it whole (LL128); what links do with them is theirs
  // (topo/link.h).
  virtual bool keeps_lines_whole() const = 0;
  // Returns whether atomic operations of its kernels on memory of the device `peer` take one trip over the link; false
  // also where nothing is known of the peer, as it is hidden from this process.
  virtual bool has_native_atomics(const Identity& peer) const = 0;
  // Returns whether it goes by the page tables of the host, with which it then shares a coherent link (C2C).
  virtual bool uses_host_page_tables() const = 0;
  // Returns whether streams can store words and wait for them: write_value(), wait_value().
  virtual bool has_signals() const = 0;
  // Returns whether kernels of several processes make progress side by side on it.
  virtual bool shares_between_processes() const = 0;
  // Returns ok as long as it works, else why it runs nothing any more, and never will in this process (on CUDA an error
  // that sticks, as by a kernel that accessed memory which is not there). Allowed while any stream is capturing. The
  // driver may hold it up while another thread's call waits for the device.
  virtual Status health() = 0;
  // Returns how many blocks of any of the runtime's kernels run on it at once, of all processes together; the others
  // wait until one of them ends.
  virtual int resident_blocks() const = 0;

  // Runtime-owned memory: zeroed, aligned to 128 bytes, exportable. Kernel address.
  virtual Result<void*> allocate(size_t bytes) = 0;
  virtual void release(void* kernel_address) noexcept = 0;
  // Memory for an application: user address. user_release answers invalid_argument for what it did not give out.
  virtual Result<void*> user_allocate(size_t bytes) = 0;
  virtual Status user_release(void* user_address) = 0;

  virtual Result<HostBlock> allocate_host(size_t bytes) = 0;  // zeroed
  virtual void release_host(const HostBlock& block) noexcept = 0;
  // Makes memory that the caller mapped (page aligned, shared between processes) visible to kernels.
  virtual Result<HostBlock> register_host(void* host, size_t bytes) = 0;
  virtual void unregister_host(const HostBlock& block) noexcept = 0;

  // REQUIRES: kernel_address is the start of memory from allocate(), or of an exportable allocation of the application.
  virtual Result<MemoryHandle> export_memory(void* kernel_address) = 0;
  // Kernel address of the memory's start. In the exporting process itself: the same address again.
  virtual Result<void*> open_memory(const MemoryHandle& handle) = 0;
  virtual void close_memory(void* kernel_address) noexcept = 0;
  // False when kernels here are known not to reach memory of the device `peer` directly; true also where only
  // open_memory() can tell.
  virtual bool can_reach(const Identity& peer) const = 0;

  // User address -> kernel address (identity for host memory and on CUDA).
  virtual void* kernel_address(const void* user_address) const = 0;
  // As Platform::classify, for memory of the application or from allocate() by its kernel address; base is a kernel
  // address, too.
  virtual PointerInfo classify_kernel(const void* kernel_address) const = 0;
  // Blocking copies and fills; addresses may be user, kernel or host addresses in any mix.
  virtual Status copy(void* dst, const void* src, size_t bytes) = 0;
  virtual Status fill(void* dst, int byte, size_t bytes) = 0;
  // Blocking copy of host memory to a kernel address that waits for no other work: not for the application's streams
  // (it may be called while kernels wait for this rank), and allowed while any stream is capturing.
  virtual Status upload(void* kernel_address, const void* host, size_t bytes) = 0;

  virtual Result<Stream> create_stream() = 0;
  // Creates a stream whose work never stands behind that of others, though these may wait for it.
  virtual Result<Stream> create_urgent_stream() = 0;
  // Creates a stream for work that waits for other ranks: it shares a queue of the hardware with such streams only.
  virtual Result<Stream> create_waiting_stream() = 0;
  virtual Status destroy_stream(Stream stream) = 0;
  // Returns a number of the stream's own, by which another one is told from it that has got its handle since, unless
  // the first one had ended by then; 0 where the runtime does not tell.
  virtual uint64_t stream_id(Stream stream) noexcept = 0;
  virtual Status synchronize(Stream stream) = 0;
  // Makes everything put into `stream` later wait for what is in `other` now. Where `other` is capturing, `stream`
  // joins the capture.
  virtual Status stream_wait(Stream stream, Stream other) = 0;

  // Events outlive captures: recording one in a capturing stream, and waiting for one there that was recorded outside,
  // happens at each launch of the graph (CUDA: cudaEventRecordExternal, cudaEventWaitExternal). A wait for an event
  // that was never recorded passes. destroy_event must not come before the graphs that use it are gone.
  virtual Result<Event> create_event() = 0;
  virtual void destroy_event(Event event) noexcept = 0;
  virtual Status record(Event event, Stream stream) = 0;
  virtual Status wait_event(Stream stream, Event event) = 0;
  // Returns whether everything before the event has ended. REQUIRES: recorded, outside of captures.
  virtual Result<bool> reached(Event event) = 0;

  // Copies between any kernel or host (page-locked) addresses in stream order, by a copy engine.
  virtual Status copy_async(void* dst, const void* src, size_t bytes, Stream stream) = 0;
  // Host-mapped or device words as signals between streams, devices and host (kernel addresses, 8 bytes, aligned):
  // stores value when the stream gets there, after everything before it; holds the stream until *word >= value
  // (compared as a signed difference). On the emulated device a wait ends as well when *abort (may be null) is not 0.
  virtual Status write_value(Stream stream, uint64_t* word, uint64_t value) = 0;
  virtual Status wait_value(Stream stream, const uint64_t* word, uint64_t value, const uint32_t* abort) = 0;

  // Returns 0 where the stream is not capturing, else a number that is the capture's own in this process.
  virtual Result<uint64_t> capture_of(Stream stream) = 0;
  virtual Status begin_capture(Stream stream) = 0;
  virtual Result<Graph> end_capture(Stream stream) = 0;
  virtual Status launch_graph(Graph graph, Stream stream) = 0;
  virtual Status destroy_graph(Graph graph) = 0;
  // Calls release(argument) once, on some thread, after the graph that `stream` is being captured into (and every
  // executable made from it) is gone, or the capture has failed. release must not call the device runtime.
  // REQUIRES: the stream is capturing.
  virtual Status keep_with_graph(Stream stream, void (*release)(void* argument), void* argument) = 0;
  // Gets the kernel ready (loads its code), so that a launch never blocks on loading. Cheap once done.
  virtual Status prepare(const Kernel& kernel) = 0;
  // Puts one launch into the stream: `blocks` blocks of `threads` threads. Does not wait. A null stream is the
  // device's default stream. REQUIRES: the kernel is prepared; the emulated device answers internal else.
  virtual Status launch(const Kernel& kernel, const proto::Plan& plan, int blocks, int threads, Stream stream) = 0;
  // Keep launches that follow each other, and launch them later, which takes less time than launch() (CUDA: an
  // executable graph). Plans are copied. launch_kept() REQUIRES: the stream is the same, and is not capturing. Keeping
  // and dropping may wait for kernels; a dropped launch may still run.
  virtual Result<CachedLaunch> keep_launches(std::span<const Launch> launches, Stream stream) = 0;
  virtual Status launch_kept(CachedLaunch launch, Stream stream) = 0;
  virtual void drop_launch(CachedLaunch launch) noexcept = 0;
};

class Platform {
 public:
  virtual ~Platform() = default;
  virtual const char* name() const = 0;  // "cuda" or "emu"
  // Number of devices, or why there are none in one sentence (code unsupported).
  virtual Result<int> device_count() = 0;
  // The device that this thread has chosen (cudaSetDevice); 0 until then.
  virtual int current_device() = 0;
  // Chooses the device of this thread (cudaSetDevice). Errors: invalid_argument, when there is no such device.
  virtual Status choose_device(int index) = 0;
  virtual Result<Device*> open(int index) = 0;
  // Tells what a user address points to. Never fails: what no device knows is host memory. Cheap (about 0.1 us on
  // CUDA).
  virtual PointerInfo classify(const void* user_address) = 0;
  // Returns whether it is device or managed memory; the cheapest question about an address.
  virtual bool is_device(const void* user_address) noexcept = 0;
};

// The emulated device, always there.
Platform& emu_platform();
// GPUs; null where CUDA was not built in.
Platform* cuda_platform();
// Returns the platform that the parameter `device` chooses, once a process. Errors: unsupported, when GPUs were asked
// for by name and there are none, with the reason.
Result<Platform*> platform();
// Returns whether a pointer is device memory of the chosen platform, without choosing or initialising anything: false
// until a device pointer can exist. Takes a few instructions for host pointers on the emulated device.
bool is_device_pointer(const void* user_address) noexcept;

// A first look at a pointer for code that may not call: inside [device_lo, device_hi) it is device memory; otherwise
// host memory unless `ask` is set, and then is_device_pointer() knows. Members change while others read them: read
// device_hi first (acquire), then device_lo, and compare with both (a range that is half written is then empty).
struct PointerHint {
  uintptr_t device_lo, device_hi;
  int ask;
};
// The one hint of the process. Has no effect and reads no parameter: its address may be taken at any time.
const PointerHint& pointer_hint() noexcept;

}  // namespace gpucoll::gpu
