// MPI's functions that read or write the data of files, each in one form, so that a test can call all in a loop.
//
// Thread safety: none. Ownership: none.
#pragma once
#include <string>

#include "mpi_test.h"

namespace files {
using namespace mpi_test;

struct Operation {
  const char* name;
  bool shares;  // the file's pointer
  bool collective;
  int (*call)(MPI_File file, MPI_Offset at, void* buffer, int count, MPI_Datatype type, MPI_Status* status);
};

inline int completed(int rc, MPI_Request& request, MPI_Status* status) {
  return rc == MPI_SUCCESS ? MPI_Wait(&request, status) : rc;
}

// Each rank in its turn, so that their data follow each other.
template <class Call>
inline int in_turns(MPI_File file, const Call& call) {
  int rc = MPI_SUCCESS;
  MPI_File_seek_shared(file, 0, MPI_SEEK_SET);
  for (int turn = 0; turn < g_size; ++turn) {
    if (turn == g_rank) rc = call();
    MPI_Barrier(MPI_COMM_WORLD);
  }
  return rc;
}

#define GC_PARAMETERS MPI_File file, MPI_Offset at, void *buffer, int count, MPI_Datatype type, MPI_Status *status
#define GC_AT(name, collective)                                                              \
  {                                                                                          \
    "MPI_File_" #name, false, collective,                                                    \
        [](GC_PARAMETERS) { return MPI_File_##name(file, at, buffer, count, type, status); } \
  }
#define GC_IAT(name, collective)                                               \
  {                                                                            \
    "MPI_File_" #name, false, collective, [](GC_PARAMETERS) {                  \
      MPI_Request request;                                                     \
      const int rc = MPI_File_##name(file, at, buffer, count, type, &request); \
      return completed(rc, request, status);                                   \
    }                                                                          \
  }
#define GC_INDIVIDUAL(name, collective)                          \
  {                                                              \
    "MPI_File_" #name, false, collective, [](GC_PARAMETERS) {    \
      MPI_File_seek(file, at, MPI_SEEK_SET);                     \
      return MPI_File_##name(file, buffer, count, type, status); \
    }                                                            \
  }
#define GC_INONBLOCKING(name, collective)                                  \
  {                                                                        \
    "MPI_File_" #name, false, collective, [](GC_PARAMETERS) {              \
      MPI_Request request;                                                 \
      MPI_File_seek(file, at, MPI_SEEK_SET);                               \
      const int rc = MPI_File_##name(file, buffer, count, type, &request); \
      return completed(rc, request, status);                               \
    }                                                                      \
  }
#define GC_SHARED(name)                                                                          \
  {                                                                                              \
    "MPI_File_" #name, true, false, [](GC_PARAMETERS) {                                          \
      (void)at;                                                                                  \
      return in_turns(file, [&] { return MPI_File_##name(file, buffer, count, type, status); }); \
    }                                                                                            \
  }
#define GC_ISHARED(name)                                                     \
  {                                                                          \
    "MPI_File_" #name, true, false, [](GC_PARAMETERS) {                      \
      (void)at;                                                              \
      return in_turns(file, [&] {                                            \
        MPI_Request request;                                                 \
        const int rc = MPI_File_##name(file, buffer, count, type, &request); \
        return completed(rc, request, status);                               \
      });                                                                    \
    }                                                                        \
  }
#define GC_ORDERED(name)                                         \
  {                                                              \
    "MPI_File_" #name, true, true, [](GC_PARAMETERS) {           \
      (void)at;                                                  \
      MPI_File_seek_shared(file, 0, MPI_SEEK_SET);               \
      return MPI_File_##name(file, buffer, count, type, status); \
    }                                                            \
  }
#define GC_SPLIT_AT(name)                                                          \
  {                                                                                \
    "MPI_File_" #name "_begin", false, true, [](GC_PARAMETERS) {                   \
      const int rc = MPI_File_##name##_begin(file, at, buffer, count, type);       \
      return rc == MPI_SUCCESS ? MPI_File_##name##_end(file, buffer, status) : rc; \
    }                                                                              \
  }
