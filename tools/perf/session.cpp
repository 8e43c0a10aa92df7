#include "perf/session.h"

#include <fmt/format.h>
#include <gpucoll/gpucoll.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>

#include "base/params.h"
#include "perf/agree.h"

namespace gpucoll::perf {
namespace {

// The first line, up to the comma: "Open MPI v4.1.4".
std::string mpi_version() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  int length = 0;
  MPI_Get_library_version(text, &length);
  return std::string(text, std::strcspn(text, ",\n"));
}

Status place_rank(const MpiSession& mpi, Place* place, std::string* kind) {
  std::memset(place, 0, sizeof *place);
  gethostname(place->host, sizeof place->host - 1);
  const char* device_kind = "";
  int count = 0;
  GC_TRY(from_api(gpucollDeviceKind(&device_kind), "gpucollDeviceKind"));
  GC_TRY(from_api(gpucollDeviceCount(&count), "gpucollDeviceCount"));
  if (count < 1) return Status::error(Code::unsupported, "there is no device on %s", place->host);
  *kind = device_kind;
  place->index = mpi.local_rank() % count;
  GC_TRY(from_api(gpucollSetDevice(place->index), "gpucollSetDevice"));
  return from_api(gpucollDeviceName(place->index, place->device, sizeof place->device), "gpucollDeviceName");
}

// Bytes of memory that the kernel could still give out; 0 where it does not say.
uint64_t available_memory() {
  std::ifstream file("/proc/meminfo");
  std::string key, unit;
  for (uint64_t kilobytes = 0; file >> key >> kilobytes; std::getline(file, unit))
    if (key == "MemAvailable:") return kilobytes * 1024;
  return 0;
}

template <class F>
size_t largest(const std::vector<Call>& calls, F&& elements) {
  size_t bytes = 0;
  for (const Call& call : calls) bytes = std::max(bytes, elements(call) * info(call.type).bytes);
  return bytes;
}

}  // namespace

MpiSession::MpiSession(int* argc, char*** argv) {
  MPI_Init(argc, argv);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks_);
  MPI_Comm node = MPI_COMM_NULL;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &node);
  MPI_Comm_rank(node, &local_rank_);
  MPI_Comm_size(node, &local_ranks_);
  MPI_Comm_free(&node);
}

MpiSession::~MpiSession() { MPI_Finalize(); }

Status require_component() {
  int provided = 0, index = 0;
  if (MPI_T_init_thread(MPI_THREAD_SINGLE, &provided) != MPI_SUCCESS) return {};  // cannot tell
  bool found = MPI_T_cvar_get_index("coll_gpucoll_priority", &index) == MPI_SUCCESS;
  MPI_T_finalize();
  if (found) return {};
  return Status::error(Code::unsupported,
                       "this MPI has not loaded the component coll/gpucoll; run with --mca coll gpucoll, and let "
                       "OMPI_MCA_mca_base_component_path name the directory where make install has put it");
}

Result<Heading> choose_device(const MpiSession& mpi) {
  Heading heading;
  Place place;
  GC_TRY(agree(place_rank(mpi, &place, &heading.device_kind), MPI_COMM_WORLD));
  heading.own_index = place.index;
  heading.version = library_version();
  heading.mpi = mpi_version();
  heading.places.resize(static_cast<size_t>(mpi.ranks()));
  MPI_Gather(&place, sizeof place, MPI_BYTE, heading.places.data(), sizeof place, MPI_BYTE, 0, MPI_COMM_WORLD);
  return heading;
}

size_t largest_send_bytes(const std::vector<Call>& calls) { return largest(calls, send_elements); }
size_t largest_recv_bytes(const std::vector<Call>& calls) {
  return largest(calls, recv_elements) + Buffers::kGuardBytes;
}

Result<Buffers> allocate_buffers(const MpiSession& mpi, const Heading& heading, const std::vector<Call>& calls,
                                 MemoryKind kind) {
  size_t send_bytes = largest_send_bytes(calls), recv_bytes = largest_recv_bytes(calls);
  uint64_t wanted = static_cast<uint64_t>(mpi.local_ranks()) * (send_bytes + recv_bytes);
  uint64_t available = heading.device_kind == "emu" ? available_memory() : 0;
  Status room;
  if (available && wanted > available)
    room = Status(Code::out_of_memory,
                  fmt::format("the buffers of {} ranks take {} MiB and {} MiB of memory are left; take a smaller -e",
                              mpi.local_ranks(), wanted >> 20, available >> 20));
  GC_TRY(agree(room, MPI_COMM_WORLD));
  const int gpu = heading.device_kind == "cuda" ? heading.own_index : -1;
  auto send = Memory::create(std::max<size_t>(send_bytes, 1), kind, gpu);
  GC_TRY(agree(send.status(), MPI_COMM_WORLD));
  auto recv = Memory::create(recv_bytes, kind, gpu);
  GC_TRY(agree(recv.status(), MPI_COMM_WORLD));
  // Every page of host memory is there from now on.
  if (kind != MemoryKind::device) {
    GC_TRY(send->fill(0, 1, send_bytes));
    GC_TRY(recv->fill(0, 1, recv_bytes));
  }
  return Buffers{*std::move(send), *std::move(recv)};
}

}  // namespace gpucoll::perf
