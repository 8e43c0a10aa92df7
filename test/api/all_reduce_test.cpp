// gpucollAllReduce through the C API: ranks are threads of this process.
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <memory>
#include <utility>

#include "ranks.h"

using namespace gpucoll_test;

namespace {

template <class T>
std::vector<T> contribution(int rank, size_t count) {
  std::vector<T> data(count);
  for (size_t i = 0; i < count; ++i) data[i] = static_cast<T>(value(rank, i));
  return data;
}

template <class T>
void expect_sum(const std::vector<T>& result, int n, const char* what) {
  for (size_t i = 0; i < result.size(); ++i) {
    int sum = 0;
    for (int r = 0; r < n; ++r) sum += value(r, i);
    ASSERT_EQ(result[i], static_cast<T>(sum)) << what << " element " << i;
  }
}

void sum_int32(gpucollComm_t comm, int rank, int n, size_t count, size_t offset, bool in_place) {
  Stream stream;
  DeviceBuffer in(count * 4 + offset + 64), out(count * 4 + offset + 64);
  in.put(contribution<int32_t>(rank, count), offset);
  GC_OK(gpucollMemset(out.at(), 0xee, count * 4 + offset + 64));
  void* target = in_place ? in.at(offset) : out.at(offset);
  GC_OK(gpucollAllReduce(in.at(offset), target, count, gpucollInt32, gpucollSum, comm, stream.handle));
  GC_OK(gpucollStreamSynchronize(stream.handle));
  if (in_place) return expect_sum(in.get<int32_t>(count, offset), n, "in place");
  expect_sum(out.get<int32_t>(count, offset), n, "out of place");
  for (unsigned char byte : out.get<unsigned char>(64, offset + count * 4)) ASSERT_EQ(byte, 0xee) << "past the end";
}

}  // namespace

class AllReduceTest : public testing::TestWithParam<int> {};

TEST_P(AllReduceTest, SumsAtEverySizeAndOffset) {
  int n = GetParam();
  on_ranks(n, [&](gpucollComm_t comm, int rank) {
    for (size_t count : {0, 1, 2, 3, 7, 31, 1000, 4095, 4096, 4099, 65537, 300001})
      for (size_t offset : {0, 4, 12})
        for (bool in_place : {false, true}) sum_int32(comm, rank, n, count, offset, in_place);
  });
}
INSTANTIATE_TEST_SUITE_P(Ranks, AllReduceTest, testing::Values(1, 2, 3, 4, 5, 7));

// The sum of four is more than a 16-bit float has. By every way, straight and by copy engines as well, on any number of
// elements; again, as buffers are opened when they come again.
TEST(AllReduce, AveragesOfNarrowFloatsDoNotOverflow) {
  constexpr uint16_t kHalf40000 = 0x78e2, kBfloat3e38 = 0x7f62;
  on_ranks(4, [&](gpucollComm_t comm, int) {
    Stream stream;
    for (size_t count : {5, 3000, 400000, 3000000})
      for (auto [type, x] : {std::pair(gpucollFloat16, kHalf40000), {gpucollBfloat16, kBfloat3e38}}) {
        DeviceBuffer in(count * 2), out(count * 2);
        const std::vector<uint16_t> values(count, x);
        in.put(values);
        for (int round = 0; round < 4; ++round)
          GC_OK(gpucollAllReduce(in.at(), out.at(), count, type, gpucollAvg, comm, stream.handle));
        GC_OK(gpucollStreamSynchronize(stream.handle));
        ASSERT_EQ(out.get<uint16_t>(count), values) << count << " elements of type " << type;
      }
  });
}

TEST(AllReduce, GivesTheSameBitsOnEveryRankAndRun) {
  constexpr int n = 4;
  constexpr size_t count = 50021;
  if (!enough_devices(n)) return;
  std::vector<std::vector<float>> results(2 * n);
  on_ranks(n, [&](gpucollComm_t comm, int rank) {
    Stream stream;
    for (int run = 0; run < 2; ++run) {
      std::vector<float> mine(count);
      for (size_t i = 0; i < count; ++i) mine[i] = 1.0f / static_cast<float>(i * 3 + static_cast<size_t>(rank) + 1);
      DeviceBuffer in(count * 4), out(count * 4);
      in.put(mine);
      GC_OK(gpucollAllReduce(in.at(), out.at(), count, gpucollFloat32, gpucollSum, comm, stream.handle));
      GC_OK(gpucollStreamSynchronize(stream.handle));
      results[static_cast<size_t>(run * n + rank)] = out.get<float>(count);
    }
  });
  for (auto& result : results) EXPECT_EQ(0, std::memcmp(result.data(), results[0].data(), count * 4));
}

