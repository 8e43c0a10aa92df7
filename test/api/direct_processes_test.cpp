// Registered memory between ranks that are processes, and what comes again: kernels store straight into it, where any
// rank's is.
// And what becomes of the buffers of a rank that gives up.
#include <gtest/gtest.h>

#include <optional>

#include "process_ranks.h"

using namespace gpucoll_test;

namespace {

constexpr int kRanks = 3;
constexpr size_t kCount = 30001;  // floats of a rank's part

float value(int rank, size_t i, int round) {
  return static_cast<float>((i * 7 + static_cast<size_t>(rank * 1000 + round * 31)) % 4096);
}
std::vector<float> part(int rank, int round) {
  std::vector<float> values(kCount);
  for (size_t i = 0; i < kCount; ++i) values[i] = value(rank, i, round);
  return values;
}

// A buffer that is registered while it lives, if its rank does that.
class Registered {
 public:
  Registered(gpucollComm_t comm, size_t bytes, bool registers) : comm_(comm), buffer_(bytes) {
    if (registers) {
      handle_ = nullptr;
      EXPECT_EQ(gpucollSuccess, gpucollCommRegister(comm, buffer_.at(), bytes, &*handle_));
    }
  }
  ~Registered() {
    if (handle_) {
      EXPECT_EQ(gpucollSuccess, gpucollCommDeregister(comm_, *handle_));
    }
  }
  Registered(const Registered&) = delete;
  Registered& operator=(const Registered&) = delete;
  DeviceBuffer* operator->() { return &buffer_; }

 private:
  gpucollComm_t comm_;
  DeviceBuffer buffer_;
  std::optional<void*> handle_;
};

struct Rank {
  gpucollComm_t comm;
  int rank;
  Stream stream;

  void all_gather(Registered& out, int round) {
    DeviceBuffer in(kCount * sizeof(float));
    in.put(part(rank, round));
    GC_OK(gpucollAllGather(in.at(), out->at(4), kCount, gpucollFloat32, comm, stream.handle));
    GC_OK(gpucollStreamSynchronize(stream.handle));
    for (size_t r = 0; r < kRanks; ++r)
      ASSERT_EQ(out->get<float>(kCount, 4 + r * kCount * sizeof(float)), part(static_cast<int>(r), round)) << round;
  }
  void broadcast(Registered& out, int round) {
    const int root = round % kRanks;
    if (rank == root) out->put(part(root, round), 8);
    GC_OK(gpucollBroadcast(out->at(8), out->at(8), kCount, gpucollFloat32, root, comm, stream.handle));
    GC_OK(gpucollStreamSynchronize(stream.handle));
    ASSERT_EQ(out->get<float>(kCount, 8), part(root, round)) << round;
  }
  void all_reduce_in_place(Registered& out, int round) {
    out->put(part(rank, round));
    GC_OK(gpucollAllReduce(out->at(), out->at(), kCount, gpucollFloat32, gpucollSum, comm, stream.handle));
    GC_OK(gpucollStreamSynchronize(stream.handle));
    std::vector<float> want(kCount);
    for (size_t i = 0; i < kCount; ++i)
      for (int r = 0; r < kRanks; ++r) want[i] += value(r, i, round);
    ASSERT_EQ(out->get<float>(kCount), want) << round;
  }
  // To the next rank; both sides in one buffer.
  void pass_on(Registered& out, int round) {
    const size_t bytes = kCount * sizeof(float);
    out->put(part(rank, round));
    GC_OK(gpucollGroupStart());
    GC_OK(gpucollSend(out->at(), kCount, gpucollFloat32, (rank + 1) % kRanks, comm, stream.handle));
    GC_OK(gpucollRecv(out->at(bytes), kCount, gpucollFloat32, (rank + kRanks - 1) % kRanks, comm, stream.handle));
    GC_OK(gpucollGroupEnd());
    GC_OK(gpucollStreamSynchronize(stream.handle));
    ASSERT_EQ(out->get<float>(kCount, bytes), part((rank + kRanks - 1) % kRanks, round)) << round;
  }
};

// All functions again and again with one buffer, and then with another that may lie at the same address.
void run(gpucollComm_t comm, int rank, bool registers) {
  Rank self{comm, rank, {}};
  for (int buffer = 0; buffer < 6; ++buffer) {
    Registered out(comm, (kRanks + static_cast<size_t>(buffer % 2)) * kCount * sizeof(float) + 64, registers);
    for (int round = 0; round < 5; ++round) {
      self.all_gather(out, round);
      self.broadcast(out, round);
      self.all_reduce_in_place(out, round);
      self.pass_on(out, round);
    }
  }
}

}  // namespace

