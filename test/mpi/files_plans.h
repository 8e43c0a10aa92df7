// What the ranks write to a file or read from it, and where their bytes lie in it.
//
// Thread safety: none. Ownership: none.
#pragma once
#include <algorithm>

#include "files_buffers.h"

namespace files {

inline int g_round = 0;

inline Bytes stream_of(int rank, size_t bytes) {
  Bytes stream(bytes);
  for (size_t k = 0; k < bytes; ++k)
    stream[k] = static_cast<uint8_t>(mix(static_cast<uint64_t>(rank), k, static_cast<uint64_t>(g_round)));
  return stream;
}

// Says what the ranks write or read: rank r `elements + r` of a shape. One rank's bytes lie behind the other's, or in
// blocks that take turns.
struct Plan {
  const Shape& shape;
  int elements;
  bool interleaved;

  static constexpr int kBlock = 5, kDisplacement = 13;
  int count(int rank) const { return elements == 0 ? 0 : elements + rank; }
  size_t bytes(int rank) const { return static_cast<size_t>(count(rank) * shape.bytes()); }
  MPI_Offset offset(int rank) const {
    size_t sum = 0;
    for (int r = 0; r < rank && !interleaved; ++r) sum += bytes(r);
    return static_cast<MPI_Offset>(sum);
  }
  size_t place(int rank, size_t k) const {
    if (!interleaved) return static_cast<size_t>(offset(rank)) + k;
    const size_t block = k / kBlock;
    return kDisplacement + (block * static_cast<size_t>(g_size) + static_cast<size_t>(rank)) * kBlock + k % kBlock;
  }
  size_t file_bytes() const {
    size_t end = 0;
    for (int r = 0; r < g_size; ++r)
      if (bytes(r) > 0) end = std::max(end, place(r, bytes(r) - 1) + 1);
    return end;
  }
  // Returns the file that all ranks write together.
  Bytes file() const {
    Bytes all(file_bytes());
    for (int r = 0; r < g_size; ++r) {
      const Bytes stream = stream_of(r, bytes(r));
      for (size_t k = 0; k < stream.size(); ++k) all[place(r, k)] = stream[k];
    }
    return all;
  }
  // Returns where a rank's bytes in a file are wrong, as a place in its stream; -1: nowhere.
  long wrong_in(const Bytes& file, int rank) const {
    const Bytes stream = stream_of(rank, bytes(rank));
    for (size_t k = 0; k < stream.size(); ++k)
      if (place(rank, k) >= file.size() || file[place(rank, k)] != stream[k]) return static_cast<long>(k);
    return -1;
  }
  void set_view(MPI_File file) const {
    if (!interleaved) {
      MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL);
      return;
    }
    const Shape blocks = {"blocks", {{kBlock * g_rank, kBlock}}, 0, kBlock * g_size};
    const Type type(blocks);
    MPI_File_set_view(file, kDisplacement, MPI_BYTE, type.get(), "native", MPI_INFO_NULL);
  }
};

}  // namespace files
