// Gives the ends of links over sockets what they share: their sockets, the streams of frames over these, and the marks
// by which two ends tell each other that nothing follows. The receiving end listens; its blob says where, and how many
// sockets there are.
//
// Thread safety and ownership: as LinkEnd.
#pragma once
#include <vector>

#include "base/mutant.h"
#include "base/status.h"
#include "net/tcp/endpoint.h"
#include "net/tcp/step_stream.h"
#include "net/transport.h"

namespace gpucoll::net {

// Makes a frame without data.
proto::StepFrame frame_of(proto::StepKind kind, int lane, uint64_t step);

class TcpEnd : public LinkEnd, protected FrameSink {
 public:
  explicit TcpEnd(const LinkShape& shape) : shape_(shape) {}

  const LinkBlob& blob() const override { return blob_; }
  bool needs_progress() const override { return true; }
  Result<StepProgress> progress() override;
  bool tells_end() const override { return true; }
  void finish(uint64_t messages) override;
  size_t unacknowledged() const override;
  std::optional<PeerEnd> peer_end() const override;

 protected:
  // One socket's share of an end's work.
  struct Stream {
    FrameWriter writer;
    FrameReader reader;
    int last_lane = -1;   // which was looked at last
    bool closed = false;  // the other side has closed it, behind its end mark
    Status unsent;        // why nothing can be sent any more

    bool ended() const { return reader.end_mark() || (closed && gc_mutant(491)); }
  };

  // Puts what a socket is to carry into its writer, as far as there is room.
  virtual Status fill(size_t socket) = 0;
  // Returns whether the other end has taken all that this one's kernels have filled.
  virtual bool all_taken() const { return true; }
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
  static Result<bool> receive(Stream& stream, int socket, FrameSink& sink);
  static Result<StepProgress> turn(Stream& stream, int socket, FrameSink& sink);
  static size_t unacknowledged_in(const Stream& stream, int socket);
};

// An end that connects to the other one.
class DialingEnd : public TcpEnd {
 public:
  using TcpEnd::TcpEnd;
  Status connect(const LinkBlob& peer) override;
  Result<bool> established() override;

 private:
  std::vector<DialedConnection> dialed_;
};

// An end to which the other one connects.
class ListeningEnd : public TcpEnd {
 public:
  using TcpEnd::TcpEnd;
  ~ListeningEnd() override { Endpoint::instance().forget(token_); }
  Status connect(const LinkBlob&) override { return {}; }
  Result<bool> established() override;

 protected:
  // Begins to listen for so many sockets.
  Status listen(size_t sockets);

 private:
  Token token_;
};

}  // namespace gpucoll::net
