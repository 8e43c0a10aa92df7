#include "stream_mpi/types.h"

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace gpucoll::stream_mpi {
namespace {

// Named types that have operations. Those of Fortran have the size that its compiler gave them.
enum class Kind { integer, unsigned_integer, real, complex, pair_of_integers, pair_of_reals, as_it_is };
struct Named {
  MPI_Datatype mpi;
  Kind kind;
  gpucollDataType_t type = gpucollNumTypes;  // of Kind::as_it_is
  Meaning meaning = Meaning::number;
};

const std::vector<Named>& named_types() {
  static const std::vector<Named>* const types = new std::vector<Named>{
      {MPI_DOUBLE, Kind::real},
      {MPI_FLOAT, Kind::real},
      {MPI_INT, Kind::integer},
      {MPI_BYTE, Kind::unsigned_integer, gpucollNumTypes, Meaning::bits},
      {MPI_LONG, Kind::integer},
      {MPI_LONG_LONG, Kind::integer},
      {MPI_UNSIGNED, Kind::unsigned_integer},
      {MPI_UNSIGNED_LONG, Kind::unsigned_integer},
      {MPI_UNSIGNED_LONG_LONG, Kind::unsigned_integer},
      {MPI_INT8_T, Kind::integer},
      {MPI_INT16_T, Kind::integer},
      {MPI_INT32_T, Kind::integer},
      {MPI_INT64_T, Kind::integer},
      {MPI_UINT8_T, Kind::unsigned_integer},
      {MPI_UINT16_T, Kind::unsigned_integer},
      {MPI_UINT32_T, Kind::unsigned_integer},
      {MPI_UINT64_T, Kind::unsigned_integer},
      {MPI_SIGNED_CHAR, Kind::integer},
      {MPI_UNSIGNED_CHAR, Kind::unsigned_integer},
      {MPI_SHORT, Kind::integer},
      {MPI_UNSIGNED_SHORT, Kind::unsigned_integer},
      {MPI_C_BOOL, Kind::unsigned_integer, gpucollNumTypes, Meaning::truth},
      {MPI_AINT, Kind::integer},
      {MPI_OFFSET, Kind::integer},
      {MPI_COUNT, Kind::integer},
      {MPI_C_COMPLEX, Kind::complex},
      {MPI_C_FLOAT_COMPLEX, Kind::complex},
      {MPI_C_DOUBLE_COMPLEX, Kind::complex},
      {MPI_FLOAT_INT, Kind::as_it_is, gpucollFloatInt},
      {MPI_DOUBLE_INT, Kind::as_it_is, gpucollDoubleInt},
      {MPI_LONG_INT, Kind::as_it_is, gpucollLongInt},
      {MPI_2INT, Kind::as_it_is, gpucollIntInt},
      {MPI_SHORT_INT, Kind::as_it_is, gpucollShortInt},
      {MPI_INTEGER, Kind::integer},
      {MPI_REAL, Kind::real},
      {MPI_DOUBLE_PRECISION, Kind::real},
      {MPI_COMPLEX, Kind::complex},
      {MPI_DOUBLE_COMPLEX, Kind::complex},
      {MPI_LOGICAL, Kind::integer, gpucollNumTypes, Meaning::truth},
      {MPI_2INTEGER, Kind::pair_of_integers},
      {MPI_2REAL, Kind::pair_of_reals},
      {MPI_2DOUBLE_PRECISION, Kind::pair_of_reals},
      {MPI_INTEGER1, Kind::integer},
      {MPI_INTEGER2, Kind::integer},
      {MPI_INTEGER4, Kind::integer},
      {MPI_INTEGER8, Kind::integer},
#ifdef MPI_REAL2
      {MPI_REAL2, Kind::real},
#endif
      {MPI_REAL4, Kind::real},
      {MPI_REAL8, Kind::real},
      {MPI_COMPLEX8, Kind::complex},
      {MPI_COMPLEX16, Kind::complex},
  };
  return *types;
}

gpucollDataType_t of_size(Kind kind, int bytes) {
  switch (kind) {
    case Kind::integer:
      return bytes == 1   ? gpucollInt8
             : bytes == 2 ? gpucollInt16
             : bytes == 4 ? gpucollInt32
             : bytes == 8 ? gpucollInt64
                          : gpucollNumTypes;
    case Kind::unsigned_integer:
      return bytes == 1   ? gpucollUint8
             : bytes == 2 ? gpucollUint16
             : bytes == 4 ? gpucollUint32
             : bytes == 8 ? gpucollUint64
                          : gpucollNumTypes;
    case Kind::real:
      return bytes == 2 ? gpucollFloat16 : bytes == 4 ? gpucollFloat32 : bytes == 8 ? gpucollFloat64 : gpucollNumTypes;
    case Kind::complex: return bytes == 8 ? gpucollComplex64 : bytes == 16 ? gpucollComplex128 : gpucollNumTypes;
    case Kind::pair_of_integers: return bytes == 8 ? gpucollIntInt : gpucollNumTypes;
    case Kind::pair_of_reals:
      return bytes == 8 ? gpucollFloatFloat : bytes == 16 ? gpucollDoubleDouble : gpucollNumTypes;
    case Kind::as_it_is: break;
  }
  return gpucollNumTypes;
}

// Describes one element of an MPI type in memory: it is nothing but elements of the C API, or not that.
struct Layout {
  bool dense = false;
  bool has_operations = false;
  Elements elements = {gpucollUint8, 0};
};

Layout bytes_of(MPI_Datatype type) {
  MPI_Count size = 0, lower = 0, extent = 0;
  PMPI_Type_size_x(type, &size);
  PMPI_Type_get_extent_x(type, &lower, &extent);
  return {lower == 0 && extent == size, false, {gpucollUint8, static_cast<size_t>(size)}};
}

Layout layout_of_named(MPI_Datatype type) {
  for (const Named& named : named_types()) {
    if (named.mpi != type) continue;
    int bytes = 0;
    PMPI_Type_size(type, &bytes);
    const gpucollDataType_t found = named.kind == Kind::as_it_is ? named.type : of_size(named.kind, bytes);
    if (found != gpucollNumTypes) return {true, true, {found, 1, named.meaning}};
    break;
  }
  return bytes_of(type);
}

// Holds the arguments that a derived type was made of.
struct Contents {
  std::vector<int> integers;
  std::vector<MPI_Aint> addresses;
  std::vector<MPI_Datatype> types;
  int combiner = MPI_COMBINER_NAMED;

  explicit Contents(MPI_Datatype type) {
    int n_integers = 0, n_addresses = 0, n_types = 0;
    PMPI_Type_get_envelope(type, &n_integers, &n_addresses, &n_types, &combiner);
    if (n_types == 0) return;  // a predefined one
    integers.resize(static_cast<size_t>(n_integers));
    addresses.resize(static_cast<size_t>(n_addresses));
    types.resize(static_cast<size_t>(n_types));
    PMPI_Type_get_contents(type, n_integers, n_addresses, n_types, integers.data(), addresses.data(), types.data());
  }
  ~Contents() {
    for (MPI_Datatype& type : types)
      if (!is_predefined(type)) PMPI_Type_free(&type);
  }
  Contents(const Contents&) = delete;
  Contents& operator=(const Contents&) = delete;

 private:
  // Those of MPI_Type_create_f90_real and so on have a combiner, but may not be freed.
  static bool is_predefined(MPI_Datatype type) {
    int n_integers = 0, n_addresses = 0, n_types = 0, combiner = 0;
    PMPI_Type_get_envelope(type, &n_integers, &n_addresses, &n_types, &combiner);
    return n_types == 0;
  }
};

// Puts runs of elements one behind another, and finds out whether they lie so in memory.
class Row {
 public:
  // `count` elements that begin `at` bytes from the type's own beginning.
  void add(MPI_Aint at, int64_t count, const Layout& of) {
    if (count == 0 || of.elements.count == 0) return;
    dense_ = dense_ && of.dense && at == static_cast<MPI_Aint>(row_.bytes());
    has_operations_ = has_operations_ && of.has_operations;
    Elements more = {of.elements.type, of.elements.count * static_cast<size_t>(count), of.elements.meaning};
    if (row_.count == 0) row_ = {more.type, 0, more.meaning};
    if (row_.type != more.type || row_.meaning != more.meaning) {
      has_operations_ = false;
      row_ = {gpucollUint8, row_.bytes()};
      more = {gpucollUint8, more.bytes()};
    }
    row_.count += more.count;
  }
  Layout layout() const { return {dense_, has_operations_ && row_.count > 0, row_}; }

 private:
  bool dense_ = true, has_operations_ = true;
  Elements row_ = {gpucollUint8, 0};
};

Layout layout_of(MPI_Datatype type);

// Calls add(at, length) for each block of a type that is made of blocks of one other type; false: it is of another
// kind.
template <class Add>
bool each_block(const Contents& of, MPI_Aint extent, Add add) {
  const std::vector<int>& i = of.integers;
  const std::vector<MPI_Aint>& a = of.addresses;
  switch (of.combiner) {
    case MPI_COMBINER_DUP:
    case MPI_COMBINER_RESIZED: add(0, 1); return true;
    case MPI_COMBINER_CONTIGUOUS: add(0, i[0]); return true;
    case MPI_COMBINER_VECTOR:
      for (int block = 0; block < i[0]; ++block) add(MPI_Aint{block} * i[2] * extent, i[1]);
      return true;
    case MPI_COMBINER_HVECTOR:
      for (int block = 0; block < i[0]; ++block) add(block * a[0], i[1]);
      return true;
    case MPI_COMBINER_INDEXED:
      for (int block = 1; block <= i[0]; ++block)
        add(i[static_cast<size_t>(i[0] + block)] * extent, i[static_cast<size_t>(block)]);
      return true;
    case MPI_COMBINER_HINDEXED:
      for (int block = 0; block < i[0]; ++block) add(a[static_cast<size_t>(block)], i[static_cast<size_t>(block) + 1]);
      return true;
    case MPI_COMBINER_INDEXED_BLOCK:
      for (int block = 0; block < i[0]; ++block) add(i[static_cast<size_t>(block) + 2] * extent, i[1]);
      return true;
    case MPI_COMBINER_HINDEXED_BLOCK:
      for (int block = 0; block < i[0]; ++block) add(a[static_cast<size_t>(block)], i[1]);
      return true;
    default: return false;
  }
}

// Adds the elements of a subarray that is the whole array; of another one, nothing that is dense.
void add_subarray(const Contents& of, const Layout& inner, Row* row) {
  int64_t elements = 1;
  bool whole = true;
  const auto n = static_cast<size_t>(of.integers[0]);
  for (size_t d = 0; d < n; ++d) {
    whole = whole && of.integers[1 + d] == of.integers[1 + n + d];
    elements *= of.integers[1 + n + d];
  }
  row->add(whole ? 0 : -1, elements, inner);
}

Layout layout_of_derived(MPI_Datatype type) {
  const Contents of(type);
  if (of.types.empty()) return layout_of_named(type);
  Row row;
  const Layout first = layout_of(of.types[0]);
  MPI_Aint lower = 0, extent = 0;
  PMPI_Type_get_extent(of.types[0], &lower, &extent);
  if (of.combiner == MPI_COMBINER_SUBARRAY) {
    add_subarray(of, first, &row);
  } else if (of.combiner == MPI_COMBINER_STRUCT) {
    for (size_t block = 0; block < of.types.size(); ++block)
      row.add(of.addresses[block], of.integers[block + 1], layout_of(of.types[block]));
  } else if (!each_block(of, extent, [&](MPI_Aint at, int count) { row.add(at, count, first); })) {
    return {};
  }
  Layout layout = row.layout();
  PMPI_Type_get_extent(type, &lower, &extent);
  layout.dense = layout.dense && lower == 0 && static_cast<size_t>(extent) == layout.elements.bytes();
  return layout;
}

int forget(MPI_Datatype, int, void* layout, void*) {
  delete static_cast<Layout*>(layout);
  return MPI_SUCCESS;
}

// REQUIRES: MPI runs.
int type_keyval() {
  static const int keyval = [] {
    int made = MPI_KEYVAL_INVALID;
    PMPI_Type_create_keyval(MPI_TYPE_NULL_COPY_FN, forget, &made, nullptr);
    return made;
  }();
  return keyval;
}

// Copies the layout that is kept with a type; false: none is. REQUIRES: the caller holds what kept_layouts() returns.
bool find_kept(MPI_Datatype type, Layout* layout) {
  void* kept = nullptr;
  int found = 0;
  PMPI_Type_get_attr(type, type_keyval(), &kept, &found);
  if (found) *layout = *static_cast<const Layout*>(kept);
  return found;
}

// Returns the lock of all kept layouts. A thread must not set what another one reads: MPI deletes the older one then.
std::mutex& kept_layouts() {
  static std::mutex mutex;
  return mutex;
}

Layout layout_of(MPI_Datatype type) {
  for (const Named& named : named_types())
    if (named.mpi == type) return layout_of_named(type);
  Layout layout;
  {
    std::lock_guard lock(kept_layouts());
    if (find_kept(type, &layout)) return layout;
  }
  auto made = std::make_unique<Layout>(layout_of_derived(type));  // without the lock: it calls this function
  std::lock_guard lock(kept_layouts());
  if (find_kept(type, &layout)) return layout;  // another thread was faster
  layout = *made;
  if (PMPI_Type_set_attr(type, type_keyval(), made.get()) == MPI_SUCCESS) (void)made.release();
  return layout;
}

Result<Layout> dense_layout(MPI_Datatype type) {
  if (type == MPI_DATATYPE_NULL) return Status::error(Code::invalid_argument, "the datatype is MPI_DATATYPE_NULL");
  const Layout layout = layout_of(type);
  if (layout.dense) return layout;
  return Status::error(Code::invalid_argument,
                       "the datatype has gaps, or elements in another order than in memory: pack the data on the "
                       "stream, by a kernel, and send them as a type without gaps; or call MPI's own function after "
                       "gpucollStreamSynchronize");
}

Result<Elements> times(const char* count_name, MPI_Count count, const Elements& elements) {
  if (count < 0) return Status::error(Code::invalid_argument, "%s is %lld", count_name, static_cast<long long>(count));
  size_t n;
  if (__builtin_mul_overflow(static_cast<size_t>(count), elements.count, &n) ||
      n > SIZE_MAX / gpucollTypeSize(elements.type))
    return Status::error(Code::invalid_argument, "%s is %lld: so many elements are larger than any memory", count_name,
                         static_cast<long long>(count));
  return Elements{elements.type, n, elements.meaning};
}

Status check_meaning(Meaning meaning, gpucollRedOp_t op) {
  const bool bitwise = op == gpucollBand || op == gpucollBor || op == gpucollBxor;
  const bool logical = op == gpucollLand || op == gpucollLor || op == gpucollLxor;
  if (meaning == Meaning::bits && !bitwise)
    return Status::error(Code::invalid_argument,
                         "the datatype is MPI_BYTE, which has only MPI_BAND, MPI_BOR and MPI_BXOR: call it "
                         "MPI_UINT8_T, or what else its bytes are, where they are numbers");
  if (meaning == Meaning::truth && !logical)
    return Status::error(Code::invalid_argument,
                         "the datatype is one of truth values, which has only MPI_LAND, MPI_LOR and MPI_LXOR: call it "
                         "an integer type of the same size where its values are numbers");
  return {};
}

}  // namespace

Result<size_t> moved(const char* count_name, MPI_Count count, MPI_Datatype type) {
  GC_TRY_AS(const Layout layout, dense_layout(type));
  GC_TRY_AS(const Elements all, times(count_name, count, layout.elements));
  return all.bytes();
}

Result<Elements> reduced(const char* count_name, MPI_Count count, MPI_Datatype type) {
  GC_TRY_AS(const Layout layout, dense_layout(type));
  if (!layout.has_operations)
    return Status::error(Code::invalid_argument,
                         "the datatype has no operation on the device: its elements are not all of one predefined "
                         "type that gpucoll knows; call MPI's own function after gpucollStreamSynchronize");
  return times(count_name, count, layout.elements);
}

Result<gpucollRedOp_t> operation(MPI_Op op, const Elements& of) {
  struct Pair {
    MPI_Op mpi;
    gpucollRedOp_t op;
  };
  static const Pair pairs[] = {{MPI_SUM, gpucollSum},   {MPI_PROD, gpucollProd},     {MPI_MAX, gpucollMax},
                               {MPI_MIN, gpucollMin},   {MPI_BAND, gpucollBand},     {MPI_BOR, gpucollBor},
                               {MPI_BXOR, gpucollBxor}, {MPI_LAND, gpucollLand},     {MPI_LOR, gpucollLor},
                               {MPI_LXOR, gpucollLxor}, {MPI_MAXLOC, gpucollMaxloc}, {MPI_MINLOC, gpucollMinloc}};
  for (const Pair& pair : pairs) {
    if (pair.mpi != op) continue;
    GC_TRY(check_meaning(of.meaning, pair.op));
    return gpucollRedOp_t{pair.op};
  }
  return Status::error(Code::invalid_argument,
                       "the operation is none that a kernel has: only MPI's predefined ones are, without MPI_REPLACE "
                       "and MPI_NO_OP; call MPI's own function after gpucollStreamSynchronize");
}

}  // namespace gpucoll::stream_mpi
