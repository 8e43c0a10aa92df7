#include "gpu/emu/device.h"

#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <variant>

#include "base/params.h"

namespace gpucoll::gpu::emu {
namespace {

constexpr int kMaxThreadsOfLaunch = 32 * 1024;
constexpr size_t kIndexByte = sizeof(Identity::uuid) - 1;  // the others name the node

// The boot id names the node; the process namespace is mixed in, because processes that do not see each other under
// /proc cannot open each other's memory; and the parameter host_id, which makes nodes.
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
  for (const char c : params().host_id)
    for (int which : {0, 1}) mix(static_cast<uint8_t>(c), which);
  std::memcpy(uuid, half, sizeof uuid);
}

Identity make_identity(int index) {
  Identity identity{};
  std::snprintf(identity.kind, sizeof identity.kind, "emu");
  std::snprintf(identity.name, sizeof identity.name, "emulated device");
  node_uuid(identity.uuid);
  identity.uuid[kIndexByte] ^= static_cast<uint8_t>(index);
  return identity;
}

// As a copy engine: kernels that load the words meanwhile find each of them whole.
void store_by_words(uint8_t* to, const uint8_t* from, size_t bytes) {
  size_t at = 0;
  if (reinterpret_cast<uintptr_t>(to) % sizeof(uint64_t) == 0) {
    for (uint64_t word; bytes - at >= sizeof word; at += sizeof word) {
      std::memcpy(&word, from + at, sizeof word);
      proto::store_relaxed(reinterpret_cast<uint64_t*>(to + at), word);  // partner: proto::load_beside_writes
    }
  }
  std::memcpy(to + at, from + at, bytes - at);
}

}  // namespace

EmuDevice::EmuDevice(int index, Memory& memory, Streams& streams)
    : index_(index),
      identity_(make_identity(index)),
      memory_(memory),
      streams_(streams),
      default_(streams.create(true, index)) {}

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

// Before memory goes, where the parameter emu_exclusive asks for it.
void EmuDevice::rest_as_a_gpu() {
  if (params().emu_exclusive) streams_.rest();
}

void EmuDevice::release(void* kernel_address) noexcept {
  rest_as_a_gpu();
  memory_.release(kernel_address);
}

Status EmuDevice::user_release(void* user_address) {
  rest_as_a_gpu();
  return memory_.user_release(user_address);
}

void EmuDevice::close_memory(void* address) noexcept {
  rest_as_a_gpu();
  memory_.close_memory(address);
}

bool EmuDevice::shares_between_processes() const { return !params().emu_exclusive; }

bool EmuDevice::can_reach(const Identity& peer) const {
  if (std::strcmp(peer.kind, identity_.kind) != 0 || std::memcmp(peer.uuid, identity_.uuid, kIndexByte) != 0)
    return false;
  return params().emu_peers || std::memcmp(peer.uuid, identity_.uuid, sizeof peer.uuid) == 0;
}

Result<void*> EmuDevice::resolve(const void* address, size_t bytes) {
  if (address == nullptr)
    return Status::error(Code::invalid_argument, "a copy or fill of %zu bytes was given a null pointer", bytes);
  return memory_.resolve(address, bytes);
}

// As cudaMemcpy does: what was put into the default stream before is finished first.
Status EmuDevice::copy(void* dst, const void* src, size_t bytes) {
  if (bytes == 0) return {};
  GC_TRY_AS(void* to, resolve(dst, bytes));
  GC_TRY_AS(const void* from, resolve(src, bytes));
  GC_TRY(streams_.synchronize(default_));
  std::memmove(to, from, bytes);
  return {};
}

Status EmuDevice::fill(void* dst, int byte, size_t bytes) {
  if (bytes == 0) return {};
  GC_TRY_AS(void* to, resolve(dst, bytes));
  GC_TRY(streams_.synchronize(default_));
  std::memset(to, byte, bytes);
  return {};
}

Status EmuDevice::upload(void* kernel_address, const void* host, size_t bytes) {
  if (bytes == 0) return {};
  GC_TRY_AS(void* to, resolve(kernel_address, bytes));
  store_by_words(static_cast<uint8_t*>(to), static_cast<const uint8_t*>(host), bytes);
  return {};
}

