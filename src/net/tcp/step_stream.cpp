#include "net/tcp/step_stream.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>

#include "base/mutant.h"
#include "base/observe/counters.h"
#include "net/bootstrap/socket.h"

namespace gpucoll::net {
namespace {

using proto::StepFrame;
using proto::StepKind;

Status lost(int errnum) {
  if (errnum == 0) return Status::error(Code::remote, "the other side has closed it");
  return Status::error(Code::remote, "%s", strerror(errnum));
}

// Linux ends a connection whose other side does not answer by what the network has told of that side last.
bool is_of_connection(int errnum) {
  constexpr int kLost[] = {EPIPE,     ECONNRESET, ETIMEDOUT, EHOSTUNREACH, ENETUNREACH, ECONNREFUSED,
                           EHOSTDOWN, EACCES,     ENONET,    ENOPROTOOPT,  EOPNOTSUPP,  EPROTO};
  return std::find(std::begin(kLost), std::end(kLost), errnum) != std::end(kLost);
}

// Returns what to say where a socket sends nothing: its connection has ended (Code::remote), or this host does not send
// though the connection lives.
Status not_sent(int errnum) {
  if ((is_of_connection(errnum) && !gc_mutant(505)) || gc_mutant(498)) return lost(errnum);
  return Status::error(Code::system, "this host does not send over it (%s): see that the host has memory left",
                       strerror(errnum));
}

}  // namespace

void FrameWriter::put(const StepFrame& frame, const uint8_t* data) {
  frames_[(first_ + count_++) % kMostFrames] = {frame, data, static_cast<size_t>(data_bytes(frame))};
}

size_t FrameWriter::bytes() const noexcept {
  size_t all = 0;
  for (size_t i = 0; i < count_; ++i) all += sizeof(StepFrame) + frames_[(first_ + i) % kMostFrames].bytes;
  return all - sent_;
}

Result<bool> FrameWriter::flush(int socket) {
  std::array<iovec, 2 * kMostFrames> parts;
  size_t n = 0, skipped = sent_;
  const auto add = [&](const void* data, size_t bytes) {
    const size_t skip = std::min(skipped, bytes);
    skipped -= skip;
    if (bytes > skip) parts[n++] = {const_cast<uint8_t*>(static_cast<const uint8_t*>(data)) + skip, bytes - skip};
  };
  for (size_t i = 0; i < count_; ++i) {
    const Outgoing& outgoing = frames_[(first_ + i) % kMostFrames];
    add(&outgoing.frame, sizeof outgoing.frame);
    add(outgoing.data, outgoing.bytes);
  }
  if (n == 0) return false;
  msghdr message = {};
  message.msg_iov = parts.data();
  message.msg_iovlen = n;
  const ssize_t sent = sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent < 0 && not_now(errno)) return false;
  if (sent < 0) return not_sent(errno);
  count(Counter::network_writes);
  count(Counter::network_bytes, static_cast<uint64_t>(sent));
  drop(static_cast<size_t>(sent));
  return true;
}

void FrameWriter::drop(size_t bytes) {
  for (sent_ += bytes; count_ > 0; first_ = (first_ + 1) % kMostFrames, --count_) {
    const size_t whole = sizeof(StepFrame) + frames_[first_].bytes;
    if (sent_ < whole) return;
    sent_ -= whole;
  }
}

Result<bool> FrameReader::receive(int socket, FrameSink& sink) {
  constexpr int kMostReads = 16;  // then others have their turn
  bool any = false;
  for (int i = 0; i < kMostReads; ++i) {
    // Data go where they belong; what follows them into the buffer.
    iovec parts[] = {{place_, missing_}, {buffer_.data(), buffer_.size()}};
    msghdr message = {};
    message.msg_iov = missing_ > 0 ? parts : parts + 1;
    message.msg_iovlen = missing_ > 0 ? 2 : 1;
    const ssize_t n = recvmsg(socket, &message, MSG_DONTWAIT);
    if (n < 0 && not_now(errno)) break;
    if (n <= 0) return lost(n == 0 ? 0 : errno);
    any = true;
    const size_t came = static_cast<size_t>(n), data = std::min(came, missing_);
    if (data > 0) GC_TRY(take_data(data, sink));
    GC_TRY(feed(buffer_.data(), came - data, sink));
    if (came < data + buffer_.size() && missing_ == 0) break;  // there was no more
  }
  return any;
}

Status FrameReader::take_data(size_t bytes, FrameSink& sink) {
  place_ += bytes;
  missing_ -= bytes;
  if (missing_ > 0) return {};
  header_ = 0;
  return sink.end(frame_);
}

Status FrameReader::take_header(const uint8_t** data, size_t* bytes, FrameSink& sink) {
  const size_t now = std::min(*bytes, sizeof frame_ - header_);
  std::memcpy(reinterpret_cast<uint8_t*>(&frame_) + header_, *data, now);
  header_ += now;
  *data += now;
  *bytes -= now;
  if (header_ < sizeof frame_) return {};
  const bool ends = frame_.kind == StepKind::kEnd;
  const bool known = frame_.kind >= StepKind::kData && frame_.kind <= StepKind::kPacks;
  if (frame_.magic != proto::kStepMagic || !known || end_mark_)
    return Status::error(Code::remote, "it sends data that are not a step, as another version of gpucoll may");
  if (ends) {
    end_mark_ = frame_.step;
    header_ = 0;
    return {};
  }
  GC_TRY_AS(place_, sink.begin(frame_));
  missing_ = static_cast<size_t>(data_bytes(frame_));
  return missing_ == 0 ? take_data(0, sink) : Status();
}

Status FrameReader::feed(const uint8_t* data, size_t bytes, FrameSink& sink) {
  while (bytes > 0) {
    if (missing_ == 0) {
      GC_TRY(take_header(&data, &bytes, sink));
      continue;
    }
    const size_t now = std::min(bytes, missing_);
    std::memcpy(place_, data, now);
    data += now;
    bytes -= now;
    GC_TRY(take_data(now, sink));
  }
  return {};
}

}  // namespace gpucoll::net
