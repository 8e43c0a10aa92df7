#include "coll/kernels.h"

#include <array>

#include "coll/kernel_list.h"
#include "gpucoll/gpucoll.h"

namespace gpucoll::coll {

// What the shards define. A __global__ function's address on the host is the handle by which it is launched.
#define GC_DECLARE(name, reduction, element, type, other)                           \
  void all_reduce_ring_##name(const gpu::EmuBlock& block, const proto::Plan& plan); \
  void all_reduce_one_shot_##name(const gpu::EmuBlock& block, const proto::Plan& plan);
namespace on_emu {
GC_ALL_KERNELS(GC_DECLARE)
}
#undef GC_DECLARE
#if defined(HAVE_CUDA)
#define GC_DECLARE(name, reduction, element, type, other) \
  void all_reduce_ring_##name(const proto::Plan plan);    \
  void all_reduce_one_shot_##name(const proto::Plan plan);
namespace on_cuda {
GC_ALL_KERNELS(GC_DECLARE)
}
#undef GC_DECLARE
#define GC_CUDA_ADDRESS(name) reinterpret_cast<const void*>(&on_cuda::name)
#else
#define GC_CUDA_ADDRESS(name) nullptr
#endif

namespace {

constexpr size_t kAlgorithms = 2;

struct Entry {
  gpu::Kernel kernels[kAlgorithms];  // by Algorithm
  proto::DataType type, other;
  proto::RedOp op;
};

// A reduction's name in the list, and its enumerator.
namespace operation {
constexpr proto::RedOp Sum = proto::RedOp::sum, Prod = proto::RedOp::prod, Max = proto::RedOp::max,
                       Min = proto::RedOp::min, Band = proto::RedOp::band, Bor = proto::RedOp::bor,
                       Bxor = proto::RedOp::bxor, Land = proto::RedOp::land, Lor = proto::RedOp::lor,
                       Lxor = proto::RedOp::lxor, Maxloc = proto::RedOp::maxloc, Minloc = proto::RedOp::minloc;
}

#define GC_KERNEL(name) \
  { #name, GC_CUDA_ADDRESS(name), on_emu::name }
#define GC_ENTRY(name, reduction, element, type, other)                             \
  Entry{{GC_KERNEL(all_reduce_ring_##name), GC_KERNEL(all_reduce_one_shot_##name)}, \
        proto::DataType::type,                                                      \
        proto::DataType::other,                                                     \
        operation::reduction},
const Entry kEntries[] = {GC_ALL_KERNELS(GC_ENTRY)};
#undef GC_ENTRY
#undef GC_KERNEL

using Table = std::array<std::array<const Entry*, proto::kRedOps>, proto::kDataTypes>;

Table make_table() {
  Table table{};
  for (const Entry& entry : kEntries) {
    for (proto::DataType type : {entry.type, entry.other}) {
      table[static_cast<size_t>(type)][static_cast<size_t>(entry.op)] = &entry;
    }
  }
  return table;
}

#define GC_SAME(ours, c_name) static_assert(static_cast<int>(proto::ours) == gpucoll##c_name)
static_assert(proto::kDataTypes == gpucollNumTypes && proto::kRedOps == gpucollNumOps);
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
#undef GC_SAME

}  // namespace

const gpu::Kernel* all_reduce_kernel(proto::DataType type, proto::RedOp op, Algorithm algorithm) noexcept {
  static const Table table = make_table();
  const auto row = static_cast<size_t>(type), column = static_cast<size_t>(op);
  if (row >= table.size() || column >= table[0].size() || table[row][column] == nullptr) return nullptr;
  return &table[row][column]->kernels[static_cast<size_t>(algorithm)];
}

int all_reduce_kernel_count() noexcept { return static_cast<int>(std::size(kEntries) * kAlgorithms); }

const gpu::Kernel* all_reduce_kernel_at(int i) noexcept {
  return &kEntries[static_cast<size_t>(i) / kAlgorithms].kernels[static_cast<size_t>(i) % kAlgorithms];
}

}  // namespace gpucoll::coll
