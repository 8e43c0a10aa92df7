// A device fails for good, as a GPU does after an illegal access of a kernel that the program has launched before: its
// communicators fail and can be given up at once, and the peers learn why.
#include <fstream>

#include "ranks.h"

using namespace gpucoll_test;

namespace {

// Emulated device 0 of this process fails once the file is there.
std::string failure_file() { return "/tmp/gpucoll-device-failure-" + std::to_string(getpid()); }
const int set_before_anything_reads_it = setenv("GPUCOLL_EMU_FAILURE", failure_file().c_str(), 1);
constexpr int kGraceS = 10;  // for kernels that still run after a fault: nothing does here

double seconds_of(const std::function<void()>& body) {
  const auto begin = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

class DeviceFailure : public ::testing::TestWithParam<bool> {};

// The first communicator's kernel waits for a rank that does not come; behind it, the second one's is not run any more.
TEST_P(DeviceFailure, EndsWhatWaitsForTheDevice) {
  const bool aborts = GetParam();
  gpucollUniqueId id;
  GC_OK(gpucollGetUniqueId(&id));
  on_ranks_that_destroy(2, [&](gpucollComm_t first, int rank) {
    gpucollComm_t second = nullptr;
    GC_OK(gpucollCommInitRank(&second, 2, id, rank));
    DeviceBuffer memory(400);
    Stream stream;
    for (gpucollComm_t comm : {first, second})
      GC_OK(gpucollAllReduce(memory.at(), memory.at(), 100, gpucollInt32, gpucollSum, comm, stream.handle));
    GC_OK(gpucollStreamSynchronize(stream.handle));
    if (rank == 0) {
      for (gpucollComm_t comm : {first, second})
        GC_OK(gpucollAllReduce(memory.at(), memory.at(), 100, gpucollInt32, gpucollSum, comm, stream.handle));
      std::ofstream(failure_file() + ".0").put('x');
      for (gpucollComm_t comm : {second, first})
        EXPECT_LT(seconds_of([&] {
                    EXPECT_EQ(aborts ? gpucollSuccess : gpucollUnhandledDeviceError,
                              aborts ? gpucollCommAbort(comm) : gpucollCommDestroy(comm));
                  }),
                  kGraceS / 2);
      EXPECT_EQ(gpucollUnhandledDeviceError, gpucollStreamSynchronize(stream.handle));
    } else {
      for (gpucollComm_t comm : {second, first}) {
        EXPECT_EQ(gpucollRemoteError, await_error(comm));
        if (!aborts) EXPECT_NE(nullptr, std::strstr(gpucollGetLastError(comm), "the device of rank 0 has failed"));
        GC_OK(gpucollCommAbort(comm));
      }
    }
  });
  unlink((failure_file() + ".0").c_str());
}
INSTANTIATE_TEST_SUITE_P(, DeviceFailure, ::testing::Bool(),
                         [](const auto& of) { return std::string(of.param ? "Abort" : "Destroy"); });

}  // namespace
