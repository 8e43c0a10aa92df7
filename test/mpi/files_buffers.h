// Files in a folder of their own, and buffers whose bytes are known, in the data of a type and between them.
//
// Thread safety: none. Ownership: a Folder removes itself with what is in it; a File, a Type and a Buffer own what they
// are made of.
#pragma once
#include <dirent.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "mpi_test.h"

namespace files {
using namespace mpi_test;

// ---- where files are ----

// A folder that rank 0 makes, and removes with what is in it.
class Folder {
 public:
  Folder() {
    const char* const given = std::getenv("TMPDIR");
    std::snprintf(path_, sizeof path_, "%s/gpucoll-files-XXXXXX", given ? given : "/tmp");
    if (g_rank == 0 && !mkdtemp(path_)) MPI_Abort(MPI_COMM_WORLD, 3);
    MPI_Bcast(path_, sizeof path_, MPI_CHAR, 0, MPI_COMM_WORLD);
  }
  ~Folder() {
    MPI_Barrier(MPI_COMM_WORLD);
    if (g_rank != 0) return;
    if (DIR* const folder = opendir(path_)) {
      while (const dirent* const entry = readdir(folder)) unlink(of(entry->d_name).c_str());
      closedir(folder);
    }
    rmdir(path_);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string of(const std::string& name) const { return std::string(path_) + "/" + name; }

 private:
  char path_[400];
};

inline Bytes contents(const std::string& path) {
  Bytes found;
  if (FILE* const file = std::fopen(path.c_str(), "rb")) {
    uint8_t part[4096];
    for (size_t n; (n = std::fread(part, 1, sizeof part, file)) > 0;) found.insert(found.end(), part, part + n);
    std::fclose(file);
  }
  return found;
}

inline void fill(const std::string& path, const Bytes& bytes) {
  FILE* const file = std::fopen(path.c_str(), "wb");
  if (!file || std::fwrite(bytes.data(), 1, bytes.size(), file) != bytes.size()) MPI_Abort(MPI_COMM_WORLD, 3);
  std::fclose(file);
}

class File {
 public:
  File(const std::string& path, int mode, MPI_Comm comm = MPI_COMM_WORLD) {
    if (MPI_File_open(comm, path.c_str(), mode, MPI_INFO_NULL, &file_) != MPI_SUCCESS) {
      std::printf("rank %d cannot open %s\n", g_rank, path.c_str());
      MPI_Abort(MPI_COMM_WORLD, 3);
    }
  }
  ~File() { MPI_File_close(&file_); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  MPI_File get() const { return file_; }

 private:
  MPI_File file_ = MPI_FILE_NULL;
};

// ---- what lies where in memory ----

// Where the data of one element lie, in the order in which they come in a file.
struct Shape {
  const char* name;
  std::vector<std::pair<ptrdiff_t, int>> runs;  // offset, bytes
  ptrdiff_t lower, extent;

  int bytes() const {
    int sum = 0;
    for (const auto& run : runs) sum += run.second;
    return sum;
  }
};

inline const Shape kShapes[] = {
    {"bytes", {{0, 1}}, 0, 1},
    {"ints", {{0, 4}}, 0, 4},
    {"vector", {{0, 4}, {12, 8}, {28, 4}}, 0, 40},
    {"negative", {{-24, 8}, {-8, 4}, {4, 8}}, -24, 36},
    {"backwards", {{16, 4}, {0, 4}, {8, 1}}, 0, 24},
};

class Type {
 public:
  explicit Type(const Shape& shape) {
    std::vector<int> lengths;
    std::vector<MPI_Aint> places;
    for (const auto& run : shape.runs) {
      places.push_back(run.first);
      lengths.push_back(run.second);
    }
    MPI_Type_create_hindexed(static_cast<int>(lengths.size()), lengths.data(), places.data(), MPI_BYTE, &type_);
    resize(shape);
    MPI_Type_commit(&type_);
  }
  ~Type() { MPI_Type_free(&type_); }
  Type(const Type&) = delete;
  Type& operator=(const Type&) = delete;
  MPI_Datatype get() const { return type_; }

 private:
  // ROMIO takes a lower bound that is set so for twice of it.
  void resize(const Shape& shape) {
    MPI_Aint lower, extent;
    MPI_Type_get_extent(type_, &lower, &extent);
    if (lower == shape.lower && extent == shape.extent) return;
    MPI_Datatype plain = type_;
    MPI_Type_create_resized(plain, shape.lower, shape.extent, &type_);
    MPI_Type_free(&plain);
  }
  MPI_Datatype type_ = MPI_DATATYPE_NULL;
};

constexpr ptrdiff_t kBefore = 67;  // bytes in front of the buffer that is passed, as a type may begin there
constexpr uint8_t kUntouched = 0xa5;

// A buffer in memory of any kind, of which MPI sees a part.
class Buffer {
 public:
  Buffer(Where where, const Shape& shape, int count)
      : shape_(shape),
        count_(count),
        bytes_(kBefore + (count + 2) * shape.extent + 50, kUntouched),
        memory_(where, bytes_.size()) {
    memory_.write(bytes_.data());
  }
  void* data() const { return memory_.at(kBefore); }
  // Writes the stream to where the data lie.
  void set(const Bytes& stream) {
    place(stream, stream.size());
    memory_.write(bytes_.data());
  }
  // Returns where memory differs from what it was, with the first n bytes of the stream in it since; -1: nowhere.
  ptrdiff_t differs(const Bytes& stream, size_t n) {
    place(stream, n);
    const Bytes now = image();
    const auto found = std::mismatch(bytes_.begin(), bytes_.end(), now.begin());
    return found.first == bytes_.end() ? -1 : found.first - bytes_.begin() - kBefore;
  }
  Bytes image() const { return memory_.image(); }

 private:
  void place(const Bytes& stream, size_t n) {
    size_t k = 0;
    for (int e = 0; e < count_; ++e)
      for (const auto& run : shape_.runs)
        for (int i = 0; i < run.second && k < n; ++i, ++k)
          bytes_[static_cast<size_t>(kBefore + e * shape_.extent + run.first + i)] = stream[k];
  }
  const Shape& shape_;
  int count_;
  Bytes bytes_;  // what memory should be
  Memory memory_;
};

}  // namespace files
