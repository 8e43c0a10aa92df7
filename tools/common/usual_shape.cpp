#include "common/usual_shape.h"

#include <bit>

#include "base/params.h"
#include "core/tuning_file.h"
#include "gpu/device.h"
#include "proto/format/mesh.h"

namespace gpucoll::tools {
namespace {

int chosen(int64_t parameter, int otherwise) { return parameter ? static_cast<int>(parameter) : otherwise; }

}  // namespace

Result<core::CommShape> usual_shape(bool emulated, int n_ranks) {
  core::CommShape shape;
  shape.n_ranks = n_ranks;
  shape.emulated = emulated;
  const gpu::Device::Defaults& defaults = emulated ? gpu::Device::kEmulatedDefaults : gpu::Device::kGpuDefaults;
  const bool p2p = params().transport != kTransportShm;
  shape.n_channels = chosen(params().channels, defaults.channels);
  const int pair_channels = chosen(params().pair_channels, defaults.pair_channels);
  shape.n_pair_channels = static_cast<int>(std::bit_floor(static_cast<unsigned>(pair_channels)));
  shape.threads = chosen(params().threads, defaults.threads);
  shape.warp = emulated ? 1 : 32;
  shape.one_shot_bytes =
      params().one_shot_bytes ? static_cast<uint64_t>(params().one_shot_bytes) : defaults.one_shot_bytes;
  shape.mesh = p2p && shape.n_ranks > 1 && shape.n_ranks <= proto::kMeshMaxRanks &&
               shape.one_shot_bytes >= static_cast<uint64_t>(shape.n_ranks);
  shape.ll128 = p2p;
  const auto copy_bytes = static_cast<uint64_t>(params().copy_engine_bytes);
  if (p2p && copy_bytes != 1) {
    shape.copy_bytes = copy_bytes ? copy_bytes : defaults.copy_engine_bytes;
    const auto wished = static_cast<uint64_t>(params().copy_reduction_bytes);
    const uint64_t reduction_bytes = wished ? wished : defaults.copy_reduction_bytes;
    if (reduction_bytes != 1) shape.copy_reduction_bytes = reduction_bytes;
  }
  GC_TRY_AS(shape.table, core::tuning_table(emulated, n_ranks));
  return shape;
}

}  // namespace gpucoll::tools
