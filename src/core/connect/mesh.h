// Connects a mesh: every rank can store into a buffer of every other (proto/format/mesh.h, line_mesh.h).
//
// Ownership: borrows the peers and the memory port; owns this rank's buffer and the openings of the
// others'; destroy it only when all ranks are done with this rank's memory.
#pragma once
#include <vector>

#include "base/observe/causes.h"
#include "core/peer/peers.h"
#include "net/bootstrap/bootstrap.h"
#include "net/transport.h"

namespace gpucoll::core {

class Mesh {
 public:
  // bytes: of each buffer. The causes are told why there is none.
  Mesh(const Peers& peers, net::MemoryPort& memory, size_t bytes, CauseLog& causes)
      : peers_(peers), memory_(memory), bytes_(bytes), causes_(causes), buffers_(static_cast<size_t>(peers.size())) {}
  ~Mesh();
  Mesh(const Mesh&) = delete;
  Mesh& operator=(const Mesh&) = delete;

  // Once. False, on every rank alike, where there are too many ranks or some cannot reach another's memory (told in the
  // log). Errors: those of the exchange itself; others may have succeeded then, and use this rank's buffer.
  Result<bool> connect(net::Bootstrap& bootstrap);

  // Each rank's buffer: kernel addresses on this rank's device.
  const std::vector<void*>& buffers() const { return buffers_; }

 private:
  Status open(const std::vector<net::LinkBlob>& handles);

  const Peers& peers_;
  net::MemoryPort& memory_;
  const size_t bytes_;
  CauseLog& causes_;
  std::vector<void*> buffers_;
};

}  // namespace gpucoll::core