#define GC_SPLIT(name)                                                             \
  {                                                                                \
    "MPI_File_" #name "_begin", false, true, [](GC_PARAMETERS) {                   \
      MPI_File_seek(file, at, MPI_SEEK_SET);                                       \
      const int rc = MPI_File_##name##_begin(file, buffer, count, type);           \
      return rc == MPI_SUCCESS ? MPI_File_##name##_end(file, buffer, status) : rc; \
    }                                                                              \
  }
#define GC_SPLIT_ORDERED(name)                                                     \
  {                                                                                \
    "MPI_File_" #name "_begin", true, true, [](GC_PARAMETERS) {                    \
      (void)at;                                                                    \
      MPI_File_seek_shared(file, 0, MPI_SEEK_SET);                                 \
      const int rc = MPI_File_##name##_begin(file, buffer, count, type);           \
      return rc == MPI_SUCCESS ? MPI_File_##name##_end(file, buffer, status) : rc; \
    }                                                                              \
  }
#define GC_OPERATIONS(does)                                                                                         \
  GC_AT(does##_at, false), GC_AT(does##_at_all, true), GC_INDIVIDUAL(does, false), GC_INDIVIDUAL(does##_all, true), \
      GC_SHARED(does##_shared), GC_ORDERED(does##_ordered), GC_IAT(i##does##_at, false),                            \
      GC_IAT(i##does##_at_all, true), GC_INONBLOCKING(i##does, false), GC_INONBLOCKING(i##does##_all, true),        \
      GC_ISHARED(i##does##_shared), GC_SPLIT_AT(does##_at_all), GC_SPLIT(does##_all), GC_SPLIT_ORDERED(does##_ordered)

inline const Operation kReads[] = {GC_OPERATIONS(read)};
inline const Operation kWrites[] = {GC_OPERATIONS(write)};

inline bool is_nonblocking(const Operation& op) { return std::string(op.name).find("MPI_File_i") == 0; }
inline bool is_split(const Operation& op) { return std::string(op.name).find("_begin") != std::string::npos; }

// ROMIO's nonblocking collectives end the process in Open MPI 4.1, on host memory, too.
inline bool g_romio = false;
inline bool works(const Operation& op) { return !(g_romio && op.collective && is_nonblocking(op)); }
// OMPIO's nonblocking reads and split collectives never end where the file is too short for them, and ROMIO's
// nonblocking ones end the process with Open MPI 5.0. Both do so on host memory, too.
inline bool may_be_short(const Operation& op) { return works(op) && !is_nonblocking(op) && (g_romio || !is_split(op)); }

// ---- nonblocking ones, of which several are under way ----

struct Begin {
  const char* name;
  bool collective, reads;
  int (*call)(MPI_File file, MPI_Offset at, void* buffer, int count, MPI_Datatype type, MPI_Request* request);
};

#define GC_BEGIN_AT(name, collective, reads)                                                                 \
  {                                                                                                          \
    "MPI_File_" #name, collective, reads,                                                                    \
        [](MPI_File file, MPI_Offset at, void* buffer, int count, MPI_Datatype type, MPI_Request* request) { \
          return MPI_File_##name(file, at, buffer, count, type, request);                                    \
        }                                                                                                    \
  }
#define GC_BEGIN_INDIVIDUAL(name, collective, reads)                                                         \
  {                                                                                                          \
    "MPI_File_" #name, collective, reads,                                                                    \
        [](MPI_File file, MPI_Offset at, void* buffer, int count, MPI_Datatype type, MPI_Request* request) { \
          MPI_File_seek(file, at, MPI_SEEK_SET);                                                             \
          return MPI_File_##name(file, buffer, count, type, request);                                        \
        }                                                                                                    \
  }
inline const Begin kBegins[] = {GC_BEGIN_AT(iwrite_at, false, false),      GC_BEGIN_AT(iwrite_at_all, true, false),
                                GC_BEGIN_INDIVIDUAL(iwrite, false, false), GC_BEGIN_INDIVIDUAL(iwrite_all, true, false),
                                GC_BEGIN_AT(iread_at, false, true),        GC_BEGIN_AT(iread_at_all, true, true),
                                GC_BEGIN_INDIVIDUAL(iread, false, true),   GC_BEGIN_INDIVIDUAL(iread_all, true, true)};

}  // namespace files
