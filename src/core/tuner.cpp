#include "core/tuner.h"

#include <algorithm>

#include "proto/format/mesh.h"

namespace gpucoll::core {
namespace {

uint64_t ceil_div(uint64_t a, uint64_t b) { return (a + b - 1) / b; }

// A ring channel pays from this many bytes of a rank's share on: below, its 2(n - 1) hand-overs cost more.
constexpr uint64_t kRingBytesPerChannel = 16384;
// One pass of 512 threads with a pack of 16 bytes each.
constexpr uint64_t kOneShotBytesPerChannel = 8192;
constexpr uint64_t kPackBytes = 16;
constexpr int kWarpThreads = 32;

// One-shot sends everything to everyone: n - 1 times the bytes, so it loses earlier with more ranks. A channel's
// share may be a whole granule of 128 bytes above the mean, hence the distance from the mesh's limit.
bool one_shot_pays(uint64_t bytes, const CommShape& shape) {
  constexpr uint64_t kMost = proto::kMeshChannels * (proto::kMeshChannelData - 128);
  return shape.mesh && bytes <= std::min(shape.one_shot_bytes / static_cast<uint64_t>(shape.n_ranks), kMost);
}

int clamp_channels(uint64_t wanted, int most) {
  return static_cast<int>(std::clamp<uint64_t>(wanted, 1, static_cast<uint64_t>(most)));
}

}  // namespace

Choice choose(uint64_t bytes, const CommShape& shape) {
  if (!one_shot_pays(bytes, shape)) {
    uint64_t share = bytes / static_cast<uint64_t>(std::max(shape.n_ranks, 1));
    return {Algorithm::ring, clamp_channels(ceil_div(share, kRingBytesPerChannel), shape.n_channels), shape.threads};
  }
  int channels = clamp_channels(ceil_div(bytes, kOneShotBytesPerChannel), proto::kMeshChannels);
  uint64_t packs = ceil_div(ceil_div(bytes, static_cast<uint64_t>(channels)), kPackBytes);
  auto useful = static_cast<int>(std::min<uint64_t>(ceil_div(packs, kWarpThreads) * kWarpThreads, 1024));
  return {Algorithm::one_shot, channels, std::min(useful, shape.threads)};
}

}  // namespace gpucoll::core
