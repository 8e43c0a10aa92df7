// The table of kernels: each data type and operation gives the kernels that compute it, on the emulated device, with
// the bits of the order that the algorithm promises.
#include "kernels/kernels.h"

#include <set>
#include <string>

#include "collective_case.h"
#include "local_reduce_case.h"

namespace gpucoll {
namespace {

using proto::Algorithm;
using proto::DataType;
using proto::Function;
using proto::Protocol;
using proto::RedOp;
using test::Case;

std::set<std::pair<DataType, RedOp>> checked;

template <class T>
proto::Reduction reduction_of(RedOp op, int n_ranks, uint8_t place) {
  proto::Reduction reduction{place, static_cast<uint64_t>(n_ranks), 0};
  if (op != RedOp::pre_mul_sum) return reduction;
  std::mt19937_64 random(3);
  T scalar;
  test::draw(scalar, random);
  uint64_t words[2] = {};
  std::memcpy(words, &scalar, sizeof scalar);
  reduction.argument = words[0];
  reduction.argument_high = words[1];
  return reduction;
}

template <class Red>
void check(DataType type, RedOp op) {
  SCOPED_TRACE(testing::Message() << "type " << static_cast<int>(type) << ", operation " << static_cast<int>(op));
  checked.insert({type, op});
  const core::CollectiveKernels kernels = coll::reduction_kernels(type, op);
  ASSERT_TRUE(kernels.plan != nullptr && kernels.pairs != nullptr && kernels.one_shot != nullptr);
  const auto run = [&](Function function, Algorithm algorithm, Protocol protocol) {
    Case c{function, algorithm, protocol, 3, 2, 2, 150};
    c.reduction = reduction_of<typename Red::Element>(op, c.n_ranks, kernels.op);
    const gpu::Kernel& kernel = algorithm == Algorithm::one_shot    ? *kernels.one_shot
                                : algorithm == Algorithm::all_pairs ? *kernels.pairs
                                                                    : *kernels.plan;
    test::run_case<Red>(kernel.emu, c);
  };
  for (Protocol protocol : {Protocol::simple, Protocol::ll, Protocol::ll128}) {
    run(Function::all_reduce, Algorithm::ring, protocol);
    run(Function::all_reduce, Algorithm::tree, protocol);
  }
  run(Function::reduce, Algorithm::ring, Protocol::simple);
  run(Function::reduce_scatter, Algorithm::ring, Protocol::ll);
  for (Function function : {Function::all_reduce, Function::reduce, Function::reduce_scatter})
    run(function, Algorithm::one_shot, Protocol::ll);
  for (Function function : {Function::all_reduce, Function::reduce, Function::reduce_scatter})
    run(function, Algorithm::all_pairs, Protocol::ll128);
  ASSERT_EQ(kernels.open_rings != nullptr, proto::kMayOpen<Red>);
  ASSERT_EQ(kernels.open_pairs != nullptr, proto::kMayOpen<Red>);
  const auto run_open = [&](Function function, int closed_rank) {
    Case c{function, Algorithm::ring, Protocol::simple, 3, 2, 2, 160};
    c.reduction = reduction_of<typename Red::Element>(op, c.n_ranks, kernels.op);
    c.zero_copy = true;
    c.closed_rank = closed_rank;
    test::run_case<Red>(kernels.open_rings->emu, c);
    c.algorithm = Algorithm::all_pairs;
    c.protocol = Protocol::ll128;
    test::run_case<Red>(kernels.open_pairs->emu, c);
  };
  if (kernels.open_rings) {
    for (Function function : {Function::all_reduce, Function::reduce, Function::reduce_scatter}) {
      run_open(function, -1);
      run_open(function, 1);
    }
  }
  ASSERT_EQ(kernels.local == nullptr, op == RedOp::pre_mul_sum);
  if (kernels.local) {
    test::LocalCase c{5, 3, 150, 2, 2};
    c.reduction = {kernels.op, c.n_ranks, 0};
    test::run_local_case<Red>(kernels.local->emu, c);
  }
}

template <class T>
void check_arithmetic(DataType type) {
  check<proto::Sum<T>>(type, RedOp::sum);
  check<proto::Prod<T>>(type, RedOp::prod);
  check<proto::Avg<T>>(type, RedOp::avg);
  check<proto::PreMulSum<T>>(type, RedOp::pre_mul_sum);
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
  check_ordered<proto::Float8E4m3>(DataType::float8_e4m3);
  check_ordered<proto::Float8E5m2>(DataType::float8_e5m2);
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
      EXPECT_EQ(coll::reduction_kernels(t, o).plan != nullptr, checked.count({t, o}) == 1) << type << " " << op;
      EXPECT_EQ(coll::reduction_kernels(t, o).one_shot != nullptr, checked.count({t, o}) == 1) << type << " " << op;
    }
  }
}

// Every kernel of plans moves data, whatever its family.
TEST(Kernels, OfEveryFamilyMoveData) {
  int movers = 0;
  for (const gpu::Kernel& kernel : coll::all_kernels()) {
    if (std::strncmp(kernel.name, "plan_", 5) != 0) continue;
    SCOPED_TRACE(kernel.name);
    ++movers;
    for (Protocol protocol : {Protocol::simple, Protocol::ll, Protocol::ll128}) {
      test::run_case<proto::Sum<int16_t>>(kernel.emu, {Function::broadcast, Algorithm::ring, protocol, 3, 2, 2, 333});
      test::run_case<proto::Sum<int16_t>>(kernel.emu, {Function::all_gather, Algorithm::ring, protocol, 3, 2, 2, 333});
    }
    for (Function function : {Function::broadcast, Function::all_gather})
      test::run_case<proto::Sum<int16_t>>(kernel.emu, {function, Algorithm::all_pairs, Protocol::ll128, 3, 2, 2, 333});
  }
  EXPECT_GT(movers, 2);
  EXPECT_STREQ(coll::move_kernel()->name, "plan_move");
  for (Function function : {Function::broadcast, Function::all_gather})
    test::run_case<proto::Sum<int16_t>>(coll::moving_kernels().one_shot->emu,
                                        {function, Algorithm::one_shot, Protocol::ll, 3, 2, 2, 333});
}

TEST(Kernels, HaveNamesOfTheirOwnAndAnEmulatedForm) {
  std::set<std::string> names;
  for (const gpu::Kernel& kernel : coll::all_kernels()) {
    EXPECT_TRUE(names.insert(kernel.name).second) << kernel.name;
    EXPECT_NE(kernel.emu, nullptr);
#if defined(HAVE_CUDA)
    EXPECT_NE(kernel.cuda, nullptr);
#else
    EXPECT_EQ(kernel.cuda, nullptr);
#endif
  }
}

}  // namespace
}  // namespace gpucoll
