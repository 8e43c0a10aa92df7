// The frames of steps over one socket, without waiting: out of and into the memory where data lie.
// Thread safety: one caller at a time. Ownership: borrows all that it is given.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/status.h"
#include "proto/format/step_frame.h"

namespace gpucoll::net {

// Sends frames, several with one system call.
class FrameWriter {
 public:
  static constexpr size_t kMostFrames = 16;
  // Returns whether there is room for one more frame.
  bool has_room() const noexcept { return count_ < kMostFrames; }
  bool empty() const noexcept { return count_ == 0; }
  // Forgets what has not been sent.
  void drop_all() noexcept { count_ = sent_ = 0; }
  // data stay as they are until the frame is sent. REQUIRES: has_room().
  void put(const proto::StepFrame& frame, const uint8_t* data);
  // Returns how many bytes are not sent.
  size_t bytes() const noexcept;
  // Sends what goes without waiting; returns whether any did. Errors: remote, where the connection has ended; system,
  // where this host does not send over it.
  Result<bool> flush(int socket);

 private:
  struct Outgoing {
    proto::StepFrame frame;
    const uint8_t* data;
    size_t bytes;  // of data
  };
  void drop(size_t bytes);
  std::array<Outgoing, kMostFrames> frames_;
  size_t first_ = 0, count_ = 0;
  size_t sent_ = 0;  // bytes of the first one
};

// Takes the frames that have come.
class FrameSink {
 public:
  virtual ~FrameSink() = default;
  // Returns where the data of a frame belong; null for one without data. Errors: where it makes no sense.
  virtual Result<uint8_t*> begin(const proto::StepFrame& frame) = 0;
  // All of the frame has come.
  virtual Status end(const proto::StepFrame& frame) = 0;
};

class FrameReader {
 public:
  FrameReader() : buffer_(kBufferBytes) {}
  // Receives what is there without waiting, for a while; returns whether there was anything. Errors: remote; the
  // sink's.
  Result<bool> receive(int socket, FrameSink& sink);
  // Returns the number of messages in the other side's end mark (StepKind::kEnd); empty until it has come.
  const std::optional<uint64_t>& end_mark() const noexcept { return end_mark_; }
  // Takes bytes as if they had been received.
  Status feed(const uint8_t* data, size_t bytes, FrameSink& sink);

 private:
  static constexpr size_t kBufferBytes = 16 << 10;
  Status take_header(const uint8_t** data, size_t* bytes, FrameSink& sink);
  Status take_data(size_t bytes, FrameSink& sink);
  std::vector<uint8_t> buffer_;
  proto::StepFrame frame_ = {};
  size_t header_ = 0;         // bytes of frame_ that have come
  uint8_t* place_ = nullptr;  // of the data that are still to come
  size_t missing_ = 0;
  std::optional<uint64_t> end_mark_;
};

}  // namespace gpucoll::net