TEST(AllReduce, KeepsOrderOnOneStreamAndAcrossStreams) {
  constexpr int n = 3;
  constexpr size_t count = 10007;
  on_ranks(n, [&](gpucollComm_t comm, int rank) {
    Stream streams[3];
    std::vector<std::unique_ptr<DeviceBuffer>> buffers;
    for (int i = 0; i < 30; ++i) {
      buffers.push_back(std::make_unique<DeviceBuffer>(count * 8));
      std::vector<int64_t> mine(count);
      for (size_t k = 0; k < count; ++k) mine[k] = value(rank, k + static_cast<size_t>(i));
      buffers.back()->put(mine);
    }
    for (int i = 0; i < 30; ++i)
      GC_OK(gpucollAllReduce(buffers[static_cast<size_t>(i)]->at(), buffers[static_cast<size_t>(i)]->at(), count,
                             gpucollInt64, gpucollSum, comm, streams[i % 3].handle));
    for (auto& s : streams) GC_OK(gpucollStreamSynchronize(s.handle));
    for (int i = 0; i < 30; ++i) {
      auto result = buffers[static_cast<size_t>(i)]->get<int64_t>(count);
      for (size_t k = 0; k < count; ++k) {
        int64_t sum = 0;
        for (int r = 0; r < n; ++r) sum += value(r, k + static_cast<size_t>(i));
        ASSERT_EQ(result[k], sum) << "operation " << i << " element " << k;
      }
    }
  });
}

TEST(Groups, OneThreadDrivesManyRanks) {
  constexpr int n = 4;
  constexpr size_t count = 5003;
  if (!enough_devices(n)) return;
  gpucollUniqueId id;
  GC_OK(gpucollGetUniqueId(&id));
  gpucollComm_t comms[n];
  GC_OK(gpucollGroupStart());
  for (int r = 0; r < n; ++r) {
    choose_device(r);
    GC_OK(gpucollCommInitRank(&comms[r], n, id, r));
  }
  GC_OK(gpucollGroupEnd());
  std::vector<std::unique_ptr<Stream>> streams;
  std::vector<std::unique_ptr<DeviceBuffer>> buffers;
  for (int r = 0; r < n; ++r) {
    choose_device(r);
    streams.push_back(std::make_unique<Stream>());
    buffers.push_back(std::make_unique<DeviceBuffer>(count * 2));
    buffers.back()->put(contribution<int16_t>(r, count));
  }
  GC_OK(gpucollGroupStart());
  GC_OK(gpucollGroupStart());
  for (size_t r = 0; r < n; ++r)
    GC_OK(gpucollAllReduce(buffers[r]->at(), buffers[r]->at(), count, gpucollInt16, gpucollSum, comms[r],
                           streams[r]->handle));
  GC_OK(gpucollGroupEnd());
  GC_OK(gpucollGroupEnd());
  for (size_t r = 0; r < n; ++r) {
    choose_device(static_cast<int>(r));
    GC_OK(gpucollStreamSynchronize(streams[r]->handle));
    expect_sum(buffers[r]->get<int16_t>(count), n, "group");
  }
  // In a row, by one thread: none may wait for a later one.
  for (auto comm : comms) GC_OK(gpucollCommDestroy(comm));
}

TEST(Groups, ManyOperationsInOneGroup) {
  constexpr int n = 2, operations = 150;
  on_ranks(n, [&](gpucollComm_t comm, int rank) {
    Stream stream;
    DeviceBuffer buffer(operations * 64);
    std::vector<int32_t> mine(operations * 16);
    for (size_t i = 0; i < mine.size(); ++i) mine[i] = value(rank, i);
    buffer.put(mine);
    GC_OK(gpucollGroupStart());
    for (size_t i = 0; i < operations; ++i)
      GC_OK(gpucollAllReduce(buffer.at(i * 64), buffer.at(i * 64), i % 17, gpucollInt32,
                             i % 2 ? gpucollSum : gpucollMax, comm, stream.handle));
    GC_OK(gpucollGroupEnd());
    GC_OK(gpucollStreamSynchronize(stream.handle));
    auto result = buffer.get<int32_t>(mine.size());
    for (size_t i = 0; i < operations; ++i)
      for (size_t k = 0; k < 16; ++k) {
        int a = value(0, i * 16 + k), b = value(1, i * 16 + k);
        int expected = k >= i % 17 ? value(rank, i * 16 + k) : i % 2 ? a + b : std::max(a, b);
        ASSERT_EQ(result[i * 16 + k], expected) << "operation " << i << " element " << k;
      }
  });
}

TEST(Communicators, ComeAndGoWithoutLeaving) {
  auto count_maps = [] {
    FILE* maps = std::fopen("/proc/self/maps", "r");
    int lines = 0;
    for (int c; (c = std::fgetc(maps)) != EOF;) lines += c == '\n';
    std::fclose(maps);
    return lines;
  };
  auto count_descriptors = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator());
  };
  int maps = 0;
  std::ptrdiff_t descriptors = 0;
  for (int round = 0; round < 30; ++round) {
    on_ranks(3, [&](gpucollComm_t comm, int rank) { sum_int32(comm, rank, 3, 100, 0, true); });
    if (round != 9) continue;
    maps = count_maps();
    descriptors = count_descriptors();
  }
  EXPECT_LE(count_maps(), maps + 20);
  EXPECT_LE(count_descriptors(), descriptors + 20);
}
