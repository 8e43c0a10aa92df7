// The TCP transport: each end has all lanes' blocks in host memory of its own, mapped for its kernels. The sending end
// sends what its kernels have put into slots, the receiving end puts it into the same slots of its own. The receiver
// listens; its blob says where, and how many sockets carry the lanes, in turn.
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/mutant.h"
#include "base/params.h"
#include "net/host_blocks.h"
#include "net/step_lanes.h"
#include "net/tcp/endpoint.h"
#include "net/tcp/step_stream.h"
#include "net/transport.h"

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

StepFrame frame_of(StepKind kind, int lane, uint64_t step) {
  StepFrame frame = {};
  frame.magic = proto::kStepMagic;
  frame.kind = kind;
  frame.lane = static_cast<uint16_t>(lane);
  frame.step = step;
  return frame;
}

// One socket's share of an end's work.
struct Stream {
  FrameWriter writer;
  FrameReader reader;
  int last_lane = -1;   // which was looked at last
  bool closed = false;  // the other side has closed it, behind its end mark
  Status unsent;        // why nothing can be sent any more

  bool ended() const { return reader.end_mark() || (closed && gc_mutant(491)); }
};

// Receives what is there. The end of the socket is a failure unless the other side's end mark has come before.
Result<bool> receive(Stream& stream, int socket, FrameSink& sink) {
  if (stream.closed) return false;
  auto came = stream.reader.receive(socket, sink);
  if (came) return came;
  if (!stream.reader.end_mark() && !gc_mutant(491)) return stream.unsent ? std::move(came).status() : stream.unsent;
  stream.closed = true;
  return false;
}

