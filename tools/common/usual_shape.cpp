#include "common/usual_shape.h"

#include <bit>

#include "base/params.h"
#include "core/peer/device_link.h"
#include "core/plan/copy_engine_limits.h"
#include "core/plan/copy_engine_reduction.h"
#include "core/plan/tuning_file.h"
#include "gpu/device.h"
#include "proto/format/mesh.h"

namespace gpucoll::tools {
namespace {

// Asks about all GPUs here; where there are none, those that are asked about are taken to have NVLink.
bool gpus_take_lines() {
  gpu::Platform* const cuda = gpu::cuda_platform();
  const auto count = cuda ? cuda->device_count() : Result<int>(0);
  for (int i = 0; count && i < *count; ++i) {
    const auto device = cuda->open(i);
    for (int j = 0; device && j < *count; ++j)
      if (const auto peer = cuda->open(j);
          peer && !core::takes_lines(core::link_between(**device, (*peer)->identity())))
        return false;
  }
  return true;
}

}  // namespace

Result<core::CommProperties> usual_shape(bool emulated, int n_ranks) {
  core::CommProperties shape;
  GC_TRY_AS(shape.table, core::tuning_table(emulated, n_ranks));
  shape.n_ranks = n_ranks;
  shape.emulated = emulated;
  const gpu::Device::Defaults& defaults = emulated ? gpu::Device::kEmulatedDefaults : gpu::Device::kGpuDefaults;
  const bool p2p = params().transport != kTransportShm;
  shape.n_channels = param_or(params().channels, defaults.channels);
  const int pair_channels = param_or(params().send_recv_channels, defaults.pair_channels);
  shape.n_pair_channels = static_cast<int>(std::bit_floor(static_cast<unsigned>(pair_channels)));
  shape.threads = param_or(params().threads, defaults.threads);
  shape.warp = emulated ? 1 : 32;
  shape.one_shot_bytes = param_or(params().one_shot_bytes, defaults.one_shot_bytes);
  shape.mesh = p2p && shape.n_ranks > 1 && shape.n_ranks <= proto::kMeshMaxRanks &&
               shape.one_shot_bytes >= static_cast<uint64_t>(shape.n_ranks);
  shape.ll128 = p2p && (emulated || gpus_take_lines());
  shape.all_pairs_bytes = param_or(params().all_pairs_bytes, defaults.all_pairs_bytes);
  if (shape.mesh) shape.zero_copy_bytes = core::least_zero_copy(defaults, n_ranks, shape.table);
  shape.line_mesh = shape.mesh && shape.ll128 && shape.all_pairs_bytes != 0;
  if (p2p) shape.copies = core::copy_engine_limits(defaults, n_ranks, shape.table, false);
  shape.copies.piece = core::copy_piece_bytes(shape.copies.piece);
  return shape;
}

}  // namespace gpucoll::tools
