// Carries messages between two processes of different nodes, in order: what ranks of one node read on each other's
// pages.
//
// One side dials (open), the other one waits for the connection that shows the channel's token (await). Messages that
// are put before the connection is there go out once it is. The endpoint's thread receives them and hands them to the
// channel's listener.
//
// Thread safety: put(), attached(), backlog(), ended(), receive_now() and retire() from any thread; the rest belongs to
// the endpoint.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "net/bootstrap/socket.h"
#include "proto/format/channel.h"

namespace gpucoll::net {

// Reads the messages in a channel's bytes. It believes nothing: bytes that are no message end it.
class MessageReader {
 public:
  // One message; the payload is valid until the next call of feed().
  struct Message {
    uint32_t kind;
    const uint8_t* payload;
    size_t bytes;
  };
  void feed(const uint8_t* data, size_t bytes);
  // Returns whether there was one more message.
  bool next(Message* message);
  // Returns whether something came that no message begins with.
  bool broken() const noexcept { return broken_; }

 private:
  std::vector<uint8_t> bytes_;
  size_t read_ = 0;
  bool broken_ = false;
};

class ChannelListener {
 public:
  virtual ~ChannelListener() = default;
  // Takes a message that has come; returns whether it makes sense. Called by the endpoint's thread, or by
  // receive_now().
  virtual bool on_message(const MessageReader::Message& message) noexcept = 0;
};

class Channel {
 public:
  explicit Channel(ChannelListener* listener) : listener_(listener) {}

  // Sends a message, or keeps it until the connection takes it. REQUIRES: bytes <= proto::kChannelMost.
  void put(uint32_t kind, const void* payload, size_t bytes);
  // Returns whether there has been a connection.
  bool attached() const;
  // Returns how many bytes wait for the connection to take them.
  size_t backlog() const;
  // Returns whether the connection has ended: nothing more comes. What came before has been handed over.
  bool ended() const noexcept { return ended_.load(std::memory_order_acquire); }
  // Receives what is there, on the caller's thread, unless the endpoint's is at it: for a caller that waits for a
  // message and has nothing else to do.
  void receive_now();
  // Once it returns, the listener is called no more. What was put still goes out.
  void retire() noexcept;

  // By the endpoint.
  void attach(UniqueFd fd);
  void watch(PollSet* set) const;
  void turn(const PollSet& set);
  // Returns whether the endpoint may drop it: it is retired, and the other side has all, or has had its time.
  bool over() const;

 private:
  bool append(const proto::ChannelHeader& header, const void* payload);
  void flush();
  void receive();
  void finish();

  mutable std::mutex mutex_;
  ChannelListener* listener_;
  UniqueFd fd_;
  std::vector<uint8_t> out_;
  size_t sent_ = 0;
  MessageReader reader_;
  bool retired_ = false, shut_ = false;
  Clock::time_point retired_at_{};
  std::atomic<bool> ended_{false};
};

}  // namespace gpucoll::net