Status EmuDevice::put(Stream stream, const Work& work) {
  GC_TRY(health());
  return streams_.put(own(stream), work);
}

// As on a GPU, nothing runs any more once it returns, whether the device has failed or not.
Status EmuDevice::synchronize(Stream stream) {
  GC_TRY(streams_.synchronize(own(stream)));
  return health();
}

Status EmuDevice::launch_graph(Graph graph, Stream stream) {
  GC_TRY(health());
  return streams_.launch(graph, own(stream));
}

Status EmuDevice::destroy_stream(Stream stream) {
  if (stream == nullptr)
    return Status::error(Code::invalid_argument, "the default stream of the emulated device cannot be destroyed");
  return streams_.destroy(stream);
}

Status EmuDevice::record(gpu::Event event, Stream stream) {
  return put(stream, RecordEvent{static_cast<Event*>(event)});
}

Status EmuDevice::wait_event(Stream stream, gpu::Event event) {
  return put(stream, WaitEvent{static_cast<Event*>(event)});
}

Result<bool> EmuDevice::reached(gpu::Event event) {
  GC_TRY(health());
  const Mark mark = static_cast<Event*>(event)->mark();
  return mark.queue == nullptr || mark.queue->has_ended(mark.until);
}

Status EmuDevice::copy_async(void* dst, const void* src, size_t bytes, Stream stream) {
  if (bytes == 0) return {};
  GC_TRY_AS(void* to, resolve(dst, bytes));
  GC_TRY_AS(const void* from, resolve(src, bytes));
  return put(stream, Copy{to, from, bytes});
}

Status EmuDevice::write_value(Stream stream, uint64_t* word, uint64_t value) {
  return put(stream, WriteValue{word, value});
}

Status EmuDevice::wait_value(Stream stream, const uint64_t* word, uint64_t value, const uint32_t* abort) {
  return put(stream, WaitValue{word, value, abort});
}

Status EmuDevice::prepare(const Kernel& kernel) {
  if (kernel.emu == nullptr)
    return Status::error(Code::unsupported, "the kernel %s was not built for the emulated device", kernel.name);
  std::lock_guard lock(mutex_);
  prepared_.insert(kernel.emu);
  return {};
}

bool EmuDevice::is_prepared(const Kernel& kernel) {
  std::lock_guard lock(mutex_);
  return prepared_.count(kernel.emu) != 0;
}

Status EmuDevice::check_launch(const Kernel& kernel, int blocks, int threads) {
  if (!is_prepared(kernel))
    return Status::error(Code::internal, "the kernel %s is launched without having been prepared", kernel.name);
  if (blocks < 1 || threads < 1 || blocks > kMaxThreadsOfLaunch / threads)
    return Status::error(
        Code::invalid_argument,
        "a launch of %d blocks of %d threads is outside what the emulated device runs (1 to %d threads "
        "in all)",
        blocks, threads, kMaxThreadsOfLaunch);
  return {};
}

Status EmuDevice::launch(const Kernel& kernel, const proto::Plan& plan, int blocks, int threads, Stream stream) {
  GC_TRY(check_launch(kernel, blocks, threads));
  return put(stream, KernelLaunch{kernel.emu, plan, blocks, threads});
}

Result<CachedLaunch> EmuDevice::keep_launches(std::span<const Launch> launches, Stream) {
  auto kept = std::make_unique<KeptWork>();
  for (const Launch& launch : launches) {
    GC_TRY(check_launch(*launch.kernel, launch.blocks, launch.threads));
    kept->push_back(KernelLaunch{launch.kernel->emu, *launch.plan, launch.blocks, launch.threads});
  }
  return static_cast<CachedLaunch>(kept.release());
}

// All of them or none, as on a GPU.
Status EmuDevice::launch_kept(CachedLaunch launch, Stream stream) {
  const KeptWork& kept = *static_cast<const KeptWork*>(launch);
  int most = 0;
  for (const Work& work : kept) {
    const auto& kernel = std::get<KernelLaunch>(work);
    most = std::max(most, kernel.blocks * kernel.threads);
  }
  GC_TRY(streams_.reserve(own(stream), most));
  for (const Work& work : kept) GC_TRY(put(stream, work));
  return {};
}

}  // namespace gpucoll::gpu::emu