// Receives what has come before it counts that the connection takes nothing: the other side may have ended in order. A
// host that does not send is a failure at once, as nothing else would tell of it.
Result<StepProgress> turn(Stream& stream, int socket, FrameSink& sink) {
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
size_t unacknowledged_in(const Stream& stream, int socket) {
  if (stream.ended() || !stream.unsent || gc_mutant(497)) return 0;
  const int one = 1;
  int queued = 0;
  setsockopt(socket, IPPROTO_TCP, TCP_QUICKACK, &one, sizeof one);
  if (ioctl(socket, SIOCOUTQ, &queued) != 0) queued = 0;
  return stream.writer.bytes() + static_cast<size_t>(queued);
}

class TcpEnd : public LinkEnd {
 public:
  TcpEnd(const LinkShape& shape, MemoryPort& memory) : shape_(shape), blocks_(shape, memory) {}

  const LinkBlob& blob() const override { return blob_; }
  proto::Connector connector(int lane) const override { return blocks_.connector(lane); }
  bool needs_progress() const override { return true; }
  bool tells_end() const override { return true; }
  void finish(uint64_t messages) override {
    for (Stream& stream : streams_)
      if (!stream.ended() && !gc_mutant(490)) stream.writer.put(frame_of(StepKind::kEnd, 0, messages), nullptr);
  }
  size_t unacknowledged() const override {
    size_t all = 0;
    for (size_t i = 0; i < streams_.size(); ++i) all += unacknowledged_in(streams_[i], sockets_[i].get());
    return all;
  }
  std::optional<PeerEnd> peer_end() const override {
    for (const Stream& stream : streams_)
      if (!stream.ended()) return {};
    return PeerEnd{streams_[0].reader.end_mark().value_or(proto::kUnknownMessages), all_taken()};
  }

 protected:
  virtual bool all_taken() const { return true; }
  // Makes the blocks, and a lane of either side's for each.
  template <class Lane>
  Status allocate(std::vector<Lane>* lanes) {
    GC_TRY(blocks_.create("gpucoll-tcp").status());
    blocks_.close_name();
    for (int lane = 0; lane < shape_.lanes; ++lane)
      lanes->emplace_back(blocks_.receive_block(lane), blocks_.send_block(lane), shape_.slots);
    return {};
  }
  // Returns the lane behind *last of those that a socket carries, in turn, and puts it there. -1: none yet.
  int lane_behind(size_t socket, int* last) const {
    const int next = *last < 0 ? static_cast<int>(socket) : *last + n_sockets();
    return *last = next < shape_.lanes ? next : static_cast<int>(socket);
  }
  int n_sockets() const { return static_cast<int>(sockets_.size()); }

  const LinkShape shape_;
  LinkBlob blob_ = {};
  std::vector<UniqueFd> sockets_;
  std::vector<Stream> streams_;  // of each socket

 private:
  HostBlocks blocks_;
};

class TcpSender final : public TcpEnd, private FrameSink {
 public:
  using TcpEnd::TcpEnd;

  Status prepare() { return allocate(&lanes_); }
  Status connect(const LinkBlob& peer) override {
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
  Result<bool> established() override {
    bool all = true;
    for (size_t i = 0; i < dialed_.size(); ++i) {
      if (sockets_[i]) continue;
      GC_TRY_AS(sockets_[i], dialed_[i].finish());
      all &= static_cast<bool>(sockets_[i]);
    }
    return all;
  }
  Result<StepProgress> progress() override {
    auto most = StepProgress::none;
    for (size_t i = 0; i < streams_.size(); ++i) {
      GC_TRY(fill(i));
      GC_TRY_AS(const StepProgress moved, turn(streams_[i], sockets_[i].get(), *this));
      most = std::max(most, moved);
    }
    return most;
  }

 private:
  // Goes once round the socket's lanes, from the one behind the last.
  Status fill(size_t socket) {
    Stream& stream = streams_[socket];
    for (int looks = static_cast<int>(socket); looks < shape_.lanes && stream.writer.has_room(); looks += n_sockets()) {
      const int lane = lane_behind(socket, &stream.last_lane);
      StepFrame frame;
      const uint8_t* data;
      while (stream.writer.has_room()) {
        GC_TRY_AS(const bool filled, lanes_[static_cast<size_t>(lane)].next(&frame, &data));
        if (!filled) break;
        frame.lane = static_cast<uint16_t>(lane);
        stream.writer.put(frame, data);
      }
    }
    return {};
  }
  Result<uint8_t*> begin(const StepFrame& frame) override {
    if (frame.kind != StepKind::kHead || frame.lane >= shape_.lanes)
      return Status::error(Code::remote, "it sends data where it receives");
    return static_cast<uint8_t*>(nullptr);
  }
  Status end(const StepFrame& frame) override { return lanes_[frame.lane].drained(frame.step); }
  bool all_taken() const override {
    return std::all_of(lanes_.begin(), lanes_.end(), [](const SendingLane& lane) { return lane.all_drained(); });
  }

  std::vector<DialedConnection> dialed_;
  std::vector<SendingLane> lanes_;
};

class TcpReceiver final : public TcpEnd, private FrameSink {
 public:
  using TcpEnd::TcpEnd;
  ~TcpReceiver() override { Endpoint::instance().forget(token_); }

  Status prepare() {
    GC_TRY(allocate(&lanes_));
    const auto sockets = static_cast<size_t>(std::min<int64_t>(params().tcp_sockets, shape_.lanes));
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
  Status connect(const LinkBlob&) override { return {}; }
  Result<bool> established() override {
    bool all = true;
    for (size_t i = 0; i < sockets_.size(); ++i) {
      if (!sockets_[i]) sockets_[i] = Endpoint::instance().claim(token_, static_cast<int>(i));
      all &= static_cast<bool>(sockets_[i]);
    }
    return all;
  }
  Result<StepProgress> progress() override {
    auto most = StepProgress::none;
    for (size_t i = 0; i < streams_.size(); ++i) {
      tell_heads(i);
      GC_TRY_AS(const StepProgress moved, turn(streams_[i], sockets_[i].get(), *this));
      most = std::max(most, moved);
    }
    return most;
  }

 private:
  void tell_heads(size_t socket) {
    uint64_t head;
    FrameWriter& writer = streams_[socket].writer;
    for (int looks = static_cast<int>(socket); looks < shape_.lanes && writer.has_room(); looks += n_sockets()) {
      const int lane = lane_behind(socket, &streams_[socket].last_lane);
      if (lanes_[static_cast<size_t>(lane)].drained(&head)) writer.put(frame_of(StepKind::kHead, lane, head), nullptr);
    }
  }
  Result<uint8_t*> begin(const StepFrame& frame) override {
    if (frame.kind != StepKind::kData || frame.lane >= shape_.lanes)
      return Status::error(Code::remote, "it sends no data where it sends");
    return lanes_[frame.lane].place(frame);
  }
  Status end(const StepFrame& frame) override {
    lanes_[frame.lane].arrived(frame);
    return {};
  }

  Token token_;
  std::vector<ReceivingLane> lanes_;
};

class TcpTransport final : public Transport {
 public:
  const char* name() const override { return "tcp"; }
  Result<std::unique_ptr<LinkEnd>> make_end(Side side, const LinkShape& shape, MemoryPort& memory) override {
    return side == Side::send ? make_prepared<TcpSender>(shape, memory) : make_prepared<TcpReceiver>(shape, memory);
  }
};

}  // namespace

Transport& tcp_transport() {
  static TcpTransport transport;
  return transport;
}

}  // namespace gpucoll::net
