// Sums of floats and doubles that depend on their order. Between nodes of one rank each, where small allreduces are
// exchanged, all ranks have the bits of the sum in the order of the ranks. usage: sum_order
#include "abi/abi.h"
#include "call_form.h"
#include "mpi_test.h"

namespace {
using namespace mpi_test;

constexpr ptrdiff_t kOffset = 24;

// Values of many magnitudes and both signs.
template <class T>
T element(int rank, int i) {
  const uint64_t random = mix(static_cast<uint64_t>(rank) + 1, static_cast<uint64_t>(i));
  const T value = static_cast<T>(random >> 40) + T{1};
  const T scale = static_cast<T>(uint64_t{1} << (random & 31));
  return random & 32 ? -value * scale : value / scale;
}

template <class T>
T sum_from(int first, int i) {
  T sum = element<T>(first % g_size, i);
  for (int k = 1; k < g_size; k++) sum += element<T>((first + k) % g_size, i);
  return sum;
}

template <class T>
std::vector<T> input(int count) {
  std::vector<T> values(static_cast<size_t>(count));
  for (int i = 0; i < count; i++) values[static_cast<size_t>(i)] = element<T>(g_rank, i);
  return values;
}

int g_depending = 0;  // how many elements depend on the order

template <class T>
void sum(MPI_Datatype type, int count, Form form, bool in_place) {
  const size_t bytes = static_cast<size_t>(count) * sizeof(T);
  Memory from(Where::device, bytes + kOffset), to(Where::device, bytes + kOffset);
  Memory& read = in_place ? to : from;
  std::vector<char> image(bytes + kOffset, 0x55);
  std::memcpy(image.data() + kOffset, input<T>(count).data(), bytes);
  read.write(image.data());
  const void* const send = in_place ? MPI_IN_PLACE : from.at(kOffset);
  MPI_Request request = MPI_REQUEST_NULL;
  const uint64_t before = gpucoll_abi(GC_ABI_VERSION)->runs();
  const int rc =
      GC_CALL_IN_FORM(form, MPI_COMM_WORLD, Allreduce, allreduce, send, to.at(kOffset), count, type, MPI_SUM);
  if (!checked(rc == MPI_SUCCESS)) return fail("%ssum of %d elements: code %d", name_of(form), count, rc);
  if (!checked(gpucoll_abi(GC_ABI_VERSION)->runs() > before)) fail("a sum has not run on the device");
  to.read(image.data());
  for (int i = 0; i < count; i++) {
    const T right = sum_from<T>(0, i);
    T got;
    std::memcpy(&got, image.data() + kOffset + static_cast<size_t>(i) * sizeof(T), sizeof got);
    g_depending += right != sum_from<T>(1, i);
    if (!checked(std::memcmp(&got, &right, sizeof got) == 0))
      return fail("%ssum of %d elements of %zu bytes: element %d is not in the order of the ranks", name_of(form),
                  count, sizeof(T), i);
  }
}

}  // namespace

int main(int argc, char** argv) {
  Mpi mpi(argc, argv, MPI_THREAD_MULTIPLE);
  use_own_device();
  for (const Form form : kForms) {
    for (const bool in_place : {false, true}) {
      for (const int count : {1, 3, 257, 1023}) sum<float>(MPI_FLOAT, count, form, in_place);
      for (const int count : {1, 5, 511}) sum<double>(MPI_DOUBLE, count, form, in_place);
    }
  }
  if (!checked(g_depending > 100)) fail("too few sums depend on their order: %d", g_depending);
  return mpi.finish("sum_order");
}
