// Every function of the C API, one call after another: types, operations, roots, sizes, in place; barriers; operations
// made by programs. Memory around the buffers is compared, too.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <numeric>
#include <thread>

#include "case_run.h"
#include "ranks.h"
#include "reference.h"

using namespace gpucoll_test;

namespace {

constexpr Kind kReducing[] = {Kind::all_reduce, Kind::reduce, Kind::reduce_scatter};

// A case of one communicator, to be filled with calls.
Case plain_case(int n) {
  Case c;
  c.seed = static_cast<uint64_t>(n);
  c.n_ranks = n;
  std::vector<int> ranks(static_cast<size_t>(n));
  std::iota(ranks.begin(), ranks.end(), 0);
  c.comms.push_back({ranks});
  c.groups.push_back({false, {}});
  return c;
}

Call plain_call(Kind kind, int type, int op, size_t count) {
  Call call;
  call.kind = kind;
  call.type = type;
  call.op = op;
  call.count = count;
  call.seed = count * 31 + static_cast<size_t>(op);
  return call;
}

// Parts of `count` elements and a few more, one after another.
void give_parts(Call* call, int n) {
  const auto ranks = static_cast<size_t>(n);
  call->counts.resize(ranks * ranks);
  call->send_displs.resize(ranks * ranks);
  call->recv_displs.resize(ranks * ranks);
  for (size_t from = 0; from < ranks; ++from)
    for (size_t to = 0; to < ranks; ++to) {
      const size_t cell = from * ranks + to;
      call->counts[cell] = call->count + (from + 2 * to) % 3;
      if (call->kind != Kind::gather_v) call->send_displs[cell] = to * (call->count + 3);
      if (call->kind != Kind::scatter_v) call->recv_displs[cell] = from * (call->count + 5);
    }
}

void expect_right(Case c) {
  if (!enough_devices(c.n_ranks)) return;
  lay_out(&c, false);
  EXPECT_EQ(run_case(c), "");
}

}  // namespace

class CollectivesTest : public testing::TestWithParam<int> {};

TEST_P(CollectivesTest, ReduceEveryTypeByEveryOperation) {
  const int n = GetParam();
  for (bool in_place : {false, true}) {
    Case c = plain_case(n);
    for (Kind kind : kReducing)
      for (int type = 0; type < gpucollNumTypes; ++type)
        for (int op = 0; op < kOps; ++op)
          for (size_t count : {1, 61, 1030}) {
            if (!has_meaning(type, op)) continue;
            c.groups[0].calls.push_back(plain_call(kind, type, op, count));
            c.groups[0].calls.back().in_place = in_place;
            c.groups[0].calls.back().root = (type + op) % n;
            c.groups[0].calls.back().device_scalar = count == 61;
          }
    expect_right(c);
  }
}

TEST_P(CollectivesTest, MoveEverySizeFromAndToEveryRoot) {
  const int n = GetParam();
  for (int type : {gpucollUint8, gpucollBfloat16, gpucollFloat32, gpucollDoubleInt})
    for (bool in_place : {false, true}) {
      Case c = plain_case(n);
      for (int k = 0; k < kKinds; ++k)
        for (size_t count : {0, 1, 2, 7, 31, 999, 4099})
          for (int root = 0; root<n; root += n> 4 ? n / 2 : 1) {
            Call call = plain_call(static_cast<Kind>(k), type, gpucollSum, count);
            if (reduces(call.kind) || call.kind == Kind::message) continue;
            call.root = root;
            call.in_place = in_place;
            if (call.kind == Kind::all_to_all_v || call.kind == Kind::gather_v || call.kind == Kind::scatter_v)
              give_parts(&call, n);
            c.groups[0].calls.push_back(call);
          }
      expect_right(c);
    }
}

TEST_P(CollectivesTest, CarryLargeBuffers) {
  const int n = GetParam();
  Case c = plain_case(n);
  for (int k = 0; k < kKinds; ++k) {
    Call call = plain_call(static_cast<Kind>(k), gpucollFloat32, gpucollSum, 150001);
    call.root = call.peer = n - 1;
    if (call.kind == Kind::message) continue;
    if (call.kind == Kind::all_to_all_v || call.kind == Kind::gather_v || call.kind == Kind::scatter_v)
      give_parts(&call, n);
    c.groups[0].calls.push_back(call);
  }
  expect_right(c);
}
INSTANTIATE_TEST_SUITE_P(Ranks, CollectivesTest, testing::Values(1, 2, 3, 4, 7));

// What the cases above take from has_meaning() is all that gpucoll has, and nothing else.
TEST(Collectives, RefuseOperationsWithoutAMeaning) {
  on_ranks(1, [](gpucollComm_t comm, int) {
    for (int type = 0; type < gpucollNumTypes; ++type)
      for (int op = 0; op < gpucollNumOps; ++op) {
        const gpucollResult_t result = gpucollAllReduce(nullptr, nullptr, 0, static_cast<gpucollDataType_t>(type),
                                                        static_cast<gpucollRedOp_t>(op), comm, nullptr);
        EXPECT_EQ(result, has_meaning(type, op) ? gpucollSuccess : gpucollInvalidArgument)
            << type_name(type) << " " << op_name(op);
      }
  });
}

