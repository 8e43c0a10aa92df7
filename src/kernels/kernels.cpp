#include "kernels/kernels.h"

#include <array>

#include "gpucoll/gpucoll.h"
#include "kernels/kernel_list.h"

namespace gpucoll::coll {

// Declares what the shards define. A __global__ function's address on the host is the handle by which it is launched.
#define GC_DECLARE_REDUCTION(family, name, Reduction, element, type, other) \
  GC_DECLARE(one_shot_##name) GC_DECLARE(pairs_##name) GC_DECLARE(open_pairs_##name)
#define GC_DECLARE_FAMILY(family) \
  GC_DECLARE(plan_##family)       \
  GC_DECLARE(open_rings_##family) GC_DECLARE(local_##family) GC_REDUCTIONS_##family(GC_DECLARE_REDUCTION)
#define GC_DECLARE_MOVE GC_DECLARE(plan_move) GC_DECLARE(pairs_move) GC_DECLARE(one_shot_move) GC_DECLARE(packing)
#define GC_DECLARE(name) void name(const gpu::EmuBlock& block, const proto::Plan& plan);
namespace on_emu {
GC_REDUCING_FAMILIES(GC_DECLARE_FAMILY)
GC_DECLARE_MOVE
}  // namespace on_emu
#undef GC_DECLARE
#if defined(HAVE_CUDA)
#define GC_DECLARE(name) void name(const proto::Plan plan);
namespace on_cuda {
GC_REDUCING_FAMILIES(GC_DECLARE_FAMILY)
GC_DECLARE_MOVE
}  // namespace on_cuda
#undef GC_DECLARE
#define GC_CUDA_ADDRESS(name) reinterpret_cast<const void*>(&on_cuda::name)
#else
#define GC_CUDA_ADDRESS(name) nullptr
#endif

namespace {

// A family's kernels come before its reductions' own.
enum Index : int {
#define GC_INDEX_REDUCTION(family, name, Reduction, element, type, other) \
  k_one_shot_##name, k_pairs_##name, k_open_pairs_##name,
#define GC_INDEX_FAMILY(family) \
  k_plan_##family, k_open_rings_##family, k_local_##family, GC_REDUCTIONS_##family(GC_INDEX_REDUCTION)
  GC_REDUCING_FAMILIES(GC_INDEX_FAMILY) k_plan_move,
  k_pairs_move,
  k_one_shot_move,
  k_packing
#undef GC_INDEX_FAMILY
#undef GC_INDEX_REDUCTION
};

#define GC_KERNEL(name) gpu::Kernel{#name, GC_CUDA_ADDRESS(name), on_emu::name},
#define GC_REDUCTION_KERNELS(family, name, Reduction, element, type, other) \
  GC_KERNEL(one_shot_##name) GC_KERNEL(pairs_##name) GC_KERNEL(open_pairs_##name)
#define GC_FAMILY_KERNELS(family) \
  GC_KERNEL(plan_##family)        \
  GC_KERNEL(open_rings_##family) GC_KERNEL(local_##family) GC_REDUCTIONS_##family(GC_REDUCTION_KERNELS)
const gpu::Kernel kKernels[] = {GC_REDUCING_FAMILIES(GC_FAMILY_KERNELS) GC_KERNEL(plan_move) GC_KERNEL(pairs_move)
                                    GC_KERNEL(one_shot_move) GC_KERNEL(packing)};
#undef GC_FAMILY_KERNELS
#undef GC_REDUCTION_KERNELS
#undef GC_KERNEL

// A reduction's name in the list, and its enumerator.
namespace operation {
constexpr proto::RedOp Sum = proto::RedOp::sum, Prod = proto::RedOp::prod, Max = proto::RedOp::max,
                       Min = proto::RedOp::min, Band = proto::RedOp::band, Bor = proto::RedOp::bor,
                       Bxor = proto::RedOp::bxor, Land = proto::RedOp::land, Lor = proto::RedOp::lor,
                       Lxor = proto::RedOp::lxor, Maxloc = proto::RedOp::maxloc, Minloc = proto::RedOp::minloc,
                       Avg = proto::RedOp::avg, PreMulSum = proto::RedOp::pre_mul_sum;
}

using Table = std::array<std::array<core::CollectiveKernels, proto::kRedOps>, proto::kDataTypes>;

// plan, open_rings, local: of the family; the others of the reduction.
template <class Red, class Family>
core::CollectiveKernels kernels_of(int plan, int open_rings, int local, int one_shot, int pairs, int open_pairs) {
  const auto kernel = [](int index, bool is_there = true) { return is_there ? &kKernels[index] : nullptr; };
  return {kernel(plan),
          kernel(pairs),
          kernel(one_shot),
          kernel(open_rings, proto::kMayOpen<Red>),
          kernel(open_pairs, proto::kMayOpen<Red>),
          kernel(local, !proto::kHasOwnPre<Red>),
          static_cast<uint8_t>(proto::family_place<Red>(Family{}))};
}

Table make_table() {
  Table table{};
  using namespace proto;
#define GC_ADD(family, name, Reduction, element, type, other)                                                      \
  for (DataType t : {DataType::type, DataType::other})                                                             \
    table[static_cast<size_t>(t)][static_cast<size_t>(operation::Reduction)] =                                     \
        kernels_of<Reduction<element>, families::family>(k_plan_##family, k_open_rings_##family, k_local_##family, \
                                                         k_one_shot_##name, k_pairs_##name, k_open_pairs_##name);
#define GC_ADD_FAMILY(family) GC_REDUCTIONS_##family(GC_ADD)
  GC_ALL_FAMILIES(GC_ADD_FAMILY)
#undef GC_ADD_FAMILY
#undef GC_ADD
  return table;
}

#define GC_SAME(ours, c_name) static_assert(static_cast<int>(proto::ours) == gpucoll##c_name)
static_assert(proto::kDataTypes == gpucollNumTypes);
static_assert(proto::kRedOps == gpucollNumOps + 1);  // pre_mul_sum has no name there
GC_SAME(DataType::int8, Int8);
GC_SAME(DataType::uint8, Uint8);
GC_SAME(DataType::int32, Int32);
GC_SAME(DataType::uint32, Uint32);
GC_SAME(DataType::int64, Int64);
GC_SAME(DataType::uint64, Uint64);
GC_SAME(DataType::float16, Float16);
GC_SAME(DataType::float32, Float32);
GC_SAME(DataType::float64, Float64);
GC_SAME(DataType::bfloat16, Bfloat16);
GC_SAME(DataType::int16, Int16);
GC_SAME(DataType::uint16, Uint16);
GC_SAME(DataType::complex64, Complex64);
GC_SAME(DataType::complex128, Complex128);
GC_SAME(DataType::float_int, FloatInt);
GC_SAME(DataType::double_int, DoubleInt);
GC_SAME(DataType::long_int, LongInt);
GC_SAME(DataType::int_int, IntInt);
GC_SAME(DataType::short_int, ShortInt);
GC_SAME(DataType::float_float, FloatFloat);
GC_SAME(DataType::double_double, DoubleDouble);
GC_SAME(DataType::float8_e4m3, Float8e4m3);
GC_SAME(DataType::float8_e5m2, Float8e5m2);
GC_SAME(RedOp::sum, Sum);
GC_SAME(RedOp::prod, Prod);
GC_SAME(RedOp::max, Max);
GC_SAME(RedOp::min, Min);
GC_SAME(RedOp::band, Band);
GC_SAME(RedOp::bor, Bor);
GC_SAME(RedOp::bxor, Bxor);
GC_SAME(RedOp::land, Land);
GC_SAME(RedOp::lor, Lor);
GC_SAME(RedOp::lxor, Lxor);
GC_SAME(RedOp::maxloc, Maxloc);
GC_SAME(RedOp::minloc, Minloc);
GC_SAME(RedOp::avg, Avg);
#undef GC_SAME

}  // namespace

core::CollectiveKernels reduction_kernels(proto::DataType type, proto::RedOp op) noexcept {
  static const Table table = make_table();
  const auto row = static_cast<size_t>(type), column = static_cast<size_t>(op);
  if (row >= table.size() || column >= table[0].size()) return {};
  return table[row][column];
}

#if !defined(GC_KERNEL_SUBSET)
#define GC_ONE_MORE(family) +1
static_assert(GC_KNOWN_FAMILIES(GC_ONE_MORE) == GC_REDUCING_FAMILIES(GC_ONE_MORE));
#undef GC_ONE_MORE
#endif
bool has_meaning(proto::DataType type, proto::RedOp op) noexcept {
  using proto::DataType;
#define GC_HAS(family, name, Reduction, element, one, other) \
  if (op == operation::Reduction && (type == DataType::one || type == DataType::other)) return true;
#define GC_FAMILY_HAS(family) GC_REDUCTIONS_##family(GC_HAS)
  GC_KNOWN_FAMILIES(GC_FAMILY_HAS)
#undef GC_FAMILY_HAS
#undef GC_HAS
  return false;
}

const gpu::Kernel* move_kernel() noexcept { return &kKernels[k_plan_move]; }

core::CollectiveKernels moving_kernels() noexcept {
  core::CollectiveKernels kernels = {};
  kernels.pairs = &kKernels[k_pairs_move];
  kernels.one_shot = &kKernels[k_one_shot_move];
  return kernels;
}

const gpu::Kernel* packing_kernel() noexcept { return &kKernels[k_packing]; }

std::span<const gpu::Kernel> all_kernels() noexcept { return kKernels; }

}  // namespace gpucoll::coll
