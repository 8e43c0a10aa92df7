// The table of kernels: each data type and operation gives the kernel that computes it, on the emulated device.
#include "coll/kernels.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "crew.h"
#include "world.h"

namespace gpucoll {
namespace {

using proto::DataType;
using proto::RedOp;

constexpr int kRanks = 3, kChannels = 2, kThreads = 2;
constexpr uint64_t kCount = 150;

// Values whose sums and products are exact in every type, whatever the order.
template <class T>
T sample(std::mt19937& random) {
  const int small = static_cast<int>(random() % 9) - 4;
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(random() % 4 == 0 ? random() : static_cast<unsigned>(small));
  else
    return static_cast<T>(small);
}
template <>
proto::Half sample(std::mt19937& random) {
  return proto::to_half(sample<float>(random));
}
template <>
proto::Bfloat16 sample(std::mt19937& random) {
  return proto::to_bfloat16(sample<float>(random));
}
template <class T>
void draw(T& value, std::mt19937& random) {
  value = sample<T>(random);
}
template <class T>
void draw(proto::Complex<T>& value, std::mt19937& random) {
  draw(value.re, random);
  draw(value.im, random);
}
template <class V, class I>
void draw(proto::Pair<V, I>& pair, std::mt19937& random) {
  pair.value = static_cast<V>(random() % 3);  // often equal
  pair.index = static_cast<I>(random() % 100);
}

template <class T>
bool same(const T& a, const T& b) {
  return std::memcmp(&a, &b, sizeof(T)) == 0;
}
// A zero's sign depends on the order of the ranks.
template <class T>
bool same(const proto::Complex<T>& a, const proto::Complex<T>& b) {
  return a.re == b.re && a.im == b.im;
}
template <class V, class I>
bool same(const proto::Pair<V, I>& a, const proto::Pair<V, I>& b) {
  return a.value == b.value && a.index == b.index;
}

void run(const gpu::Kernel& kernel, std::vector<proto::Plan>& plans, test::World& world) {
  uint64_t done[kRanks] = {};
  for (int r = 0; r < kRanks; ++r) {
    proto::Plan& plan = plans[static_cast<size_t>(r)];
    plan.comm = &world.comm(r);
    plan.done_word = &done[r];
    plan.done_value = 1;
    plan.channel_mask = (1u << kChannels) - 1;
    plan.n_items = 1;
  }
  test::run_grids(kRanks, kChannels, kThreads,
                  [&](int rank, const gpu::EmuBlock& block) { kernel.emu(block, plans[static_cast<size_t>(rank)]); });
  for (uint64_t word : done) EXPECT_EQ(word, 1u);
}

using Pairs = std::set<std::pair<DataType, RedOp>>;
Pairs checked;

template <class Red>
void check(DataType type, RedOp op, coll::Algorithm algorithm) {
  using T = typename Red::Element;
  const gpu::Kernel* const kernel = coll::all_reduce_kernel(type, op, algorithm);
  ASSERT_NE(kernel, nullptr) << "type " << static_cast<int>(type) << ", operation " << static_cast<int>(op);
  std::mt19937 random(static_cast<uint32_t>(op));
  std::vector<std::vector<T>> in(kRanks, std::vector<T>(kCount)), out = in;
  for (auto& buffer : in) {
    for (T& value : buffer) draw(value, random);
  }
  test::World world(kRanks, kChannels, 128);
  world.add_mesh();
  std::vector<proto::Plan> plans(kRanks);
  const uint32_t flag = algorithm == coll::Algorithm::one_shot ? 1 : 0;
  for (size_t r = 0; r < in.size(); ++r) {
    plans[r].items[0] = {in[r].data(), out[r].data(), kCount, kChannels, {flag}};
  }
  run(*kernel, plans, world);
  for (uint64_t i = 0; i < kCount; ++i) {
    const T want = Red::apply(Red::apply(in[0][i], in[1][i]), in[2][i]);
    for (const auto& buffer : out) ASSERT_TRUE(same(buffer[i], want)) << kernel->name << ", element " << i;
  }
}
template <class Red>
void check(DataType type, RedOp op) {
  checked.insert({type, op});
  check<Red>(type, op, coll::Algorithm::ring);
  check<Red>(type, op, coll::Algorithm::one_shot);
}

template <class T>
void check_arithmetic(DataType type) {
  check<proto::Sum<T>>(type, RedOp::sum);
  check<proto::Prod<T>>(type, RedOp::prod);
}
template <class T>
void check_ordered(DataType type) {
  check_arithmetic<T>(type);
  check<proto::Max<T>>(type, RedOp::max);
  check<proto::Min<T>>(type, RedOp::min);
}
template <class T>
void check_integer(DataType type) {
  check_ordered<T>(type);
  check<proto::Band<T>>(type, RedOp::band);
  check<proto::Bor<T>>(type, RedOp::bor);
  check<proto::Bxor<T>>(type, RedOp::bxor);
  check<proto::Land<T>>(type, RedOp::land);
  check<proto::Lor<T>>(type, RedOp::lor);
  check<proto::Lxor<T>>(type, RedOp::lxor);
}
template <class T>
void check_pair(DataType type) {
  check<proto::Maxloc<T>>(type, RedOp::maxloc);
  check<proto::Minloc<T>>(type, RedOp::minloc);
}

TEST(Kernels, ComputeWhatTheTableSaysAndNothingElseIsThere) {
  check_integer<int8_t>(DataType::int8);
  check_integer<uint8_t>(DataType::uint8);
  check_integer<int16_t>(DataType::int16);
  check_integer<uint16_t>(DataType::uint16);
  check_integer<int32_t>(DataType::int32);
  check_integer<uint32_t>(DataType::uint32);
  check_integer<int64_t>(DataType::int64);
  check_integer<uint64_t>(DataType::uint64);
  check_ordered<proto::Half>(DataType::float16);
  check_ordered<proto::Bfloat16>(DataType::bfloat16);
  check_ordered<float>(DataType::float32);
  check_ordered<double>(DataType::float64);
  check_arithmetic<proto::Complex<float>>(DataType::complex64);
  check_arithmetic<proto::Complex<double>>(DataType::complex128);
  check_pair<proto::FloatInt>(DataType::float_int);
  check_pair<proto::DoubleInt>(DataType::double_int);
  check_pair<proto::LongInt>(DataType::long_int);
  check_pair<proto::IntInt>(DataType::int_int);
  check_pair<proto::ShortInt>(DataType::short_int);
  check_pair<proto::FloatFloat>(DataType::float_float);
  check_pair<proto::DoubleDouble>(DataType::double_double);
  for (int type = -1; type <= proto::kDataTypes; ++type) {
    for (int op = -1; op <= proto::kRedOps; ++op) {
      const auto t = static_cast<DataType>(type);
      const auto o = static_cast<RedOp>(op);
      for (coll::Algorithm algorithm : {coll::Algorithm::ring, coll::Algorithm::one_shot})
        EXPECT_EQ(coll::all_reduce_kernel(t, o, algorithm) != nullptr, checked.count({t, o}) == 1) << type << " " << op;
    }
  }
}

TEST(Kernels, HaveNamesOfTheirOwnAndAnEmulatedForm) {
  std::set<std::string> names;
  for (int i = 0; i < coll::all_reduce_kernel_count(); ++i) {
    const gpu::Kernel* const kernel = coll::all_reduce_kernel_at(i);
    EXPECT_TRUE(names.insert(kernel->name).second) << kernel->name;
    EXPECT_NE(kernel->emu, nullptr);
#if defined(HAVE_CUDA)
    EXPECT_NE(kernel->cuda, nullptr);
#else
    EXPECT_EQ(kernel->cuda, nullptr);
#endif
  }
}

}  // namespace
}  // namespace gpucoll
