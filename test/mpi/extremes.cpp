// Maxima and minima of NaNs, of zeros of both signs and of pairs with them: the ranks combine in different orders, by
// whatever algorithm, and still have the same bits. A NaN gives way to any number, +0 is greater than -0, of several
// NaNs the one with the greatest bits stays. usage: extremes
#include <algorithm>

#include "abi/abi.h"
#include "mpi_test.h"

namespace {
using namespace mpi_test;

size_t z(int value) { return static_cast<size_t>(value); }

constexpr uint32_t kSpecial[] = {0x7fc00000, 0xffc00000, 0x7fc12345, 0xff812345, 0x7f812345, 0x00000000,
                                 0x80000000, 0x00000001, 0x80000001, 0x7f800000, 0xff800000, 0x3f800000};

float value_of(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
bool is_nan(uint32_t bits) { return (bits & 0x7fffffff) > 0x7f800000; }

// An element: a float, and the index that belongs to it in a pair.
struct Element {
  uint32_t value;
  int index;
};

Element element(int rank, int i, bool pairs) {
  const uint64_t random = mix(static_cast<uint64_t>(rank) + 1, static_cast<uint64_t>(i));
  // Often all ranks have NaNs, or zeros.
  const int kind = i % 3;
  const uint64_t from = kind == 0 ? random % 5 : kind == 1 ? 5 + random % 2 : random % std::size(kSpecial);
  return {kSpecial[from], pairs ? static_cast<int>(random >> 20 & 3) : 0};
}

// Whether a comes before b; never if they are equal bit by bit.
bool wins(const Element& a, const Element& b, bool max) {
  const float x = value_of(a.value), y = value_of(b.value);
  if (is_nan(a.value) != is_nan(b.value)) return is_nan(b.value);
  if (x > y || x < y) return (x > y) == max;
  if (a.index != b.index) return a.index < b.index;
  return is_nan(a.value) || !max ? a.value > b.value : a.value < b.value;
}

Element reduced(int from, int to, int i, bool max, bool pairs) {
  Element best = element(from, i, pairs);
  for (int r = from + 1; r < to; r++)
    if (const Element next = element(r, i, pairs); wins(next, best, max)) best = next;
  return best;
}

uint64_t runs() { return gpucoll_abi(GC_ABI_VERSION)->runs(); }

class Case {
 public:
  Case(int count, bool max, bool pairs) : count_(count), max_(max), pairs_(pairs) {}

  void run() {
    const MPI_Datatype type = pairs_ ? MPI_FLOAT_INT : MPI_FLOAT;
    const MPI_Op op = pairs_ ? (max_ ? MPI_MAXLOC : MPI_MINLOC) : max_ ? MPI_MAX : MPI_MIN;
    const size_t bytes = z(count_) * (pairs_ ? 8 : 4);
    Memory send(Where::device, bytes), recv(Where::device, bytes);
    std::vector<uint32_t> words;
    for (int i = 0; i < count_; i++) append(&words, element(g_rank, i, pairs_));
    send.write(words.data());
    const auto check = [&](const char* what, int from, int to, int first, int n, bool mine) {
      std::vector<uint32_t> got(bytes / 4), expected;
      recv.read(got.data());
      for (int i = first; mine && i < first + n; i++) append(&expected, reduced(from, to, i, max_, pairs_));
      if (!checked(std::equal(expected.begin(), expected.end(), got.begin()))) {
        const auto at = std::mismatch(expected.begin(), expected.end(), got.begin());
        fail("%s of %d %s, %s: word %td is %08x instead of %08x", what, count_, pairs_ ? "pairs" : "floats",
             max_ ? "max" : "min", at.first - expected.begin(), *at.second, *at.first);
      }
    };
    const uint64_t before = runs();
    for (int again = 0; again < 3; again++) {  // what has been used before may go another way
      MPI_Allreduce(send.at(0), recv.at(0), count_, type, op, MPI_COMM_WORLD);
      check("allreduce", 0, g_size, 0, count_, true);
    }
    MPI_Reduce(send.at(0), recv.at(0), count_, type, op, g_size - 1, MPI_COMM_WORLD);
    check("reduce", 0, g_size, 0, count_, g_rank == g_size - 1);
    const int part = count_ / g_size;
    MPI_Reduce_scatter_block(send.at(0), recv.at(0), part, type, op, MPI_COMM_WORLD);
    check("reduce_scatter_block", 0, g_size, g_rank * part, part, true);
    MPI_Scan(send.at(0), recv.at(0), count_, type, op, MPI_COMM_WORLD);
    check("scan", 0, g_rank + 1, 0, count_, true);
    if (!checked(runs() - before == (part ? 6 : 5))) fail("not all of %d ran on the device", count_);
  }

 private:
  void append(std::vector<uint32_t>* words, const Element& e) const {
    words->push_back(e.value);
    if (pairs_) words->push_back(static_cast<uint32_t>(e.index));
  }
  int count_;
  bool max_, pairs_;
};

}  // namespace

int main(int argc, char** argv) {
  Mpi mpi(argc, argv);
  use_own_device();
  for (const int count : {1, 7, 500, 3000, 20000, 100000, 1200000})
    for (const bool max : {true, false})
      for (const bool pairs : {false, true}) Case(count, max, pairs).run();
  return mpi.finish("extremes");
}
