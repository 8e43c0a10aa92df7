// The emulated device and its platform: one device, shared by all processes of a node.
#include "gpu/device.h"

#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "gpu/emu/memory.h"
#include "gpu/emu/queue.h"

namespace gpucoll::gpu {
namespace {

constexpr int kMaxThreadsOfLaunch = 32 * 1024;

// The boot id names the node; the process namespace is mixed in, because processes that do not see each other under
// /proc cannot open each other's memory.
void node_uuid(uint8_t (&uuid)[16]) {
  uint64_t half[2] = {0xcbf29ce484222325u, 0x84222325cbf29ce4u};
  const auto mix = [&half](uint8_t byte, int which) { half[which] = (half[which] ^ byte) * 0x100000001b3u; };
  if (FILE* file = std::fopen("/proc/sys/kernel/random/boot_id", "re")) {
    for (int c, i = 0; (c = std::fgetc(file)) != EOF; ++i) mix(static_cast<uint8_t>(c), i & 1);
    std::fclose(file);
  }
  struct stat space {};
  if (stat("/proc/self/ns/pid", &space) == 0)
    for (int i = 0; i < 16; ++i) mix(static_cast<uint8_t>(space.st_ino >> (i / 2 * 8)), i & 1);
  std::memcpy(uuid, half, sizeof uuid);
}

Identity make_identity() {
  Identity identity{};
  std::snprintf(identity.kind, sizeof identity.kind, "emu");
  std::snprintf(identity.name, sizeof identity.name, "emulated device");
  node_uuid(identity.uuid);
  return identity;
}

class EmuDevice final : public Device {
 public:
  const Identity& identity() const override { return identity_; }
  int index() const override { return 0; }
  Defaults defaults() const override { return {2, 1, size_t{256} << 10, size_t{16} << 10}; }
  bool shares_between_processes() const override { return true; }

  Result<void*> allocate(size_t bytes) override { return memory_.allocate(bytes); }
  void release(void* kernel_address) noexcept override { memory_.release(kernel_address); }
  Result<void*> user_allocate(size_t bytes) override { return memory_.user_allocate(bytes); }
  Status user_release(void* user_address) override { return memory_.user_release(user_address); }

  Result<HostBlock> allocate_host(size_t bytes) override;
  void release_host(const HostBlock& block) noexcept override;
  Result<HostBlock> register_host(void* host, size_t bytes) override { return HostBlock{host, host, bytes}; }
  void unregister_host(const HostBlock&) noexcept override {}

  Result<MemoryHandle> export_memory(void* address) override { return memory_.export_memory(address); }
  Result<void*> open_memory(const MemoryHandle& handle) override { return memory_.open_memory(handle); }
  void close_memory(void* address) noexcept override { memory_.close_memory(address); }
  bool can_reach(const Identity& peer) const override;

  void* kernel_address(const void* address) const override { return memory_.kernel_address(address); }
  Status copy(void* dst, const void* src, size_t bytes) override;
  Status fill(void* dst, int byte, size_t bytes) override;

  Result<Stream> create_stream() override;
  Status destroy_stream(Stream stream) override;
  Status synchronize(Stream stream) override;
  Status stream_wait(Stream stream, Stream other) override;
  Status prepare(const Kernel& kernel) override;
  Status launch(const Kernel& kernel, const proto::Plan& plan, int blocks, int threads, Stream stream) override;

  PointerInfo classify(const void* address) { return memory_.classify(address); }
  bool is_user(const void* address) const noexcept { return memory_.is_user(address); }

 private:
  using QueuePointer = std::shared_ptr<emu::Queue>;  // why shared: see emu/queue.h

  Result<QueuePointer> find(Stream stream);
  void wait_for_default_stream();
  Result<void*> resolve(const void* address, size_t bytes);

