// Ranks that call differently: all of them are told, and nobody writes beyond what a rank has given as its output.
#include <string>

#include "ranks.h"

using namespace gpucoll_test;

namespace {

constexpr int kRanks = 3, kOther = 1;  // the rank that calls differently
constexpr int kGuard = 0xa5;

enum class Function { all_reduce, reduce, broadcast, all_gather, reduce_scatter, all_to_all, gather, scatter };
struct Call {
  Function function;
  size_t count;
  gpucollDataType_t type = gpucollInt32;
  gpucollRedOp_t op = gpucollSum;
  int root = 0;
};

bool has_root(Function f) {
  return f == Function::reduce || f == Function::broadcast || f == Function::gather || f == Function::scatter;
}
bool reduces(Function f) { return f == Function::all_reduce || f == Function::reduce || f == Function::reduce_scatter; }
// Elements of the output of a rank.
size_t output_of(const Call& c, int rank) {
  const size_t all = c.count * kRanks;
  switch (c.function) {
    case Function::reduce: return rank == c.root ? c.count : 0;
    case Function::gather: return rank == c.root ? all : 0;
    case Function::all_gather:
    case Function::all_to_all: return all;
    default: return c.count;
  }
}

gpucollResult_t make(const Call& c, const char* in, char* out, gpucollComm_t comm, gpucollStream_t stream) {
  switch (c.function) {
    case Function::all_reduce: return gpucollAllReduce(in, out, c.count, c.type, c.op, comm, stream);
    case Function::reduce: return gpucollReduce(in, out, c.count, c.type, c.op, c.root, comm, stream);
    case Function::broadcast: return gpucollBroadcast(in, out, c.count, c.type, c.root, comm, stream);
    case Function::all_gather: return gpucollAllGather(in, out, c.count, c.type, comm, stream);
    case Function::reduce_scatter: return gpucollReduceScatter(in, out, c.count, c.type, c.op, comm, stream);
    case Function::all_to_all: return gpucollAlltoAll(in, out, c.count, c.type, comm, stream);
    case Function::gather: return gpucollGather(in, out, c.count, c.type, c.root, comm, stream);
    case Function::scatter: return gpucollScatter(in, out, c.count, c.type, c.root, comm, stream);
  }
  return gpucollInternalError;
}

// Memory of one rank, registered or not.
struct Memory {
  Memory(gpucollComm_t comm, size_t n, bool is_registered) : bytes(n), registered(is_registered) {
    void* handle = nullptr;
    EXPECT_EQ(gpucollSuccess, registered ? gpucollMemAlloc(&data, bytes) : gpucollMalloc(&data, bytes));
    if (registered) {
      EXPECT_EQ(gpucollSuccess, gpucollCommRegister(comm, data, bytes, &handle));
    }
  }
  ~Memory() { EXPECT_EQ(gpucollSuccess, registered ? gpucollMemFree(data) : gpucollFree(data)); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  char* at() const { return static_cast<char*>(data); }

  const size_t bytes;
  const bool registered;
  void* data = nullptr;
};

// After a call that all make, one in which kOther differs.
void expect_told(const Call& all, const Call& other, bool registered, const std::string& what) {
  on_ranks_that_destroy(kRanks, [&](gpucollComm_t comm, int rank) {
    SCOPED_TRACE(what + ", rank " + std::to_string(rank));
    const size_t bytes = std::max(all.count, other.count) * kRanks * sizeof(int32_t);
    Stream stream;
    Memory in(comm, bytes, registered), out(comm, bytes, registered);
    GC_OK(gpucollMemset(in.at(), 0, bytes));
    GC_OK(make(all, in.at(), out.at(), comm, stream.handle));
    GC_OK(gpucollStreamSynchronize(stream.handle));
    GC_OK(gpucollMemset(out.at(), kGuard, bytes));
    const Call& mine = rank == kOther ? other : all;
    make(mine, in.at(), out.at(), comm, stream.handle);  // may have been told already
    GC_OK(gpucollStreamSynchronize(stream.handle));
    EXPECT_NE(gpucollSuccess, await_error(comm));
    const std::string told = gpucollGetLastError(comm);
    EXPECT_TRUE(told.find("same collective calls") != std::string::npos ||
                told.find("bytes to rank") != std::string::npos)
        << told;
    EXPECT_NE(gpucollSuccess, gpucollCommDestroy(comm));
    std::vector<unsigned char> result(bytes);
    GC_OK(gpucollMemcpy(result.data(), out.at(), bytes));
    for (size_t i = output_of(mine, rank) * sizeof(int32_t); i < bytes; ++i)
      ASSERT_EQ(result[i], kGuard) << "byte " << i << " behind an output was overwritten";
  });
}

class Disagree : public testing::TestWithParam<Function> {
 protected:
  void expect_all_told(size_t count, bool registered) {
    const Call all = {GetParam(), count};
    const auto differs = [&](const char* in, const auto& change) {
      Call other = all;
      change(other);
      expect_told(all, other, registered, std::to_string(count) + " elements, other " + in);
    };
    differs("count", [](Call& c) { c.count = c.count / 2 + 1; });
    differs("type", [](Call& c) { c.type = gpucollFloat32; });
    if (reduces(all.function)) differs("op", [](Call& c) { c.op = gpucollMax; });
    if (has_root(all.function)) differs("root", [](Call& c) { c.root = 2; });
    differs("function", [](Call& c) {
      c.function = c.function == Function::all_reduce ? Function::broadcast : Function::all_reduce;
    });
  }
};

TEST_P(Disagree, InSmallCalls) { expect_all_told(400, false); }
TEST_P(Disagree, InMediumCalls) { expect_all_told(10'000, false); }
TEST_P(Disagree, InLargeCalls) { expect_all_told(200'000, false); }
TEST_P(Disagree, InLargeCallsOnRegisteredMemory) { expect_all_told(200'000, true); }

std::string name_of(Function function) {
  const char* const names[] = {"all_reduce",     "reduce",     "broadcast", "all_gather",
                               "reduce_scatter", "all_to_all", "gather",    "scatter"};
  return names[static_cast<int>(function)];
}

INSTANTIATE_TEST_SUITE_P(Calls, Disagree,
                         testing::Values(Function::all_reduce, Function::reduce, Function::broadcast,
                                         Function::all_gather, Function::reduce_scatter, Function::all_to_all,
                                         Function::gather, Function::scatter),
                         [](const auto& info) { return name_of(info.param); });

// Calls that fit go on unmolested, more of them than are remembered; and the last call tells, however it is ended.
TEST(LateCall, IsToldAfterManyCallsThatFit) {
  on_ranks_that_destroy(2, [](gpucollComm_t comm, int rank) {
    Stream stream;
    DeviceBuffer buffer(4096);
    for (int i = 0; i < 600; ++i)
      GC_OK(gpucollBcast(buffer.at(), static_cast<size_t>(i), gpucollInt32, i % 2, comm, stream.handle));
    GC_OK(gpucollStreamSynchronize(stream.handle));
    gpucollResult_t error = gpucollSuccess;
    GC_OK(gpucollCommGetAsyncError(comm, &error));
    EXPECT_EQ(error, gpucollSuccess) << gpucollGetLastError(comm);
    gpucollAllReduce(buffer.at(), buffer.at(), 100, gpucollInt32, rank == 0 ? gpucollSum : gpucollMax, comm,
                     stream.handle);
    GC_OK(gpucollStreamSynchronize(stream.handle));
    EXPECT_NE(gpucollSuccess, gpucollCommDestroy(comm));
  });
}

}  // namespace
