#include "core/connect/mesh.h"

#include <cstdio>
#include <cstring>
#include <string>

#include "base/observe/causes.h"
#include "proto/format/mesh.h"

namespace gpucoll::core {
namespace {

struct MeshMessage {
  net::LinkBlob handle;
  uint32_t code;  // gpucoll::Code: what went wrong on this rank
  char text[124];
};

MeshMessage message(const net::LinkBlob& handle, const Status& status) {
  MeshMessage m = {handle, static_cast<uint32_t>(status.code()), {}};
  std::snprintf(m.text, sizeof m.text, "%s", status.what());
  return m;
}

// True if no rank reports a failure; the first one is logged.
Result<bool> agree(net::Bootstrap& bootstrap, const Peers& peers, CauseLog& causes, const MeshMessage& mine,
                   std::vector<MeshMessage>& all) {
  GC_TRY(bootstrap.allgather(&mine, all.data(), sizeof mine));
  for (size_t r = 0; r < all.size(); ++r) {
    if (!all[r].code) continue;
    const std::string text(all[r].text, strnlen(all[r].text, sizeof all[r].text));
    causes.tell(Cause::no_mesh, "a collective", (peers.name(static_cast<int>(r)) + ": " + text).c_str());
    return false;
  }
  return true;
}

}  // namespace

Result<bool> Mesh::connect(net::Bootstrap& bootstrap) {
  if (peers_.size() < 2 || peers_.size() > proto::kMeshMaxRanks) return false;
  std::vector<MeshMessage> all(static_cast<size_t>(peers_.size()));
  net::LinkBlob handle = {};
  auto own = contained([&] { return memory_.allocate(bytes_, &handle); });
  if (own) buffers_[static_cast<size_t>(peers_.rank())] = *own;
  GC_TRY_AS(const bool allocated,
            agree(bootstrap, peers_, causes_, message(handle, own ? Status() : own.status()), all));
  if (!allocated) return false;
  std::vector<net::LinkBlob> handles;
  for (const MeshMessage& m : all) handles.push_back(m.handle);
  return agree(bootstrap, peers_, causes_, message(handle, contained([&] { return open(handles); })), all);
}

Status Mesh::open(const std::vector<net::LinkBlob>& handles) {
  for (size_t r = 0; r < handles.size(); ++r) {
    if (static_cast<int>(r) == peers_.rank()) continue;
    GC_TRY_AS(buffers_[r], memory_.open(handles[r]));
  }
  return {};
}

Mesh::~Mesh() {
  for (size_t r = 0; r < buffers_.size(); ++r) {
    if (!buffers_[r]) continue;
    if (static_cast<int>(r) == peers_.rank())
      memory_.release(buffers_[r]);
    else
      memory_.close(buffers_[r]);
  }
}

}  // namespace gpucoll::core
