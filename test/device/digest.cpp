// Bits of results, to compare a GPU's with the emulated device's: prints a line for each call, with a digest of what
// all ranks hold. Sums of floating-point numbers of many magnitudes, so that another order shows. test/device/run
// compares the lines of both kinds of device, with the ways of the collectives forced by parameters.
//
//   digest N      N ranks in this process, on devices 0 .. N - 1
#include <gpucoll/gpucoll.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <vector>

namespace {

constexpr size_t kMost = 300007;

void check(gpucollResult_t result) {
  if (result == gpucollSuccess) return;
  std::fprintf(stderr, "digest: %s: %s\n", gpucollGetErrorString(result), gpucollGetLastError(nullptr));
  std::exit(1);
}

uint64_t scramble(uint64_t x) {
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

// Element i of rank `rank`: any sign and significand, an exponent out of 16 that no sum overflows. Every other float of
// 8 bits is any at all: sums are saturated, and of infinities and NaNs.
std::vector<uint8_t> numbers(gpucollDataType_t type, int rank, size_t count) {
  const size_t size = gpucollTypeSize(type);
  std::vector<uint8_t> bytes(count * size);
  for (size_t i = 0; i < count; ++i) {
    const uint64_t x = scramble(i * 64 + static_cast<uint64_t>(rank) + 1), power = x >> 40 & 15, sign = x >> 63;
    uint64_t bits = 0;
    if (type == gpucollFloat16) bits = sign << 15 | (power / 2 + 8) << 10 | (x & 0x3ff);
    if (type == gpucollBfloat16) bits = sign << 15 | (power + 120) << 7 | (x & 0x7f);
    if (type == gpucollFloat8e4m3) bits = sign << 7 | (power / 4 + 5) << 3 | (x & 7);
    if (type == gpucollFloat8e5m2) bits = sign << 7 | (power / 2 + 11) << 2 | (x & 3);
    if (size == 1 && i % 2 != 0) bits = x & 0xff;
    if (type == gpucollFloat32) bits = sign << 31 | (power + 120) << 23 | (x & 0x7fffff);
    if (type == gpucollFloat64) bits = sign << 63 | (power + 1016) << 52 | (x & 0xfffffffffffff);
    std::memcpy(&bytes[i * size], &bits, size);
  }
  return bytes;
}

uint64_t digest(const std::vector<uint8_t>& bytes) {
  uint64_t hash = 14695981039346656037u;
  for (uint8_t b : bytes) hash = (hash ^ b) * 1099511628211u;
  return hash;
}

struct Rank {
  gpucollComm_t comm;
  gpucollStream_t stream;
  void *in, *out;
};

using Call = std::function<gpucollResult_t(const Rank&, size_t count, gpucollDataType_t type)>;

void run(const char* name, std::vector<Rank>& ranks, size_t out_of, const Call& call) {
  static constexpr struct {
    gpucollDataType_t type;
    const char* name;
  } kTypes[] = {{gpucollFloat16, "float16"},        {gpucollBfloat16, "bfloat16"}, {gpucollFloat8e4m3, "float8_e4m3"},
                {gpucollFloat8e5m2, "float8_e5m2"}, {gpucollFloat32, "float32"},   {gpucollFloat64, "float64"}};
  for (const auto& type : kTypes) {
    for (const size_t count : {size_t{1}, size_t{131}, size_t{5003}, kMost / out_of}) {
      const size_t bytes = count * gpucollTypeSize(type.type);
      for (size_t r = 0; r < ranks.size(); ++r) {
        const auto data = numbers(type.type, static_cast<int>(r), count * out_of);
        check(gpucollMemcpy(ranks[r].in, data.data(), data.size()));
        check(gpucollMemset(ranks[r].out, 0, bytes));
      }
      check(gpucollGroupStart());
      for (const Rank& rank : ranks) check(call(rank, count, type.type));
      check(gpucollGroupEnd());
      uint64_t all = 0;
      for (const Rank& rank : ranks) {
        check(gpucollStreamSynchronize(rank.stream));
        std::vector<uint8_t> got(bytes);
        check(gpucollMemcpy(got.data(), rank.out, bytes));
        all = scramble(all + digest(got));
      }
      std::printf("%s of %zu %s on %zu ranks: %016llx\n", name, count, type.name, ranks.size(),
                  static_cast<unsigned long long>(all));
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  const int n = argc == 2 ? std::atoi(argv[1]) : 0;
  if (n < 1) return std::fprintf(stderr, "usage: digest RANKS\n"), 2;
  std::vector<int> devices;
  for (int i = 0; i < n; ++i) devices.push_back(i);
  std::vector<gpucollComm_t> comms(static_cast<size_t>(n));
  check(gpucollCommInitAll(comms.data(), n, devices.data()));
  std::vector<Rank> ranks;
  for (int i = 0; i < n; ++i) {
    Rank rank{comms[static_cast<size_t>(i)], nullptr, nullptr, nullptr};
    check(gpucollSetDevice(i));
    check(gpucollStreamCreate(&rank.stream));
    check(gpucollMalloc(&rank.in, kMost * sizeof(double)));
    check(gpucollMalloc(&rank.out, kMost * sizeof(double)));
    ranks.push_back(rank);
  }
  run("allreduce", ranks, 1, [](const Rank& r, size_t count, gpucollDataType_t type) {
    return gpucollAllReduce(r.in, r.out, count, type, gpucollSum, r.comm, r.stream);
  });
  run("product", ranks, 1, [](const Rank& r, size_t count, gpucollDataType_t type) {
    return gpucollAllReduce(r.in, r.out, count, type, gpucollProd, r.comm, r.stream);
  });
  run("maximum", ranks, 1, [](const Rank& r, size_t count, gpucollDataType_t type) {
    return gpucollAllReduce(r.in, r.out, count, type, gpucollMax, r.comm, r.stream);
  });
  run("minimum", ranks, 1, [](const Rank& r, size_t count, gpucollDataType_t type) {
    return gpucollAllReduce(r.in, r.out, count, type, gpucollMin, r.comm, r.stream);
  });
  run("mean", ranks, 1, [](const Rank& r, size_t count, gpucollDataType_t type) {
    return gpucollAllReduce(r.in, r.out, count, type, gpucollAvg, r.comm, r.stream);
  });
  run("reduce", ranks, 1, [n](const Rank& r, size_t count, gpucollDataType_t type) {
    return gpucollReduce(r.in, r.out, count, type, gpucollSum, n / 2, r.comm, r.stream);
  });
  run("reduce_scatter", ranks, static_cast<size_t>(n), [](const Rank& r, size_t count, gpucollDataType_t type) {
    return gpucollReduceScatter(r.in, r.out, count, type, gpucollSum, r.comm, r.stream);
  });
  for (const Rank& rank : ranks) check(gpucollCommDestroy(rank.comm));
  return 0;
}
