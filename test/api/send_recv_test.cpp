// Sends and receives: pairs, messages to oneself, exchanges in one group, and calls that do not fit together.
#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "ranks.h"

using namespace gpucoll_test;

namespace {

// Bytes that depend on who sends to whom.
std::vector<uint8_t> message(int from, int to, size_t bytes) {
  std::vector<uint8_t> data(bytes);
  for (size_t i = 0; i < bytes; ++i)
    data[i] = static_cast<uint8_t>(i * 7 + i / 251 + static_cast<size_t>(from * 50 + to));
  return data;
}

gpucollResult_t send(const DeviceBuffer& buffer, size_t offset, size_t bytes, int peer, gpucollComm_t comm,
                     const Stream& stream) {
  return gpucollSend(buffer.at(offset), bytes, gpucollUint8, peer, comm, stream.handle);
}
gpucollResult_t recv(const DeviceBuffer& buffer, size_t offset, size_t bytes, int peer, gpucollComm_t comm,
                     const Stream& stream) {
  return gpucollRecv(buffer.at(offset), bytes, gpucollUint8, peer, comm, stream.handle);
}

// What rank 0 sends and rank 1 expects do not fit: both learn of it, within a time, and nobody hangs.
void expect_mismatch(size_t sent, size_t expected) {
  SCOPED_TRACE(std::to_string(sent) + " bytes for " + std::to_string(expected));
  if (!enough_devices(2)) return;
  gpucollResult_t errors[2] = {};
  on_ranks_that_destroy(2, [&](gpucollComm_t comm, int rank) {
    Stream stream;
    DeviceBuffer buffer(std::max<size_t>(1, std::max(sent, expected)));
    gpucollResult_t& error = errors[rank];
    error = rank == 0 ? send(buffer, 0, sent, 1, comm, stream) : recv(buffer, 0, expected, 0, comm, stream);
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (error == gpucollSuccess && std::chrono::steady_clock::now() < end)
      GC_OK(gpucollCommGetAsyncError(comm, &error));
    const std::string said = gpucollGetLastError(comm);
    EXPECT_NE(said.find(std::to_string(sent)), std::string::npos) << said;
    EXPECT_NE(said.find(std::to_string(expected)), std::string::npos) << said;
    GC_OK(gpucollStreamSynchronize(stream.handle));
    EXPECT_NE(gpucollSuccess, gpucollCommDestroy(comm));
  });
  // Who sees it tells the other.
  EXPECT_TRUE(errors[0] == gpucollInvalidUsage || errors[1] == gpucollInvalidUsage);
  for (gpucollResult_t error : errors) EXPECT_TRUE(error == gpucollInvalidUsage || error == gpucollRemoteError);
}

}  // namespace

TEST(SendRecv, CarriesEverySizeBothWays) {
  on_ranks(2, [](gpucollComm_t comm, int rank) {
    constexpr size_t most = 700001;
    Stream stream;
    DeviceBuffer out(most + 8), in(most + 8);
    const int peer = 1 - rank;
    for (size_t bytes :
         {size_t{0}, size_t{1}, size_t{2}, size_t{15}, size_t{16}, size_t{257}, size_t{4099}, size_t{65537}, most})
      for (size_t offset : {0, 1, 3}) {
        out.put(message(rank, peer, bytes), offset);
        GC_OK(gpucollMemset(in.at(), 0xee, most + 8));
        GC_OK(gpucollGroupStart());
        GC_OK(send(out, offset, bytes, peer, comm, stream));
        GC_OK(recv(in, offset + 1, bytes, peer, comm, stream));
        GC_OK(gpucollGroupEnd());
        GC_OK(gpucollStreamSynchronize(stream.handle));
        ASSERT_EQ(in.get<uint8_t>(bytes, offset + 1), message(peer, rank, bytes)) << bytes << " at " << offset;
        ASSERT_EQ(in.get<uint8_t>(1, offset)[0], 0xee);
        ASSERT_EQ(in.get<uint8_t>(1, offset + 1 + bytes)[0], 0xee);
      }
  });
}

