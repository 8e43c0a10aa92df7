// Plays the other end of a link over sockets: it sends frames of any lane, step and size, to a receiving end whose
// kernels drain at once, heads to a sending end, and packs of a mesh. The blocks and the mesh's buffer are exactly as
// long as the format says.
#include <memory>
#include <vector>

#include "input.h"
#include "net/mesh_lines.h"
#include "net/step_lanes.h"
#include "net/tcp/step_stream.h"

using namespace gpucoll;
using proto::ReceiveBlock;
using proto::SendBlock;

namespace {

constexpr int kLanes = 2;
constexpr proto::ConnectionShape kShape = proto::connection_shape(1024);

struct Blocks {
  std::vector<uint64_t> receive = std::vector<uint64_t>(ReceiveBlock::bytes(kShape) / 8);
  std::vector<uint64_t> send = std::vector<uint64_t>(SendBlock::kBytes / 8);
  uint8_t* receive_block() { return reinterpret_cast<uint8_t*>(receive.data()); }
  uint8_t* send_block() { return reinterpret_cast<uint8_t*>(send.data()); }
  template <class Lane>
  Lane lane() {
    return {receive_block(), send_block(), kShape};
  }
};

class Ends final : public net::FrameSink {
 public:
  Ends() {
    for (int lane = 0; lane < kLanes; ++lane) {
      receiving_.push_back(in_[lane].lane<net::ReceivingLane>());
      sending_.push_back(out_[lane].lane<net::SendingLane>());
    }
  }
  Result<uint8_t*> begin(const proto::StepFrame& frame) override {
    if (frame.lane >= kLanes) return Status::error(Code::remote, "no such lane");
    if (frame.kind == proto::StepKind::kPacks) return mesh_.place(frame);
    if (frame.kind == proto::StepKind::kData) return receiving_[frame.lane].place(frame);
    GC_TRY(sending_[frame.lane].drained(frame.step));
    return static_cast<uint8_t*>(nullptr);
  }
  Status end(const proto::StepFrame& frame) override {
    if (frame.kind == proto::StepKind::kHead) return {};
    if (frame.kind == proto::StepKind::kPacks) {
      mesh_.arrived(frame);
      return {};
    }
    receiving_[frame.lane].arrived(frame);
    auto* const head = reinterpret_cast<uint64_t*>(in_[frame.lane].send_block() + SendBlock::kHeadOffset);
    *head = receiving_[frame.lane].tail();
    return {};
  }

 private:
  Blocks in_[kLanes], out_[kLanes];
  std::vector<net::ReceivingLane> receiving_;
  std::vector<net::SendingLane> sending_;
  std::vector<uint64_t> buffer_ = std::vector<uint64_t>(proto::network_mesh_bytes(2) / sizeof(uint64_t));
  net::ReceivingLines mesh_{{reinterpret_cast<uint8_t*>(buffer_.data()), 2, 1}};
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  gpucoll_test::Input input(data, bytes);
  const size_t piece = input.take<uint8_t>() + 1u;
  Ends ends;
  net::FrameReader reader;
  while (input.left() > 0) {
    const size_t now = std::min(piece, input.left());
    if (!reader.feed(input.at(), now, ends)) return 0;
    input.skip(now);
  }
  return 0;
}
