// Connects a mesh: every rank can store into a buffer of every other (proto/format/mesh.h).
//
// Collective; all ranks get a mesh or none does. Ownership: the Mesh owns this rank's buffer and the openings of the
// others'; destroy it only when all ranks are done with this rank's memory.
#pragma once
#include <memory>
#include <vector>

#include "core/peers.h"
#include "net/bootstrap.h"
#include "net/transport.h"

namespace gpucoll::core {

class Mesh {
 public:
  // Null, on every rank alike, where there are too many ranks or some cannot reach another's memory (told in the log).
  // Errors: those of the exchange itself.
  static Result<std::unique_ptr<Mesh>> connect(net::Bootstrap& bootstrap, const Peers& peers, net::MemoryPort& memory);
  ~Mesh();
  Mesh(const Mesh&) = delete;
  Mesh& operator=(const Mesh&) = delete;

  // Each rank's buffer: kernel addresses on this rank's device.
  const std::vector<void*>& buffers() const { return buffers_; }

 private:
  explicit Mesh(net::MemoryPort& memory, int rank, int size)
      : memory_(memory), rank_(rank), buffers_(static_cast<size_t>(size)) {}
  Status open(const std::vector<net::LinkBlob>& handles);

  net::MemoryPort& memory_;
  int rank_;
  std::vector<void*> buffers_;
};

}  // namespace gpucoll::core
