// The TCP transport. Links of steps: each end has all lanes' blocks in host memory of its own, mapped for its kernels.
// The sending end sends what its kernels have put into slots, the receiving end puts it into the same slots of its own.
// Several sockets carry the lanes, in turn. Links of a mesh: the sending end sends the packs that its kernels have put
// into an image of the peer's buffer, the receiving end puts them into its own buffer.
#include <algorithm>
#include <vector>

#include "base/params.h"
#include "net/host_blocks.h"
#include "net/mesh_lines.h"
#include "net/step_lanes.h"
#include "net/tcp/tcp_end.h"
#include "net/transport.h"

namespace gpucoll::net {
namespace {

using proto::StepFrame;
using proto::StepKind;

// The blocks of a link of steps, and a lane of either side's for each.
template <class Lane>
class StepLanes {
 public:
  StepLanes(const LinkShape& shape, MemoryPort& memory) : blocks_(shape, memory) {}
  Status allocate(const LinkShape& shape) {
    GC_TRY(blocks_.create("gpucoll-tcp").status());
    blocks_.close_name();
    for (int lane = 0; lane < shape.lanes; ++lane)
      lanes_.emplace_back(blocks_.receive_block(lane), blocks_.send_block(lane), shape.slots);
    return {};
  }
  proto::Connector connector(int lane) const { return blocks_.connector(lane); }
  Lane& operator[](int lane) { return lanes_[static_cast<size_t>(lane)]; }
  const std::vector<Lane>& all() const { return lanes_; }

 private:
  HostBlocks blocks_;
  std::vector<Lane> lanes_;
};

class StepSender final : public DialingEnd {
 public:
  StepSender(const LinkShape& shape, MemoryPort& memory) : DialingEnd(shape), lanes_(shape, memory) {}
  Status prepare() { return lanes_.allocate(shape_); }
  proto::Connector connector(int lane) const override { return lanes_.connector(lane); }

 private:
  // Goes once round the socket's lanes, from the one behind the last.
  Status fill(size_t socket) override {
    Stream& stream = streams_[socket];
    for (int looks = static_cast<int>(socket); looks < shape_.lanes && stream.writer.has_room(); looks += n_sockets()) {
      const int lane = lane_behind(socket, &stream.last_lane);
      StepFrame frame;
      const uint8_t* data;
      while (stream.writer.has_room()) {
        GC_TRY_AS(const bool filled, lanes_[lane].next(&frame, &data));
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
    const std::vector<SendingLane>& lanes = lanes_.all();
    return std::all_of(lanes.begin(), lanes.end(), [](const SendingLane& lane) { return lane.all_drained(); });
  }

  StepLanes<SendingLane> lanes_;
};

class StepReceiver final : public ListeningEnd {
 public:
  StepReceiver(const LinkShape& shape, MemoryPort& memory) : ListeningEnd(shape), lanes_(shape, memory) {}
  Status prepare() {
    GC_TRY(lanes_.allocate(shape_));
    return listen(static_cast<size_t>(std::min<int64_t>(params().tcp_sockets, shape_.lanes)));
  }
  proto::Connector connector(int lane) const override { return lanes_.connector(lane); }

 private:
  // Tells the heads of the socket's lanes.
  Status fill(size_t socket) override {
    uint64_t head;
    FrameWriter& writer = streams_[socket].writer;
    for (int looks = static_cast<int>(socket); looks < shape_.lanes && writer.has_room(); looks += n_sockets()) {
      const int lane = lane_behind(socket, &streams_[socket].last_lane);
      if (lanes_[lane].drained(&head)) writer.put(frame_of(StepKind::kHead, lane, head), nullptr);
    }
    return {};
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

  StepLanes<ReceivingLane> lanes_;
};

class MeshSender final : public DialingEnd {
 public:
  MeshSender(const LinkShape& shape, MemoryPort&) : DialingEnd(shape), lines_(shape.mesh) {}
  static Status prepare() { return {}; }
  proto::Connector connector(int) const override { return {}; }

 private:
  Status fill(size_t socket) override {
    FrameWriter& writer = streams_[socket].writer;
    StepFrame frame;
    const uint8_t* data;
    while (writer.has_room()) {
      GC_TRY_AS(const bool filled, lines_.next(&frame, &data));
      if (!filled) break;
      writer.put(frame, data);
    }
    return {};
  }
  Result<uint8_t*> begin(const StepFrame&) override {
    return Status::error(Code::remote, "it sends data where it receives");
  }
  Status end(const StepFrame&) override { return {}; }

  SendingLines lines_;
};

class MeshReceiver final : public ListeningEnd {
 public:
  MeshReceiver(const LinkShape& shape, MemoryPort&) : ListeningEnd(shape), lines_(shape.mesh) {}
  Status prepare() { return listen(1); }
  proto::Connector connector(int) const override { return {}; }

 private:
  Status fill(size_t) override { return {}; }
  Result<uint8_t*> begin(const StepFrame& frame) override {
    if (frame.kind != StepKind::kPacks) return Status::error(Code::remote, "it sends no packs of a mesh");
    return lines_.place(frame);
  }
  Status end(const StepFrame& frame) override {
    lines_.arrived(frame);
    return {};
  }

  ReceivingLines lines_;
};

class TcpTransport final : public Transport {
 public:
  const char* name() const override { return "tcp"; }
  Result<std::unique_ptr<LinkEnd>> make_end(Side side, const LinkShape& shape, MemoryPort& memory) override {
    if (shape.mesh.memory)
      return side == Side::send ? make_prepared<MeshSender>(shape, memory) : make_prepared<MeshReceiver>(shape, memory);
    return side == Side::send ? make_prepared<StepSender>(shape, memory) : make_prepared<StepReceiver>(shape, memory);
  }
};

}  // namespace

Transport& tcp_transport() {
  static TcpTransport transport;
  return transport;
}

}  // namespace gpucoll::net