TEST(Collectives, ABarrierWaitsForTheLastRank) {
  constexpr int n = 4;
  std::atomic<int> arrived{0};
  on_ranks(n, [&](gpucollComm_t comm, int rank) {
    Stream stream;
    for (int round = 1; round <= 3; ++round) {
      if (rank == round) std::this_thread::sleep_for(std::chrono::milliseconds(100));
      arrived.fetch_add(1);
      GC_OK(gpucollBarrier(comm, stream.handle));
      GC_OK(gpucollStreamSynchronize(stream.handle));
      EXPECT_GE(arrived.load(), n * round) << "rank " << rank;
    }
  });
}

TEST(ReductionOps, BelongToOneCommunicatorAndType) {
  on_ranks(2, [](gpucollComm_t comm, int rank) {
    gpucollComm_t other = nullptr;
    GC_OK(gpucollCommSplit(comm, 0, rank, &other));
    DeviceBuffer buffer(64);
    float scalar = 2;
    gpucollRedOp_t op = gpucollSum;
    GC_OK(gpucollRedOpCreatePreMulSum(&op, &scalar, gpucollFloat32, gpucollScalarHostImmediate, comm));
    auto reduce_with = [&](gpucollDataType_t type, gpucollComm_t on) {
      return gpucollAllReduce(buffer.at(), buffer.at(), 4, type, op, on, nullptr);
    };
    EXPECT_EQ(gpucollInvalidArgument, reduce_with(gpucollFloat32, other));
    EXPECT_EQ(gpucollInvalidArgument, reduce_with(gpucollInt32, comm));
    EXPECT_EQ(gpucollInvalidArgument, gpucollRedOpDestroy(op, other));
    GC_OK(gpucollRedOpDestroy(op, comm));
    EXPECT_EQ(gpucollInvalidArgument, reduce_with(gpucollFloat32, comm));
    EXPECT_EQ(gpucollInvalidArgument, gpucollRedOpDestroy(op, comm));
    EXPECT_EQ(gpucollInvalidArgument, gpucollRedOpDestroy(gpucollSum, comm));
    GC_OK(gpucollCommDestroy(other));
  });
}

TEST(ReductionOps, CheckTheirScalars) {
  on_ranks(1, [](gpucollComm_t comm, int) {
    DeviceBuffer buffer(64);
    float scalar = 2;
    gpucollRedOp_t op = gpucollSum;
    auto make = [&](void* at, gpucollDataType_t type, gpucollScalarResidence_t residence) {
      return gpucollRedOpCreatePreMulSum(&op, at, type, residence, comm);
    };
    EXPECT_EQ(gpucollInvalidArgument, make(nullptr, gpucollFloat32, gpucollScalarHostImmediate));
    EXPECT_EQ(gpucollInvalidArgument, make(&scalar, gpucollFloatInt, gpucollScalarHostImmediate));
    EXPECT_EQ(gpucollInvalidArgument, make(&scalar, gpucollFloat32, gpucollScalarDevice));
    EXPECT_EQ(gpucollInvalidArgument, make(buffer.at(), gpucollFloat32, gpucollScalarHostImmediate));
    EXPECT_EQ(gpucollInvalidArgument, make(buffer.at(2), gpucollFloat32, gpucollScalarDevice));
    EXPECT_EQ(gpucollInvalidArgument,
              gpucollRedOpCreatePreMulSum(nullptr, &scalar, gpucollFloat32, gpucollScalarHostImmediate, comm));
    EXPECT_EQ(op, gpucollSum);
  });
}

// The scalar is read when the operation runs, not when the operation is made or called.
TEST(ReductionOps, ReadDeviceScalarsInStreamOrder) {
  on_ranks(2, [](gpucollComm_t comm, int) {
    Stream stream;
    DeviceBuffer scalar(4), buffer(4);
    gpucollRedOp_t op = gpucollSum;
    GC_OK(gpucollRedOpCreatePreMulSum(&op, scalar.at(), gpucollFloat32, gpucollScalarDevice, comm));
    for (float factor : {2.0f, 3.0f}) {
      scalar.put(std::vector<float>{factor});
      buffer.put(std::vector<float>{5});
      GC_OK(gpucollAllReduce(buffer.at(), buffer.at(), 1, gpucollFloat32, op, comm, stream.handle));
      GC_OK(gpucollStreamSynchronize(stream.handle));
      EXPECT_EQ(buffer.get<float>(1)[0], 10 * factor);
    }
    GC_OK(gpucollRedOpDestroy(op, comm));
  });
}
