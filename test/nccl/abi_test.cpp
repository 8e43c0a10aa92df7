// libnccl.so.2 as programs see it that load it at run time: every function, by both names; and the layout of what they
// pass. usage: abi_test LIBRARY
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <string>

#include "gpucoll/gpucoll.h"
#include "nccl/nccl_abi.h"

namespace {

std::string g_library;

// NCCL's layout on 64 bits.
static_assert(sizeof(ncclUniqueId) == 128 && sizeof(ncclUniqueId) == sizeof(gpucollUniqueId));
static_assert(offsetof(ncclConfig_t, magic) == 8 && offsetof(ncclConfig_t, version) == 12 &&
              offsetof(ncclConfig_t, blocking) == 16 && offsetof(ncclConfig_t, cgaClusterSize) == 20 &&
              offsetof(ncclConfig_t, minCTAs) == 24 && offsetof(ncclConfig_t, maxCTAs) == 28 &&
              offsetof(ncclConfig_t, netName) == 32 && offsetof(ncclConfig_t, splitShare) == 40 &&
              offsetof(ncclConfig_t, trafficClass) == 44 && offsetof(ncclConfig_t, commName) == 48 &&
              offsetof(ncclConfig_t, collnetEnable) == 56 && offsetof(ncclConfig_t, CTAPolicy) == 60 &&
              offsetof(ncclConfig_t, shrinkShare) == 64 && offsetof(ncclConfig_t, nvlsCTAs) == 68 &&
              offsetof(ncclConfig_t, nChannelsPerNetPeer) == 72 && offsetof(ncclConfig_t, nvlinkCentricSched) == 76 &&
              sizeof(ncclConfig_t) == 80);
static_assert(offsetof(ncclSimInfo_t, estimatedTime) == 16 && sizeof(ncclSimInfo_t) == 24);
static_assert(sizeof(ncclDataType_t) == 4 && sizeof(ncclRedOp_t) == 4 && sizeof(ncclResult_t) == 4);

void* library() {
  static void* const handle = dlopen(g_library.c_str(), RTLD_NOW | RTLD_LOCAL);
  EXPECT_NE(handle, nullptr) << dlerror();
  return handle;
}

std::set<std::string> g_called;

// The function of that name in the library, about to be called.
template <class Function>
Function called(const char* name) {
  g_called.insert(name);
  return reinterpret_cast<Function>(dlsym(library(), name));
}
#define CALL(name) called<decltype(&::name)>(#name)

TEST(Abi, EveryFunctionHasBothNames) {
#define GC_NCCL_SYMBOL(name)                            \
  EXPECT_NE(dlsym(library(), #name), nullptr) << #name; \
  EXPECT_EQ(dlsym(library(), #name), dlsym(library(), "p" #name)) << #name;
#include "symbols.def"
#undef GC_NCCL_SYMBOL
}

#define OK(...) ASSERT_EQ(ncclSuccess, (__VA_ARGS__)) << CALL(ncclGetLastError)(nullptr)

// All that one rank alone can call.
TEST(Abi, EveryFunctionCanBeCalled) {
  int number = 0;
  OK(CALL(ncclGetVersion)(&number));
  EXPECT_EQ(number / 100, 228);
  CALL(ncclResetDebugInit)();
  EXPECT_STREQ(CALL(ncclGetErrorString)(ncclSuccess), "no error");
  EXPECT_STREQ(CALL(ncclGetErrorString)(static_cast<ncclResult_t>(77)), "unknown result code");

  ncclComm_t comm = nullptr, other = nullptr;
  ncclUniqueId ids[2];
  OK(CALL(ncclGetUniqueId)(&ids[0]));
  OK(CALL(ncclGetUniqueId)(&ids[1]));
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  OK(CALL(ncclCommInitRankScalable)(&comm, 1, 0, 2, ids, &config));
  OK(CALL(ncclCommDestroy)(comm));
  OK(CALL(ncclGetUniqueId)(&ids[0]));
  OK(CALL(ncclCommInitRankConfig)(&comm, 1, ids[0], 0, &config));
  OK(CALL(ncclCommAbort)(comm));
  OK(CALL(ncclCommInitAll)(&comm, 1, nullptr));
  OK(CALL(ncclCommFinalize)(comm));
  OK(CALL(ncclCommDestroy)(comm));
  OK(CALL(ncclGetUniqueId)(&ids[0]));
  OK(CALL(ncclCommInitRank)(&comm, 1, ids[0], 0));
  OK(CALL(ncclCommSplit)(comm, 0, 0, &other, nullptr));
  OK(CALL(ncclCommDestroy)(other));
  OK(CALL(ncclCommCount)(comm, &number));
  EXPECT_EQ(number, 1);
  OK(CALL(ncclCommUserRank)(comm, &number));
  EXPECT_EQ(number, 0);
  OK(CALL(ncclCommCuDevice)(comm, &number));
  EXPECT_EQ(number, 0);
  ncclResult_t error = ncclInternalError;
  OK(CALL(ncclCommGetAsyncError)(comm, &error));
  EXPECT_EQ(error, ncclSuccess);

  void *memory = nullptr, *handle = nullptr;
  ncclWindow_t window = nullptr;
  OK(CALL(ncclMemAlloc)(&memory, 4096));
  auto* const in = static_cast<float*>(memory);
  float* const out = in + 512;
  OK(CALL(ncclCommRegister)(comm, memory, 4096, &handle));
  OK(CALL(ncclCommDeregister)(comm, handle));
  OK(CALL(ncclCommWindowRegister)(comm, memory, 4096, &window, 0));
  OK(CALL(ncclCommWindowDeregister)(comm, window));

  ncclRedOp_t op;
  float scalar = 2;
  OK(CALL(ncclRedOpCreatePreMulSum)(&op, &scalar, ncclFloat32, ncclScalarHostImmediate, comm));
  OK(CALL(ncclGroupStart)());
  OK(CALL(ncclAllReduce)(in, out, 8, ncclFloat32, op, comm, nullptr));
  OK(CALL(ncclGroupEnd)());
  OK(CALL(ncclRedOpDestroy)(op, comm));
  OK(CALL(ncclReduce)(in, out, 8, ncclFloat32, ncclSum, 0, comm, nullptr));
  OK(CALL(ncclReduceScatter)(in, out, 8, ncclFloat32, ncclAvg, comm, nullptr));
  OK(CALL(ncclBroadcast)(in, out, 8, ncclFloat32, 0, comm, nullptr));
  OK(CALL(ncclBcast)(out, 8, ncclFloat32, 0, comm, nullptr));
  OK(CALL(ncclAllGather)(in, out, 8, ncclFloat32, comm, nullptr));
  OK(CALL(ncclAlltoAll)(in, out, 8, ncclFloat32, comm, nullptr));
  OK(CALL(ncclAlltoAll)(out, out, 8, ncclFloat32, comm, nullptr));
  OK(CALL(ncclGather)(in, out, 8, ncclFloat32, 0, comm, nullptr));
  OK(CALL(ncclScatter)(in, out, 8, ncclFloat32, 0, comm, nullptr));
  OK(CALL(ncclGroupStart)());
  OK(CALL(ncclSend)(in, 8, ncclFloat32, 0, comm, nullptr));
  OK(CALL(ncclRecv)(out, 8, ncclFloat32, 0, comm, nullptr));
  OK(CALL(ncclGroupEnd)());

  ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
  OK(CALL(ncclGroupStart)());
  OK(CALL(ncclAllReduce)(in, out, 8, ncclFloat32, ncclSum, comm, nullptr));
  OK(CALL(ncclGroupSimulateEnd)(&info));
  EXPECT_GE(info.estimatedTime, 0);
  info.magic = 0;
  EXPECT_EQ(CALL(ncclGroupSimulateEnd)(&info), ncclInvalidArgument);
  OK(CALL(ncclCommShrink)(comm, nullptr, 0, &other, nullptr, NCCL_SHRINK_DEFAULT));
  OK(CALL(ncclCommRevoke)(other, 0));
  OK(CALL(ncclCommAbort)(other));
  EXPECT_EQ(CALL(ncclDevCommCreate)(comm, nullptr, nullptr), ncclInvalidUsage);
  EXPECT_EQ(CALL(ncclDevCommDestroy)(comm, nullptr), ncclInvalidUsage);
  EXPECT_NE(std::strstr(CALL(ncclGetLastError)(comm), "ncclDevCommDestroy: gpucoll has no device API"), nullptr);
  const ncclTeam_t world = CALL(ncclTeamWorld)(comm), lsa = CALL(ncclTeamLsa)(comm), rail = CALL(ncclTeamRail)(comm);
  EXPECT_TRUE(world.nRanks == 1 && world.rank == 0 && world.stride == 1);
  EXPECT_TRUE(lsa.nRanks == 1 && rail.nRanks == 1);
  EXPECT_EQ(CALL(ncclTeamRankToWorld)(comm, world, 0), 0);
  EXPECT_EQ(CALL(ncclTeamRankToLsa)(comm, lsa, 0), 0);
  EXPECT_EQ(CALL(ncclLLA2ACalcSlots)(8, 4), 0);
  EXPECT_EQ(CALL(ncclLLA2ACreateRequirement)(1, 1, nullptr, nullptr), ncclInvalidUsage);
  EXPECT_EQ(CALL(ncclLsaBarrierCreateRequirement)(lsa, 1, nullptr, nullptr), ncclInvalidUsage);
  EXPECT_EQ(CALL(ncclGinBarrierCreateRequirement)(comm, world, 1, nullptr, nullptr), ncclInvalidUsage);
  OK(CALL(ncclCommDestroy)(comm));
  OK(CALL(ncclMemFree)(memory));

#define GC_NCCL_SYMBOL(name) EXPECT_TRUE(g_called.contains(#name)) << #name;
#include "symbols.def"
#undef GC_NCCL_SYMBOL
}

// Programs that were compiled with headers of older versions, or of a newer one, pass configurations of other sizes.
TEST(Abi, ConfigurationsOfAllSizesAreRead) {
  struct Newer {
    ncclConfig_t known = NCCL_CONFIG_INITIALIZER;
    int more[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  } newer;
  for (size_t size : {size_t{24}, size_t{40}, size_t{48}, size_t{72}, size_t{80}, sizeof newer}) {
    newer.known.size = size;
    newer.known.splitShare = size >= 48 ? 1 : 77;  // what is beyond the size is not looked at
    ncclUniqueId id;
    OK(CALL(ncclGetUniqueId)(&id));
    ncclComm_t comm = nullptr;
    OK(CALL(ncclCommInitRankConfig)(&comm, 1, id, 0, &newer.known));
    OK(CALL(ncclCommDestroy)(comm));
  }
}

TEST(Abi, ConfigurationsThatMakeNoSenseAreRefused) {
  ncclUniqueId id;
  OK(CALL(ncclGetUniqueId)(&id));
  const auto result = [&](ncclConfig_t config) {
    ncclComm_t comm = nullptr;
    return CALL(ncclCommInitRankConfig)(&comm, 1, id, 0, &config);
  };
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.magic = 0;
  EXPECT_EQ(result(config), ncclInvalidArgument);
  EXPECT_NE(std::strstr(CALL(ncclGetLastError)(nullptr), "NCCL_CONFIG_INITIALIZER"), nullptr);
  config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 2;
  EXPECT_EQ(result(config), ncclInvalidArgument);
  config = NCCL_CONFIG_INITIALIZER;
  config.splitShare = 2;
  EXPECT_EQ(result(config), ncclInvalidArgument);
  EXPECT_NE(std::strstr(CALL(ncclGetLastError)(nullptr), "splitShare"), nullptr);
  config = NCCL_CONFIG_INITIALIZER;
  config.minCTAs = 0;
  EXPECT_EQ(result(config), ncclInvalidArgument);
  config.minCTAs = 8;
  config.maxCTAs = 4;
  EXPECT_EQ(result(config), ncclInvalidArgument);
  EXPECT_NE(std::strstr(CALL(ncclGetLastError)(nullptr), "maxCTAs"), nullptr);
}

// This library refuses by itself as the C API refuses: nothing is made, and the group fails.
TEST(Abi, WhatIsRefusedLeavesNothingAndFailsTheGroup) {
  ncclUniqueId id;
  OK(CALL(ncclGetUniqueId)(&id));
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.magic = 0;
  ncclComm_t comm = nullptr, other = nullptr;
  int unset = 0;
  const auto refused = [&](auto&& call) {
    other = reinterpret_cast<ncclComm_t>(&unset);
    OK(CALL(ncclGroupStart)());
    EXPECT_EQ(call(), ncclInvalidArgument);
    EXPECT_NE(std::strstr(CALL(ncclGetLastError)(nullptr), "ncclComm"), nullptr) << CALL(ncclGetLastError)(nullptr);
    EXPECT_NE(CALL(ncclGroupEnd)(), ncclSuccess);
    EXPECT_EQ(other, nullptr);
  };
  refused([&] { return CALL(ncclCommInitRankConfig)(&other, 1, id, 0, &config); });
  refused([&] { return CALL(ncclCommInitRankScalable)(&other, 1, 0, 0, &id, nullptr); });
  OK(CALL(ncclGetUniqueId)(&id));
  OK(CALL(ncclCommInitRank)(&comm, 1, id, 0));
  refused([&] { return CALL(ncclCommSplit)(comm, 0, 0, &other, &config); });
  refused([&] { return CALL(ncclCommShrink)(comm, nullptr, 0, &other, &config, NCCL_SHRINK_DEFAULT); });
  OK(CALL(ncclCommDestroy)(comm));
}

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (argc != 2) return 2;
  g_library = argv[1];
  return RUN_ALL_TESTS();
}
