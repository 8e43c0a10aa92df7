#include "net/tcp/tcp_end.h"

#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>

#include "base/mutant.h"

namespace gpucoll::net {
namespace {

using proto::StepFrame;
using proto::StepKind;

struct TcpBlob {
  proto::ListenAddress address;
  Token token;
  uint32_t sockets;
};
static_assert(sizeof(TcpBlob) <= sizeof(LinkBlob));
constexpr uint32_t kMostSockets = 64;

}  // namespace

StepFrame frame_of(StepKind kind, int lane, uint64_t step) {
  StepFrame frame = {};
  frame.magic = proto::kStepMagic;
  frame.kind = kind;
  frame.lane = static_cast<uint16_t>(lane);
  frame.step = step;
  return frame;
}

// Receives what is there. The end of the socket is a failure unless the other side's end mark has come before.
Result<bool> TcpEnd::receive(Stream& stream, int socket, FrameSink& sink) {
  if (stream.closed) return false;
  auto came = stream.reader.receive(socket, sink);
  if (came) return came;
  if (!stream.reader.end_mark() && !gc_mutant(491)) return stream.unsent ? std::move(came).status() : stream.unsent;
  stream.closed = true;
  return false;
}

// Receives what has come before it counts that the connection takes nothing: the other side may have ended in order. A
// host that does not send is a failure at once, as nothing else would tell of it.
Result<StepProgress> TcpEnd::turn(Stream& stream, int socket, FrameSink& sink) {
  GC_TRY_AS(const bool came, receive(stream, socket, sink));
  if (stream.ended() || !stream.unsent) {
    stream.writer.drop_all();
    return came ? StepProgress::moved : StepProgress::none;
  }
  auto sent = stream.writer.flush(socket);
  if (!sent) {
    if (sent.status().code() != Code::remote) return std::move(sent).status();
    stream.unsent = std::move(sent).status();
    return StepProgress::pending;
  }
  if (came || *sent) return StepProgress::moved;
  return stream.writer.empty() ? StepProgress::none : StepProgress::pending;
}

// Returns how many bytes the other side's system has not acknowledged; 0 where it needs none. It also has this side's
// system acknowledge what has come, since the other side may wait for that in the same way.
size_t TcpEnd::unacknowledged_in(const Stream& stream, int socket) {
  if (stream.ended() || !stream.unsent || gc_mutant(497)) return 0;
  const int one = 1;
  int queued = 0;
  setsockopt(socket, IPPROTO_TCP, TCP_QUICKACK, &one, sizeof one);
  if (ioctl(socket, SIOCOUTQ, &queued) != 0) queued = 0;
  return stream.writer.bytes() + static_cast<size_t>(queued);
}

Result<StepProgress> TcpEnd::progress() {
  auto most = StepProgress::none;
  for (size_t i = 0; i < streams_.size(); ++i) {
    GC_TRY(fill(i));
    GC_TRY_AS(const StepProgress moved, turn(streams_[i], sockets_[i].get(), *this));
    most = std::max(most, moved);
  }
  return most;
}

void TcpEnd::finish(uint64_t messages) {
  for (Stream& stream : streams_)
    if (!stream.ended() && !gc_mutant(490)) stream.writer.put(frame_of(StepKind::kEnd, 0, messages), nullptr);
}

size_t TcpEnd::unacknowledged() const {
  size_t all = 0;
  for (size_t i = 0; i < streams_.size(); ++i) all += unacknowledged_in(streams_[i], sockets_[i].get());
  return all;
}

std::optional<PeerEnd> TcpEnd::peer_end() const {
  for (const Stream& stream : streams_)
    if (!stream.ended()) return {};
  return PeerEnd{streams_[0].reader.end_mark().value_or(proto::kUnknownMessages), all_taken()};
}

Status DialingEnd::connect(const LinkBlob& peer) {
  TcpBlob blob;
  std::memcpy(&blob, peer.bytes, sizeof blob);
  if (blob.sockets == 0 || blob.sockets > kMostSockets)
    return Status::error(Code::remote, "the other side offers %u sockets for a connection", blob.sockets);
  for (uint32_t i = 0; i < blob.sockets; ++i) {
    GC_TRY_AS(DialedConnection dialed, dial_endpoint(blob.address, blob.token, static_cast<int>(i)));
    dialed_.push_back(std::move(dialed));
  }
  sockets_.resize(dialed_.size());
  streams_.resize(dialed_.size());
  return {};
}

Result<bool> DialingEnd::established() {
  bool all = true;
  for (size_t i = 0; i < dialed_.size(); ++i) {
    if (sockets_[i]) continue;
    GC_TRY_AS(sockets_[i], dialed_[i].finish());
    all &= static_cast<bool>(sockets_[i]);
  }
  return all;
}

Status ListeningEnd::listen(size_t sockets) {
  sockets_.resize(sockets);
  streams_.resize(sockets);
  TcpBlob blob = {};
  GC_TRY_AS(blob.address, Endpoint::instance().address());
  GC_TRY_AS(token_, random_token());
  blob.token = token_;
  blob.sockets = static_cast<uint32_t>(sockets);
  std::memcpy(blob_.bytes, &blob, sizeof blob);
  Endpoint::instance().expect(token_);
  return {};
}

Result<bool> ListeningEnd::established() {
  bool all = true;
  for (size_t i = 0; i < sockets_.size(); ++i) {
    if (sockets_[i]) continue;
    GC_TRY_AS(sockets_[i], Endpoint::instance().claim(token_, static_cast<int>(i)));
    all &= static_cast<bool>(sockets_[i]);
  }
  return all;
}

}  // namespace gpucoll::net