TEST(DirectProcesses, StoreIntoWhatIsRegistered) {
  for (unsigned who : {0b111u, 0b101u, 0b010u, 0u}) {
    for (int status : on_processes(kRanks, [who](gpucollComm_t comm, int rank) {
           run(comm, rank, who >> rank & 1);
           EXPECT_EQ(gpucollSuccess, gpucollCommDestroy(comm));
         }))
      EXPECT_EQ(status, 0) << who;
  }
}

// Each function by itself: one tells of the first grant, once for a communicator.
TEST(DirectProcesses, StoreIntoWhatComesAgain) {
  using Call = void (Rank::*)(Registered&, int);
  for (const Call call : {&Rank::all_gather, &Rank::broadcast, &Rank::all_reduce_in_place, &Rank::pass_on}) {
    for (int status : on_processes(kRanks, [call](gpucollComm_t comm, int rank) {
           Rank self{comm, rank, {}};
           Registered out(comm, (kRanks + 1) * kCount * sizeof(float), false);
           testing::internal::CaptureStderr();
           for (int round = 0; round < 12; ++round) (self.*call)(out, round);
           const std::string told = testing::internal::GetCapturedStderr();
           EXPECT_NE(told.find("lets others store straight into its buffers"), std::string::npos) << told;
           EXPECT_EQ(gpucollSuccess, gpucollCommDestroy(comm));
         }))
      EXPECT_EQ(status, 0);
  }
}

// Two ranks of one process, which need not register. One of them gives up in the middle, and frees its buffers at once.
void give_up_in_the_middle(int after_us) {
  constexpr size_t kBytes = size_t{8} << 20;
  gpucollUniqueId id;
  GC_OK(gpucollGetUniqueId(&id));
  on_threads(2, [&](int rank) {
    choose_device(rank);
    gpucollComm_t comm = nullptr;
    GC_OK(gpucollCommInitRank(&comm, 2, id, rank));
    Stream stream;
    DeviceBuffer in(kBytes), out(2 * kBytes);
    for (int i = 0; i < 10; ++i) GC_OK(gpucollAllGather(in.at(), out.at(), kBytes, gpucollUint8, comm, stream.handle));
    if (rank == 0) usleep(static_cast<useconds_t>(after_us));
    gpucollResult_t error = gpucollSuccess;
    while (rank == 1 && error == gpucollSuccess) GC_OK(gpucollCommGetAsyncError(comm, &error));
    GC_OK(gpucollCommAbort(comm));
  });
}

TEST(Direct, NobodyStoresIntoWhatIsFreedAfterAnAbort) {
  for (int after_us : {0, 3000, 10000, 20000}) {
    for (int status : on_processes(1, [&](gpucollComm_t comm, int) {
           EXPECT_EQ(gpucollSuccess, gpucollCommDestroy(comm));
           if (enough_devices(2)) give_up_in_the_middle(after_us);
         }))
      EXPECT_EQ(status, 0) << after_us;
  }
}

// More than there are places for, and the same memory several times.
TEST(DirectProcesses, RegisterMuch) {
  for (int status : on_processes(kRanks, [](gpucollComm_t comm, int rank) {
         std::vector<std::unique_ptr<Registered>> buffers;
         for (int i = 0; i < 80; ++i) buffers.push_back(std::make_unique<Registered>(comm, 4096, true));
         run(comm, rank, true);
         buffers.erase(buffers.begin(), buffers.begin() + 40);
         {
           Rank self{comm, rank, {}};
           Registered out(comm, (kRanks + 1) * kCount * sizeof(float), true);
           void* again = nullptr;
           GC_OK(gpucollCommRegister(comm, out->at(), 100, &again));
           for (int round = 0; round < 3; ++round) self.all_gather(out, round);
           GC_OK(gpucollCommDeregister(comm, again));
           for (int round = 0; round < 3; ++round) self.all_gather(out, round);
         }
         buffers.clear();
         EXPECT_EQ(gpucollSuccess, gpucollCommDestroy(comm));  // who ends without it counts as dead
       }))
    EXPECT_EQ(status, 0);
}