TEST(SendRecv, GoesOneWayWithoutAGroup) {
  on_ranks(3, [](gpucollComm_t comm, int rank) {
    Stream stream;
    DeviceBuffer buffer(50000);
    for (int round = 0; round < 20; ++round) {
      const int from = round % 3, to = (round + 1 + round / 3 % 2) % 3;
      const size_t bytes = static_cast<size_t>(round) * 2000;
      if (rank == from) {
        buffer.put(message(from, to + round, bytes));
        GC_OK(send(buffer, 0, bytes, to, comm, stream));
      }
      if (rank == to) {
        GC_OK(recv(buffer, 0, bytes, from, comm, stream));
        GC_OK(gpucollStreamSynchronize(stream.handle));
        ASSERT_EQ(buffer.get<uint8_t>(bytes), message(from, to + round, bytes)) << round;
      }
      GC_OK(gpucollStreamSynchronize(stream.handle));
    }
  });
}

TEST(SendRecv, MatchesTheMessagesOfTwoRanksInOrder) {
  on_ranks(2, [](gpucollComm_t comm, int rank) {
    constexpr int messages = 50;
    constexpr size_t room = 3000;
    Stream stream;
    DeviceBuffer buffer(messages * room);
    auto bytes = [](int i) { return static_cast<size_t>(i * 37 % 2900); };
    GC_OK(gpucollGroupStart());
    for (int i = 0; i < messages; ++i) {
      const size_t place = static_cast<size_t>(i) * room;
      if (rank == 0) buffer.put(message(0, i, bytes(i)), place);
      GC_OK(rank == 0 ? send(buffer, place, bytes(i), 1, comm, stream)
                      : recv(buffer, place, bytes(i), 0, comm, stream));
    }
    GC_OK(gpucollGroupEnd());
    GC_OK(gpucollStreamSynchronize(stream.handle));
    for (int i = 0; i < messages; ++i)
      ASSERT_EQ(buffer.get<uint8_t>(bytes(i), static_cast<size_t>(i) * room), message(0, i, bytes(i))) << i;
  });
}

TEST(SendRecv, ReachesOneself) {
  on_ranks(2, [](gpucollComm_t comm, int rank) {
    Stream stream;
    DeviceBuffer out(10000), in(10000);
    out.put(message(rank, rank, 10000));
    GC_OK(gpucollGroupStart());
    GC_OK(recv(in, 3, 9001, rank, comm, stream));
    GC_OK(send(out, 0, 9001, rank, comm, stream));
    GC_OK(gpucollGroupEnd());
    GC_OK(gpucollStreamSynchronize(stream.handle));
    EXPECT_EQ(in.get<uint8_t>(9001, 3), message(rank, rank, 9001));
    // Alone it would wait for ever; with another size it has no meaning. The communicator stays usable.
    EXPECT_EQ(gpucollInvalidUsage, send(out, 0, 10, rank, comm, stream));
    GC_OK(gpucollGroupStart());
    GC_OK(send(out, 0, 10, rank, comm, stream));
    GC_OK(recv(in, 0, 11, rank, comm, stream));
    EXPECT_EQ(gpucollInvalidUsage, gpucollGroupEnd());
    GC_OK(gpucollBarrier(comm, stream.handle));
    GC_OK(gpucollStreamSynchronize(stream.handle));
  });
}

