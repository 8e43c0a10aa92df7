// One direction of a mesh over a network (proto/format/mesh.h), as the host sees it: it takes the lines that kernels
// have stored into the image of a peer's buffer, and stores those that have come into this rank's own buffer. Only data
// travel, as each line's flag is that of the operation.
//
// Errors are what only a peer that runs astray, or another program, can cause: Code::internal or Code::remote.
// Thread safety: one caller at a time, beside the kernels. Ownership: borrows the memory.
#pragma once
#include <cstdint>
#include <vector>

#include "base/status.h"
#include "proto/format/mesh.h"
#include "proto/format/step_frame.h"

namespace gpucoll::net {

// Host memory of a mesh over a network: the image of a peer's buffer, or this rank's own buffer.
struct MeshMemory {
  uint8_t* memory = nullptr;  // network_mesh_bytes(); null: none
  int n_ranks = 0;
  int source = 0;  // the rank whose lines travel
};

class SendingLines {
 public:
  explicit SendingLines(const MeshMemory& image) : image_(image) {}
  // Returns whether kernels have stored all packs of one more operation: its frame, without the lane's number, and its
  // data, which stay until two more operations have come.
  Result<bool> next(proto::StepFrame* frame, const uint8_t** data);

 private:
  bool take(const uint8_t* lines, uint32_t flag, proto::Pack* to);

  const MeshMemory image_;
  uint32_t sent_ = 0;   // the flag of the last operation
  uint32_t taken_ = 0;  // packs of the next one
  std::vector<proto::Pack> data_[2] = {std::vector<proto::Pack>(proto::kNetworkMeshPacks),
                                       std::vector<proto::Pack>(proto::kNetworkMeshPacks)};
};

class ReceivingLines {
 public:
  explicit ReceivingLines(const MeshMemory& buffer) : buffer_(buffer) {}
  // Returns where the data of a frame belong. Errors: remote, where they belong nowhere.
  Result<uint8_t*> place(const proto::StepFrame& frame);
  // All data of the frame are there. REQUIRES: it is the one that place() was asked for last.
  void arrived(const proto::StepFrame& frame);

 private:
  const MeshMemory buffer_;
  uint32_t came_ = 0;  // the flag of the last operation
  std::vector<proto::Pack> data_ = std::vector<proto::Pack>(proto::kNetworkMeshPacks);
};

}  // namespace gpucoll::net
