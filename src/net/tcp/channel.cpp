#include "net/tcp/channel.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "net/tcp/endpoint.h"

namespace gpucoll::net {
namespace {

// For the other side to read what was put, and to end the connection as well.
constexpr std::chrono::seconds kLongestFarewell{10};
constexpr size_t kPieceBytes = 64 << 10;

}  // namespace

void MessageReader::feed(const uint8_t* data, size_t bytes) {
  bytes_.erase(bytes_.begin(), bytes_.begin() + static_cast<std::ptrdiff_t>(read_));
  read_ = 0;
  bytes_.insert(bytes_.end(), data, data + bytes);
}

bool MessageReader::next(Message* message) {
  proto::ChannelHeader header;
  if (broken_ || bytes_.size() - read_ < sizeof header) return false;
  std::memcpy(&header, bytes_.data() + read_, sizeof header);
  broken_ = header.magic != proto::kChannelMagic || header.bytes > proto::kChannelMost;
  if (broken_ || bytes_.size() - read_ - sizeof header < header.bytes) return false;
  *message = {header.kind, bytes_.data() + read_ + sizeof header, header.bytes};
  read_ += sizeof header + header.bytes;
  return true;
}

void Channel::put(uint32_t kind, const void* payload, size_t bytes) {
  const proto::ChannelHeader header = {proto::kChannelMagic, kind, static_cast<uint32_t>(bytes), 0};
  if (append(header, payload)) Endpoint::instance().wake();  // which sends the rest
}

// Returns whether some of it is left.
bool Channel::append(const proto::ChannelHeader& header, const void* payload) {
  std::lock_guard lock(mutex_);
  if (ended_.load(std::memory_order_relaxed)) return false;
  const auto append = [this](const void* data, size_t size) {
    const auto* const from = static_cast<const uint8_t*>(data);
    out_.insert(out_.end(), from, from + size);
  };
  append(&header, sizeof header);
  append(payload, header.bytes);
  flush();
  return fd_ && !out_.empty();
}

// REQUIRES: the mutex. An error shows when the rest is received.
void Channel::flush() {
  while (fd_ && sent_ < out_.size()) {
    const ssize_t n = send(fd_.get(), out_.data() + sent_, out_.size() - sent_, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    sent_ += static_cast<size_t>(n);
  }
  if (sent_ < out_.size() && sent_ < kPieceBytes) return;
  out_.erase(out_.begin(), out_.begin() + static_cast<std::ptrdiff_t>(sent_));
  sent_ = 0;
}

bool Channel::attached() const {
  std::lock_guard lock(mutex_);
  return static_cast<bool>(fd_);
}

size_t Channel::backlog() const {
  std::lock_guard lock(mutex_);
  return out_.size() - sent_;
}

void Channel::retire() noexcept {
  std::lock_guard lock(mutex_);
  listener_ = nullptr;
  retired_ = true;
  retired_at_ = Clock::now();
}

void Channel::attach(UniqueFd fd) {
  std::lock_guard lock(mutex_);
  if (fd_) return;
  fd_ = std::move(fd);
  flush();
}

void Channel::watch(PollSet* set) const {
  std::lock_guard lock(mutex_);
  if (fd_ && !ended_.load(std::memory_order_relaxed))
    set->add(fd_.get(), static_cast<short>(out_.empty() ? POLLIN : POLLIN | POLLOUT));
}

void Channel::turn(const PollSet& set) {
  std::lock_guard lock(mutex_);
  if (!fd_ || ended_.load(std::memory_order_relaxed)) return;
  flush();
  if (set.ready(fd_.get()) & (POLLIN | POLLHUP | POLLERR)) receive();
  if (retired_ && out_.empty() && !std::exchange(shut_, true)) shutdown(fd_.get(), SHUT_WR);
}

void Channel::receive_now() {
  std::unique_lock lock(mutex_, std::try_to_lock);
  if (lock && fd_ && !ended_.load(std::memory_order_relaxed)) receive();
}

// REQUIRES: the mutex.
void Channel::receive() {
  uint8_t piece[kPieceBytes];
  const ssize_t n = recv(fd_.get(), piece, sizeof piece, MSG_DONTWAIT);
  if (n < 0 && not_now(errno)) return;
  if (n <= 0) return finish();
  if (!listener_) return;
  reader_.feed(piece, static_cast<size_t>(n));
  MessageReader::Message message;
  while (reader_.next(&message))
    if (!listener_->on_message(message)) return finish();
  if (reader_.broken()) finish();
}

void Channel::finish() {
  shutdown(fd_.get(), SHUT_RDWR);
  ended_.store(true, std::memory_order_release);  // behind all that came
}

bool Channel::over() const {
  std::lock_guard lock(mutex_);
  if (!retired_) return false;
  return ended_.load(std::memory_order_relaxed) || Clock::now() - retired_at_ > kLongestFarewell;
}

}  // namespace gpucoll::net