  const Identity identity_ = make_identity();
  emu::Memory memory_;
  std::mutex mutex_;
  QueuePointer default_;  // made when first used
  std::unordered_map<Stream, QueuePointer> queues_;
};

Result<HostBlock> EmuDevice::allocate_host(size_t bytes) {
  const size_t room = emu::round_to_pages(bytes == 0 ? 1 : bytes);
  void* start = mmap(nullptr, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (start == MAP_FAILED)
    return Status::error(Code::out_of_memory, "%zu bytes of host memory cannot be had (%s)", bytes,
                         std::strerror(errno));
  return HostBlock{start, start, bytes};
}

void EmuDevice::release_host(const HostBlock& block) noexcept {
  if (block.host != nullptr) munmap(block.host, emu::round_to_pages(block.bytes == 0 ? 1 : block.bytes));
}

bool EmuDevice::can_reach(const Identity& peer) const {
  return std::strcmp(peer.kind, identity_.kind) == 0 && std::memcmp(peer.uuid, identity_.uuid, sizeof peer.uuid) == 0;
}

Result<void*> EmuDevice::resolve(const void* address, size_t bytes) {
  if (address == nullptr)
    return Status::error(Code::invalid_argument, "a copy or fill of %zu bytes was given a null pointer", bytes);
  return memory_.resolve(address, bytes);
}

// As cudaMemcpy does: what was put into the default stream before is finished first.
void EmuDevice::wait_for_default_stream() {
  QueuePointer queue;
  {
    std::lock_guard lock(mutex_);
    queue = default_;
  }
  if (queue) queue->synchronize();
}

Status EmuDevice::copy(void* dst, const void* src, size_t bytes) {
  if (bytes == 0) return {};
  GC_TRY_AS(void* to, resolve(dst, bytes));
  GC_TRY_AS(const void* from, resolve(src, bytes));
  wait_for_default_stream();
  std::memmove(to, from, bytes);
  return {};
}

Status EmuDevice::fill(void* dst, int byte, size_t bytes) {
  if (bytes == 0) return {};
  GC_TRY_AS(void* to, resolve(dst, bytes));
  wait_for_default_stream();
  std::memset(to, byte, bytes);
  return {};
}

Result<EmuDevice::QueuePointer> EmuDevice::find(Stream stream) {
  std::lock_guard lock(mutex_);
  if (stream == nullptr) {
    if (!default_) default_ = std::make_shared<emu::Queue>();
    return default_;
  }
  auto it = queues_.find(stream);
  if (it != queues_.end()) return it->second;
  return Status::error(Code::invalid_argument, "%p is not a stream of the emulated device, or was destroyed", stream);
}

Result<Stream> EmuDevice::create_stream() {
  auto queue = std::make_shared<emu::Queue>();
  std::lock_guard lock(mutex_);
  queues_.emplace(queue.get(), queue);
  return static_cast<Stream>(queue.get());
}

Status EmuDevice::destroy_stream(Stream stream) {
  if (stream == nullptr)
    return Status::error(Code::invalid_argument, "the default stream of the emulated device cannot be destroyed");
  GC_TRY_AS(QueuePointer queue, find(stream));
  {
    std::lock_guard lock(mutex_);
    queues_.erase(stream);
  }
  queue->close();
  return {};
}

Status EmuDevice::synchronize(Stream stream) {
  GC_TRY_AS(QueuePointer queue, find(stream));
  queue->synchronize();
  return {};
}

Status EmuDevice::stream_wait(Stream stream, Stream other) {
  GC_TRY_AS(QueuePointer queue, find(stream));
  GC_TRY_AS(QueuePointer before, find(other));
  return queue->wait_for(before);
}

Status EmuDevice::prepare(const Kernel& kernel) {
  if (kernel.emu != nullptr) return {};
  return Status::error(Code::unsupported, "the kernel %s was not built for the emulated device", kernel.name);
}

Status EmuDevice::launch(const Kernel& kernel, const proto::Plan& plan, int blocks, int threads, Stream stream) {
  GC_TRY(prepare(kernel));
  if (blocks < 1 || threads < 1 || blocks > kMaxThreadsOfLaunch / threads)
    return Status::error(
        Code::invalid_argument,
        "a launch of %d blocks of %d threads is outside what the emulated device runs (1 to %d threads "
        "in all)",
        blocks, threads, kMaxThreadsOfLaunch);
  GC_TRY_AS(QueuePointer queue, find(stream));
  return queue->launch(kernel.emu, plan, blocks, threads);
}

class EmuPlatform final : public Platform {
 public:
  const char* name() const override { return "emu"; }
  Result<int> device_count() override { return 1; }
  int current_device() override { return 0; }
  Status choose_device(int index) override { return open(index).status(); }
  Result<Device*> open(int index) override {
    if (index == 0) return static_cast<Device*>(&device_);
    return Status::error(Code::invalid_argument, "there is one emulated device, number 0, and no number %d", index);
  }
  PointerInfo classify(const void* address) override { return device_.classify(address); }
  bool is_device(const void* address) noexcept override { return device_.is_user(address); }

 private:
  EmuDevice device_;
};

}  // namespace

// Never destroyed: threads of the pool may still be inside a kernel while the process is exiting.
Platform& emu_platform() {
  static EmuPlatform* const platform = new EmuPlatform;
  return *platform;
}

}  // namespace gpucoll::gpu
