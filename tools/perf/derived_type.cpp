#include "perf/derived_type.h"

namespace gpucoll::perf {
namespace {

using Kind = TypeShape::Kind;

MPI_Datatype make_face(const TypeShape& shape, MPI_Datatype element) {
  const int n = shape.numbers[0], across = shape.numbers[1];
  const int grid[] = {n, n, n}, start[] = {0, 0, 0};  // z, y, x
  const int face[] = {across == n * n ? 1 : n, across == n ? 1 : n, across == 1 ? 1 : n};
  MPI_Datatype made = MPI_DATATYPE_NULL;
  MPI_Type_create_subarray(3, grid, face, start, MPI_ORDER_C, element, &made);
  return made;
}

MPI_Datatype make_indexed(const TypeShape& shape, MPI_Datatype element) {
  std::vector<int> lengths, places;
  for (const TypeShape::Part& part : parts_of(shape)) {
    lengths.push_back(static_cast<int>(part.elements));
    places.push_back(static_cast<int>(part.offset));
  }
  MPI_Datatype made = MPI_DATATYPE_NULL;
  MPI_Type_indexed(shape.numbers[0], lengths.data(), places.data(), element, &made);
  return made;
}

MPI_Datatype make_structs(const TypeShape& shape, MPI_Datatype element) {
  MPI_Aint least = 0, extent = 0;
  MPI_Type_get_extent(element, &least, &extent);
  const int lengths[] = {1, 2};
  const MPI_Aint places[] = {0, 2 * extent};
  const MPI_Datatype types[] = {element, element};
  MPI_Datatype one = MPI_DATATYPE_NULL, made = MPI_DATATYPE_NULL;
  MPI_Type_create_struct(2, lengths, places, types, &one);
  MPI_Type_contiguous(shape.numbers[0], one, &made);
  MPI_Type_free(&one);
  return made;
}

}  // namespace

DerivedType::DerivedType(const TypeShape& shape, MPI_Datatype element) {
  switch (shape.kind) {
    case Kind::vector: MPI_Type_vector(shape.numbers[0], shape.numbers[1], shape.numbers[2], element, &type_); break;
    case Kind::face: type_ = make_face(shape, element); break;
    case Kind::indexed: type_ = make_indexed(shape, element); break;
    case Kind::structs: type_ = make_structs(shape, element); break;
  }
  MPI_Type_commit(&type_);
}

}  // namespace gpucoll::perf
