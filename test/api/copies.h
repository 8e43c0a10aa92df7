// Messages that copy engines move, for tests of ranks that are threads and of ranks that are processes.
#pragma once
#include <unistd.h>

#include <functional>
#include <memory>

#include "ranks.h"

namespace gpucoll_test {

inline constexpr size_t kLarge =
    100003;  // above copy_engine_bytes of all runs; some are above pieces of a bounce buffer, too

inline std::vector<uint8_t> message(int from, int to, int round, size_t bytes) {
  std::vector<uint8_t> data(bytes);
  for (size_t i = 0; i < bytes; ++i)
    data[i] = static_cast<uint8_t>(i * 7 + i / 251 + static_cast<size_t>(from * 50 + to * 11 + round * 3));
  return data;
}

inline gpucollResult_t send(const DeviceBuffer& buffer, size_t offset, size_t bytes, int peer, gpucollComm_t comm,
                            gpucollStream_t stream) {
  return gpucollSend(buffer.at(offset), bytes, gpucollUint8, peer, comm, stream);
}
inline gpucollResult_t recv(const DeviceBuffer& buffer, size_t offset, size_t bytes, int peer, gpucollComm_t comm,
                            gpucollStream_t stream) {
  return gpucollRecv(buffer.at(offset), bytes, gpucollUint8, peer, comm, stream);
}

// All ranks of a communicator for one thread, each on its device.
template <int n>
void init_all(gpucollComm_t (&comms)[n]) {
  int devices[n], count = 0;
  GC_OK(gpucollDeviceCount(&count));
  for (int r = 0; r < n; ++r) devices[r] = r % count;
  GC_OK(gpucollCommInitAll(comms, n, devices));
}

// One of two ranks at least tells of sizes that differ, and the other one learns of it.
inline void expect_sizes_differ(const gpucollResult_t (&errors)[2]) {
  EXPECT_TRUE(errors[0] == gpucollInvalidUsage || errors[1] == gpucollInvalidUsage);
  for (gpucollResult_t error : errors) EXPECT_TRUE(error == gpucollInvalidUsage || error == gpucollRemoteError);
}

// A call on buffers of a rank.
using CopyCall = std::function<gpucollResult_t(const DeviceBuffer& from, const DeviceBuffer& to, gpucollComm_t comm,
                                               int rank, gpucollStream_t stream)>;

// Both ranks call once, so that all is connected; then one waits for what never comes, and aborts.
inline void expect_abort_releases(size_t bytes, const CopyCall& call) {
  for (int waits : {0, 1})
    on_ranks_that_destroy(2, [&](gpucollComm_t comm, int rank) {
      Stream stream;
      DeviceBuffer from(bytes), to(bytes);
      GC_OK(call(from, to, comm, rank, stream.handle));
      GC_OK(gpucollStreamSynchronize(stream.handle));
      if (rank == waits) {
        GC_OK(call(from, to, comm, rank, stream.handle));
        usleep(50000);
        GC_OK(gpucollCommAbort(comm));
      } else {
        EXPECT_EQ(await_error(comm), gpucollRemoteError);
        EXPECT_NE(gpucollSuccess, gpucollCommDestroy(comm));
      }
      GC_OK(gpucollStreamSynchronize(stream.handle));
    });
}

// From when on nothing reads or writes the buffers any more: streams that wait for copies are held, but kernels of
// another rank may store into a buffer until the communicator is gone.
enum class Unused { once_streams_are_done, once_comm_is_gone };

// Some calls that one rank aborts, in another round at another time; then the buffers are freed.
inline void free_after_abort(int n, int rounds, size_t bytes, int calls, Unused unused, const CopyCall& call) {
  for (int round = 0; round < rounds; ++round)
    on_ranks_that_destroy(n, [&, round](gpucollComm_t comm, int rank) {
      Stream stream;
      auto from = std::make_unique<DeviceBuffer>(bytes), to = std::make_unique<DeviceBuffer>(bytes);
      for (int i = 0; i < calls; ++i)
        if (call(*from, *to, comm, rank, stream.handle) != gpucollSuccess) break;  // another rank was faster
      if (rank == round % n) {
        usleep(static_cast<unsigned>(round * 700));
        GC_OK(gpucollCommAbort(comm));
      }
      GC_OK(gpucollStreamSynchronize(stream.handle));
      const bool destroys = rank != round % n, destroys_first = unused == Unused::once_comm_is_gone;
      if (destroys && destroys_first) gpucollCommDestroy(comm);
      from.reset();
      to.reset();
      if (destroys && !destroys_first) gpucollCommDestroy(comm);
    });
}

// Every rank sends to every other and receives from it, in one group, all sizes side by side.
inline void exchange(gpucollComm_t comm, int rank, int n, int round, gpucollStream_t stream) {
  const std::vector<size_t> sizes = {kLarge, 5, 3 * kLarge + 1, 4000, 0, kLarge + 17};
  size_t room = 0;
  for (size_t bytes : sizes) room += bytes + 1;
  const auto peers = static_cast<size_t>(n);
  DeviceBuffer out(room * peers), in(room * peers);
  GC_OK(gpucollMemset(in.at(), 0xee, room * peers));
  GC_OK(gpucollGroupStart());
  for (int peer = 0; peer < n; ++peer) {
    size_t at = static_cast<size_t>(peer) * room;
    for (size_t i = 0; i < sizes.size(); at += sizes[i++] + 1) {
      out.put(message(rank, peer, round + static_cast<int>(i), sizes[i]), at);
      GC_OK(send(out, at, sizes[i], peer, comm, stream));
      GC_OK(recv(in, at, sizes[i], peer, comm, stream));
    }
  }
  GC_OK(gpucollGroupEnd());
  GC_OK(gpucollStreamSynchronize(stream));
  for (int peer = 0; peer < n; ++peer) {
    size_t at = static_cast<size_t>(peer) * room;
    for (size_t i = 0; i < sizes.size(); at += sizes[i++] + 1) {
      ASSERT_EQ(in.get<uint8_t>(sizes[i], at), message(peer, rank, round + static_cast<int>(i), sizes[i]))
          << "from " << peer << ", " << sizes[i] << " bytes";
      ASSERT_EQ(in.get<uint8_t>(1, at + sizes[i])[0], 0xee);
    }
  }
}

}  // namespace gpucoll_test
