#include "mpi/staging/pipelined_copy.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <thread>

#include "mpi/staging/pinned_pool.h"

namespace gpucoll::coll {
namespace {

constexpr size_t kSlots = 2, kLeastPieces = 3;

// A stream of its own with two slots of page-locked memory.
class Pipe {
 public:
  Pipe(gpu::Device& device, size_t slot_bytes) : device_(device), slot_bytes_(slot_bytes) {}
  ~Pipe();
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  // False where there is no page-locked memory.
  Result<bool> open();

  uint8_t* slot(size_t piece) const { return memory_ + piece % kSlots * slot_bytes_; }
  // A copy from or to the piece's slot, in the order of the calls.
  Status start(size_t piece, void* dst, const void* src, size_t bytes);
  // Until that copy has ended. A device that fails ends it, too.
  Status wait(size_t piece);

 private:
  gpu::Device& device_;
  const size_t slot_bytes_;
  uint8_t* memory_ = nullptr;
  gpu::Stream stream_ = nullptr;
  gpu::Event done_[kSlots] = {};
};

Pipe::~Pipe() {
  if (stream_) {
    device_.synchronize(stream_).ignore();  // after a failure copies may be under way
    device_.destroy_stream(stream_).ignore();
  }
  for (gpu::Event event : done_)
    if (event) device_.destroy_event(event);
  PinnedPool::instance().put(memory_);
}

Result<bool> Pipe::open() {
  memory_ = static_cast<uint8_t*>(PinnedPool::instance().get_pinned(device_, kSlots * slot_bytes_).host);
  if (!memory_) return false;
  GC_TRY_AS(stream_, device_.create_stream());
  for (gpu::Event& event : done_) {
    GC_TRY_AS(event, device_.create_event());
  }
  return true;
}

Status Pipe::start(size_t piece, void* dst, const void* src, size_t bytes) {
  GC_TRY(device_.copy_async(dst, src, bytes, stream_));
  return device_.record(done_[piece % kSlots], stream_);
}

Status Pipe::wait(size_t piece) {
  for (;;) {
    GC_TRY_AS(const bool there, device_.reached(done_[piece % kSlots]));
    if (there) return {};
    std::this_thread::yield();
  }
}

// How bytes are cut.
struct Cut {
  size_t bytes, piece;
  size_t pieces() const { return (bytes + piece - 1) / piece; }
  size_t at(size_t i) const { return i * piece; }
  size_t length(size_t i) const { return std::min(piece, bytes - at(i)); }
};

Status to_host(Pipe& pipe, const Cut& cut, uint8_t* dst, const uint8_t* src) {
  const size_t n = cut.pieces();
  for (size_t i = 0; i < n + 1; ++i) {
    if (i < n) GC_TRY(pipe.start(i, pipe.slot(i), src + cut.at(i), cut.length(i)));
    if (i == 0) continue;
    GC_TRY(pipe.wait(i - 1));
    std::memcpy(dst + cut.at(i - 1), pipe.slot(i - 1), cut.length(i - 1));
  }
  return {};
}

Status to_device(Pipe& pipe, const Cut& cut, uint8_t* dst, const uint8_t* src) {
  const size_t n = cut.pieces();
  for (size_t i = 0; i < n; ++i) {
    if (i >= kSlots) GC_TRY(pipe.wait(i - kSlots));
    std::memcpy(pipe.slot(i), src + cut.at(i), cut.length(i));
    GC_TRY(pipe.start(i, dst + cut.at(i), pipe.slot(i), cut.length(i)));
  }
  return pipe.wait(n - 1);
}

}  // namespace

size_t usual_piece(const gpu::Device& device) { return device.is_emulated() ? size_t{64} << 10 : size_t{4} << 20; }

Result<size_t> copy_pipelined(gpu::Device& device, void* dst, const void* src, size_t bytes, size_t piece_bytes) {
  Pipe pipe(device, piece_bytes);
  bool pays = bytes >= kLeastPieces * piece_bytes;
  if (pays) {
    GC_TRY_AS(pays, pipe.open());
  }
  // The first piece in order with the default stream; what follows comes after it.
  const size_t first = pays ? piece_bytes : bytes;
  GC_TRY(device.copy(dst, src, first));
  if (!pays) return 1;
  const Cut rest = {bytes - first, piece_bytes};
  auto* const to = static_cast<uint8_t*>(dst) + first;
  const auto* const from = static_cast<const uint8_t*>(src) + first;
  GC_TRY(gpu::is_device_pointer(src) ? to_host(pipe, rest, to, from) : to_device(pipe, rest, to, from));
  return 1 + rest.pieces();
}

}  // namespace gpucoll::coll
