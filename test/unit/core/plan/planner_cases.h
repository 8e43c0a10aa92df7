// For tests of the planner: kernels, properties and tasks to plan for, some of them drawn.
#pragma once
#include <algorithm>
#include <bit>
#include <random>

#include "core/plan/planner.h"

namespace gpucoll::core {

inline const gpu::Kernel kMove = {"move", nullptr, nullptr};
inline const gpu::Kernel kFloat = {"float", nullptr, nullptr};
inline const gpu::Kernel kInt = {"int", nullptr, nullptr};
inline const gpu::Kernel kFloatMesh = {"float in a mesh", nullptr, nullptr};
inline const gpu::Kernel kMoveMesh = {"move in a mesh", nullptr, nullptr};
inline const gpu::Kernel kFloatPairs = {"float by all pairs", nullptr, nullptr};
inline const gpu::Kernel kIntPairs = {"int by all pairs", nullptr, nullptr};
inline const gpu::Kernel kMovePairs = {"move by all pairs", nullptr, nullptr};
inline const gpu::Kernel kFloatOpenPairs = {"float on all buffers, or by all pairs", nullptr, nullptr};
inline const gpu::Kernel kFloatOpenRings = {"float on all buffers, or round the ring", nullptr, nullptr};

using Random = std::mt19937;
inline uint64_t draw(Random& random, uint64_t least, uint64_t most) {
  return std::uniform_int_distribution<uint64_t>(least, most)(random);
}
// Many small ones, few large ones.
inline uint64_t draw_bytes(Random& random) { return draw(random, 0, uint64_t{1} << draw(random, 0, 22)); }

inline CommProperties gpu_shape(int n_ranks) {
  CommProperties shape;
  shape.n_ranks = n_ranks;
  shape.n_channels = 32;
  shape.n_pair_channels = 16;
  shape.threads = 512;
  shape.warp = 32;
  return shape;
}
inline CommProperties emulated_shape(int n_ranks) {
  CommProperties shape;
  shape.n_ranks = n_ranks;
  shape.n_channels = shape.n_pair_channels = 2;
  shape.emulated = true;
  return shape;
}
inline CommProperties draw_shape(Random& random, int n_ranks) {
  CommProperties shape = draw(random, 0, 1) ? gpu_shape(n_ranks) : emulated_shape(n_ranks);
  shape.n_channels = static_cast<int>(draw(random, 1, 32));
  shape.n_pair_channels = 1 << draw(random, 0, 5);
  if (!shape.emulated) shape.threads = static_cast<int>(32 * draw(random, 1, 16));
  shape.mesh = draw(random, 0, 1);
  shape.one_shot_bytes = 1 << 18;
  shape.capturing = draw(random, 0, 3) == 0;
  shape.ll128 = draw(random, 0, 1);
  shape.line_mesh = shape.mesh && shape.ll128 && draw(random, 0, 3) != 0;
  shape.all_pairs_bytes = uint64_t{1} << draw(random, 10, 20);
  if (shape.mesh && n_ranks <= proto::kZeroCopyRanks && draw(random, 0, 1))
    shape.zero_copy_bytes = uint64_t{1} << draw(random, 10, 20);
  return shape;
}

// A buffer that names its task.
inline void* buffer(uint64_t task) { return reinterpret_cast<void*>((task + 1) * 4096); }

inline CollectiveTask collective(Function function, const gpu::Kernel* kernel, uint64_t count, uint64_t number) {
  CollectiveTask task{};
  task.function = function;
  task.kernels.plan = kernel;
  task.kernels.one_shot = kernel == &kFloat ? &kFloatMesh : kernel == nullptr ? &kMoveMesh : nullptr;
  task.kernels.pairs = kernel == &kFloat ? &kFloatPairs : kernel == nullptr ? &kMovePairs : &kIntPairs;
  if (kernel == &kFloat) {
    task.kernels.open_rings = &kFloatOpenRings;
    task.kernels.open_pairs = &kFloatOpenPairs;
  }
  task.kernels.op = kernel ? 3 : 0;
  task.send = buffer(number);
  task.recv = buffer(number + 1);
  task.count = count;
  task.element_bytes = 4;
  return task;
}

inline CollectiveTask draw_collective(Random& random, uint64_t number) {
  const auto function = static_cast<Function>(draw(random, 1, 5));
  const bool moves = function == Function::broadcast || function == Function::all_gather;
  CollectiveTask task = collective(function,
                                   moves                ? nullptr
                                   : draw(random, 0, 1) ? &kFloat
                                                        : &kInt,
                                   draw_bytes(random) / 4, number);
  task.root = static_cast<uint32_t>(draw(random, 0, 1));
  return task;
}

}  // namespace gpucoll::core