TEST(SendRecv, RefusesBadArguments) {
  on_ranks(1, [](gpucollComm_t comm, int) {
    Stream stream;
    DeviceBuffer buffer(100);
    auto refused = [](gpucollResult_t result, const char* word) {
      EXPECT_EQ(result, gpucollInvalidArgument);
      EXPECT_NE(std::string(gpucollGetLastError(nullptr)).find(word), std::string::npos)
          << gpucollGetLastError(nullptr);
    };
    char host[16] = {};
    refused(send(buffer, 0, 4, 1, comm, stream), "peer 1");
    refused(send(buffer, 0, 4, -1, comm, stream), "peer -1");
    refused(send(buffer, 0, 101, 0, comm, stream), "sendbuff");
    refused(recv(buffer, 50, 51, 0, comm, stream), "recvbuff");
    refused(gpucollRecv(nullptr, 4, gpucollUint8, 0, comm, stream.handle), "recvbuff is NULL");
    refused(gpucollRecv(host, 4, gpucollUint8, 0, comm, stream.handle), "host memory");
    refused(gpucollSend(buffer.at(1), 4, gpucollFloat32, 0, comm, stream.handle), "aligned");
    refused(gpucollSend(buffer.at(), SIZE_MAX / 2, gpucollFloat32, 0, comm, stream.handle), "count");
    refused(gpucollSend(buffer.at(), 4, gpucollNumTypes, 0, comm, stream.handle), "datatype");
  });
}

TEST(Exchanges, RefuseBadArguments) {
  on_ranks(1, [](gpucollComm_t comm, int) {
    DeviceBuffer a(64), b(64);
    auto refused = [](gpucollResult_t result, const char* word) {
      EXPECT_EQ(result, gpucollInvalidArgument);
      EXPECT_NE(std::string(gpucollGetLastError(nullptr)).find(word), std::string::npos)
          << gpucollGetLastError(nullptr);
    };
    const size_t three[] = {3}, four[] = {4}, zero[] = {0}, huge[] = {SIZE_MAX / 2};
    auto all_to_all_v = [&](const size_t* sends, const size_t* sdispls, const size_t* recvs, const size_t* rdispls) {
      return gpucollAlltoAllv(a.at(), sends, sdispls, b.at(), recvs, rdispls, gpucollFloat32, comm, nullptr);
    };
    refused(gpucollAlltoAll(a.at(), a.at(4), 4, gpucollFloat32, comm, nullptr), "overlap");
    refused(gpucollAlltoAll(a.at(), b.at(), 17, gpucollFloat32, comm, nullptr), "sendbuff");
    refused(gpucollAlltoAll(a.at(), nullptr, 1, gpucollFloat32, comm, nullptr), "recvbuff is NULL");
    refused(all_to_all_v(three, zero, four, zero), "recvcounts");
    refused(all_to_all_v(nullptr, zero, four, zero), "sendcounts");
    refused(all_to_all_v(four, nullptr, four, zero), "sdispls");
    refused(all_to_all_v(four, zero, nullptr, zero), "recvcounts");
    refused(all_to_all_v(four, zero, four, nullptr), "rdispls");
    refused(all_to_all_v(huge, zero, four, zero), "sendcounts");
    refused(all_to_all_v(four, huge, four, zero), "sdispls");
    refused(gpucollGather(a.at(), b.at(), 4, gpucollFloat32, 1, comm, nullptr), "root 1");
    refused(gpucollScatter(a.at(), b.at(), 4, gpucollFloat32, -1, comm, nullptr), "root -1");
    refused(gpucollGather(a.at(), a.at(4), 4, gpucollFloat32, 0, comm, nullptr), "overlap");
    GC_OK(gpucollGather(a.at(), a.at(), 4, gpucollFloat32, 0, comm, nullptr));
    GC_OK(gpucollStreamSynchronize(nullptr));
  });
}

TEST(Mismatch, OfSmallMessagesIsAnError) { expect_mismatch(400, 300); }
TEST(Mismatch, OfLargeMessagesIsAnError) { expect_mismatch(1 << 20, (1 << 20) + 4); }
TEST(Mismatch, OfASmallWithALargeMessageIsAnError) { expect_mismatch(8, 1 << 20); }
TEST(Mismatch, OfALargeWithASmallMessageIsAnError) { expect_mismatch(1 << 20, 8); }
TEST(Mismatch, WithNothingIsAnError) { expect_mismatch(0, 8); }
