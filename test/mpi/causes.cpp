// Makes calls and messages that do not go the fast way, and compares what MPI_T counts of them. test/mpi/causes.sh
// compares what the log says: each cause once for each communicator. Each case has a communicator of its own.
// usage: causes RUN (kRuns)
#include <linux/capability.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <functional>
#include <map>
#include <memory>

#include "mpi_test.h"

namespace {
using namespace mpi_test;

constexpr int kCalls = 10, kCount = 100, kMany = 1 << 16;
MPI_Comm g_comm = MPI_COMM_NULL;

int other() { return 1 - g_rank; }

void expect(int rc, const char* what) {
  if (!checked(rc == MPI_SUCCESS)) fail("%s has failed: %d", what, rc);
}

// Lowers a limit of rank 1 to what is of no use, for as long as it lives.
class LowLimit {
 public:
  LowLimit(__rlimit_resource resource, rlim_t limit) : resource_(resource) {
    if (g_rank != 1) return;
    getrlimit(resource_, &before_);
    const rlimit low = {limit, before_.rlim_max};
    setrlimit(resource_, &low);
  }
  ~LowLimit() {
    if (g_rank == 1) setrlimit(resource_, &before_);
  }

 private:
  const __rlimit_resource resource_;
  rlimit before_ = {};
};

// Returns the number that the next file will have.
rlim_t next_file() {
  const int next = dup(0);
  close(next);
  return static_cast<rlim_t>(next);
}

template <class Call>
void repeat(const Call& call) {
  for (int i = 0; i < kCalls; ++i) expect(call(), "a call");
}

void reduce(void* memory, MPI_Op op = MPI_SUM, int count = kCount) {
  repeat([&] { return MPI_Allreduce(MPI_IN_PLACE, memory, count, MPI_INT, op, g_comm); });
}

// ---- collectives ----

void fast() {
  Memory memory(Where::device, 4 * kCount);
  reduce(memory.at(0));
}

void add(void* from, void* to, int* count, MPI_Datatype*) {
  for (int i = 0; i < *count; ++i) static_cast<int*>(to)[i] += static_cast<int*>(from)[i];
}

void user_operation() {
  Memory memory(Where::device, 4 * kCount);
  MPI_Op op;
  MPI_Op_create(add, 1, &op);
  reduce(memory.at(0), op);
  repeat([&] {
    MPI_Request request;
    const int rc = MPI_Iallreduce(MPI_IN_PLACE, memory.at(0), kCount, MPI_INT, op, g_comm, &request);
    return rc == MPI_SUCCESS ? MPI_Wait(&request, MPI_STATUS_IGNORE) : rc;
  });
  MPI_Op_free(&op);
}

void misaligned() {
  Memory memory(Where::device, 4 * kCount + 4);
  reduce(memory.at(1));
}

// Rank 1 is told that another rank cannot.
void misaligned_on_one() {
  Memory memory(Where::device, 4 * kCount + 4);
  reduce(memory.at(g_rank == 0 ? 1 : 0));
}

// Gives memory on the device `after` places after the rank's own.
std::unique_ptr<Memory> memory_elsewhere(int after, size_t bytes) {
  int devices = 1;
  need(gpucollDeviceCount(&devices), "gpucollDeviceCount");
  need(gpucollSetDevice((g_rank + after) % devices), "gpucollSetDevice");
  auto memory = std::make_unique<Memory>(Where::device, bytes);
  use_own_device();
  return memory;
}

void several_devices() {
  Memory send(Where::device, 4 * kCount);
  const auto recv = memory_elsewhere(1, 4 * kCount);
  repeat([&] { return MPI_Allreduce(send.at(0), recv->at(0), kCount, MPI_INT, MPI_SUM, g_comm); });
}

// The ranks begin on other devices than they go on with.
void other_devices() {
  Memory own(Where::device, 4 * kCount);
  expect(MPI_Allreduce(MPI_IN_PLACE, own.at(0), kCount, MPI_INT, MPI_SUM, g_comm), "MPI_Allreduce");
  const auto later = memory_elsewhere(2, 4 * kCount);
  reduce(later->at(0));
}

// Gives a type of an integer of each memory.
MPI_Datatype mixed_type(const Memory& a, const Memory& b) {
  MPI_Datatype type;
  MPI_Aint places[2];
  MPI_Get_address(a.at(0), &places[0]);
  MPI_Get_address(b.at(0), &places[1]);
  MPI_Type_create_hindexed_block(2, 1, places, MPI_INT, &type);
  MPI_Type_commit(&type);
  return type;
}

// Sends and broadcasts memory of two devices in the same way.
void on_two_devices() {
  Memory own(Where::device, 4);
  const auto other = memory_elsewhere(1, 4);
  MPI_Datatype type = mixed_type(own, *other);
  repeat([&] { return MPI_Bcast(MPI_BOTTOM, 1, type, 0, g_comm); });
  MPI_Type_free(&type);
}

void partly_host() {
  Memory device(Where::device, 4), host(Where::host, 4);
  MPI_Datatype type = mixed_type(device, host);
  repeat([&] { return MPI_Bcast(MPI_BOTTOM, 1, type, 0, g_comm); });
  MPI_Type_free(&type);
}

// All of it is on one device.
void several_allocations() {
  Memory a(Where::device, 4), b(Where::device, 4);
  MPI_Datatype type = mixed_type(a, b);
  repeat([&] { return MPI_Bcast(MPI_BOTTOM, 1, type, 0, g_comm); });
  MPI_Type_free(&type);
}

// With pinned_bytes 64K.
void pinned_bytes() {
  Memory send(Where::host, 16 * kMany), recv(Where::device, 16 * kMany);
  std::memset(send.at(0), 0, send.bytes());
  repeat([&] { return MPI_Allreduce(send.at(0), recv.at(0), 4 * kMany, MPI_INT, MPI_SUM, g_comm); });
}

void host_buffer() {
  Memory send(Where::device, 4 * kMany), recv(Where::host, 4 * kMany);
  repeat([&] { return MPI_Allreduce(send.at(0), recv.at(0), kMany, MPI_INT, MPI_SUM, g_comm); });
}

// A large call from and into memory that only this process opens, or between devices that do not reach each other.
void large() {
  Memory memory(Where::device, 4 * kMany);
  reduce(memory.at(0), MPI_SUM, kMany);
}

// Rank 1 may open no file more.
void unopened_memory() {
  Memory memory(Where::device, 4 * kMany);
  reduce(memory.at(0), MPI_SUM, kMany);
  const LowLimit limit(RLIMIT_NOFILE, next_file());
  Memory another(Where::device, 4 * kMany);
  reduce(another.at(0), MPI_SUM, kMany);
}

// Rank 1 has a file left for its own page, but none for that of rank 0.
void shared_gpu() {
  const LowLimit limit(RLIMIT_NOFILE, next_file() + 1);
  fast();
}

// Rank 1 can make no memory for the communicator.
void no_devices_together() {
  const LowLimit limit(RLIMIT_FSIZE, 1);
  fast();
}

// Rank 1 can make no memory as large as the mesh.
void no_mesh() {
  const LowLimit limit(RLIMIT_FSIZE, 4 << 20);
  large();
}

// Rank 1 has no memory for the elements that lie together.
void unsuitable() {
  constexpr int kBlocks = 1 << 16;
  MPI_Datatype type;
  MPI_Type_vector(kBlocks, 7, 9, MPI_INT, &type);
  MPI_Type_commit(&type);
  Memory memory(Where::device, size_t{4} * 9 * kBlocks);
  const LowLimit limit(RLIMIT_FSIZE, 1);
  repeat([&] { return MPI_Bcast(memory.at(0), 1, type, 0, g_comm); });
  MPI_Type_free(&type);
}

// More buffers than others open of one rank.
void many_buffers() {
  std::vector<std::unique_ptr<Memory>> buffers;
  for (int i = 0; i < 66; ++i) buffers.push_back(std::make_unique<Memory>(Where::device, 4 * kMany / 2));
  for (const auto& buffer : buffers)
    for (int twice = 0; twice < 2; ++twice)
      expect(MPI_Allreduce(MPI_IN_PLACE, buffer->at(0), kMany / 2, MPI_INT, MPI_SUM, g_comm), "MPI_Allreduce");
}

void persistent_places() {
  constexpr int kPlaces = 256;
  Memory memory(Where::device, 4 * kCount);
  std::vector<MPI_Request> requests(kPlaces + kCalls);
  for (MPI_Request& request : requests)
    expect(GC_INIT(Allreduce)(MPI_IN_PLACE, memory.at(0), kCount, MPI_INT, MPI_SUM, g_comm, MPI_INFO_NULL, &request),
           "MPI_Allreduce_init");
  // Once the last one runs, all have been given a place, or none: one that is freed earlier leaves its place to a
  // later.
  MPI_Start(&requests.back());
  MPI_Wait(&requests.back(), MPI_STATUS_IGNORE);
  for (MPI_Request& request : requests) MPI_Request_free(&request);
}

// Each rank is its only neighbour.
void neighbors_first() {
  MPI_Comm graph;
  MPI_Dist_graph_create_adjacent(g_comm, 1, &g_rank, MPI_UNWEIGHTED, 1, &g_rank, MPI_UNWEIGHTED, MPI_INFO_NULL, 0,
                                 &graph);
  MPI_Comm_set_name(graph, "case_neighbors_first");
  Memory send(Where::device, 4 * kCount), recv(Where::device, 4 * kCount);
  repeat([&] { return MPI_Neighbor_allgather(send.at(0), kCount, MPI_INT, recv.at(0), kCount, MPI_INT, graph); });
  MPI_Comm_free(&graph);
}

// Makes calls between two groups of one rank each.
void between(const char* name, const std::function<int(MPI_Comm)>& call) {
  MPI_Comm nameless, two_groups;
  expect(MPI_Intercomm_create(MPI_COMM_SELF, 0, g_comm, other(), 0, &nameless), "MPI_Intercomm_create");
  MPI_Comm_dup(nameless, &two_groups);
  MPI_Comm_free(&nameless);
  MPI_Comm_set_name(two_groups, name);
  repeat([&] { return call(two_groups); });
  MPI_Comm_free(&two_groups);
}

void between_groups() {
  Memory send(Where::device, 16 * kCount), recv(Where::device, 16 * kCount);
  const int counts[1] = {kCount};
  between("case_between_groups", [&](MPI_Comm two_groups) {
    return MPI_Reduce_scatter(send.at(0), recv.at(0), counts, MPI_DOUBLE_INT, MPI_MINLOC, two_groups);
  });
}

// With emu_memory 16M on rank 1: there is no device memory left for what its own group has reduced.
void no_memory() {
  constexpr int kLarge = 3 << 19;
  std::vector<int> numbers(kLarge);
  for (int i = 0; i < kLarge; ++i) numbers[static_cast<size_t>(i)] = (g_rank + 1) * (i + 3);
  Memory send(Where::device, 4 * kLarge), recv(Where::device, 4 * kLarge);
  send.write(numbers.data());
  between("case_no_memory", [&](MPI_Comm two_groups) {
    return MPI_Allreduce(send.at(0), recv.at(0), kLarge, MPI_INT, MPI_SUM, two_groups);
  });
  recv.read(numbers.data());
  for (int i = 0; i < kLarge; ++i) {
    const int found = numbers[static_cast<size_t>(i)], right = (other() + 1) * (i + 3);
    if (!checked(found == right)) return fail("element %d of MPI_Allreduce is %d, not %d", i, found, right);
  }
}

// That the other rank comes with host memory has nothing to do with groups.
void other_group_on_host() {
  Memory memory(g_rank == 0 ? Where::device : Where::host, 8 * kCount);
  between("case_other_group_on_host", [&](MPI_Comm two_groups) {
    return MPI_Allgather(memory.at(0), kCount, MPI_INT, memory.at(4 * kCount), kCount, MPI_INT, two_groups);
  });
}

// ---- messages ----

void message_of(void* memory, int count, MPI_Datatype type, bool buffered = false) {
  repeat([&] {
    // An answer each time: the receiver is known to use its device, and no place runs out.
    if (g_rank == 1) {
      expect(MPI_Recv(memory, count, type, 0, 1, g_comm, MPI_STATUS_IGNORE), "MPI_Recv");
      return MPI_Send(nullptr, 0, MPI_INT, 0, 2, g_comm);
    }
    expect((buffered ? MPI_Bsend : MPI_Send)(memory, count, type, 1, 1, g_comm), "MPI_Send");
    return MPI_Recv(nullptr, 0, MPI_INT, 1, 2, g_comm, MPI_STATUS_IGNORE);
  });
}

// Lets both processes show that they use devices in messages.
void warm_up() {
  Memory memory(Where::device, 4096);
  repeat([&] {
    return MPI_Sendrecv(memory.at(0), 100, MPI_INT, other(), 0, memory.at(2048), 100, MPI_INT, other(), 0,
                        MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  });
}

void fast_message() {
  Memory memory(Where::device, 4 * kMany);
  message_of(memory.at(0), kMany, MPI_INT);
  message_of(memory.at(0), 4, MPI_INT);
}

void tiny_message() {
  Memory memory(Where::device, 4);
  message_of(memory.at(0), 1, MPI_INT);
}

void large_message() {
  Memory memory(Where::device, 4 * kMany);
  message_of(memory.at(0), kMany, MPI_INT);
}

// As unopened_memory().
void unopened_message() {
  Memory memory(Where::device, size_t{5} << 20);  // none like it has been open before
  const LowLimit limit(RLIMIT_NOFILE, next_file());
  message_of(memory.at(0), kMany, MPI_INT);
}

void buffered_message() {
  Memory memory(Where::device, 4 * kMany);
  std::vector<char> room((4 * kMany) * 2 + MPI_BSEND_OVERHEAD);
  MPI_Buffer_attach(room.data(), static_cast<int>(room.size()));
  message_of(memory.at(0), kMany, MPI_INT, true);
  void* detached;
  int bytes;
  MPI_Buffer_detach(&detached, &bytes);
}

void partly_host_message() {
  Memory device(Where::device, 4), host(Where::host, 4);
  MPI_Datatype type = mixed_type(device, host);
  message_of(MPI_BOTTOM, 1, type);
  MPI_Type_free(&type);
}

void message_on_two_devices() {
  Memory own(Where::device, 4);
  const auto other = memory_elsewhere(1, 4);
  MPI_Datatype type = mixed_type(own, *other);
  message_of(MPI_BOTTOM, 1, type);
  MPI_Type_free(&type);
}

// More messages under way than a process has places for.
void many_messages() {
  constexpr int kPlaces = 256, kBytes = 8192;
  Memory memory(Where::device, kBytes);
  std::vector<MPI_Request> requests(g_rank == 0 ? kPlaces + kCalls : 0);
  for (MPI_Request& request : requests)
    expect(MPI_Isend(memory.at(0), kBytes, MPI_BYTE, 1, 1, g_comm, &request), "MPI_Isend");
  MPI_Barrier(g_comm);
  for (int i = 0; g_rank == 1 && i < kPlaces + kCalls; ++i)
    expect(MPI_Recv(memory.at(0), kBytes, MPI_BYTE, 0, 1, g_comm, MPI_STATUS_IGNORE), "MPI_Recv");
  MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
}

// What is cut off in very little room takes no place of those that come later.
void cut_off_messages() {
  constexpr int kPlaces = 256, kBytes = 40;
  Memory memory(Where::device, kBytes);
  char little[7];
  MPI_Comm_set_errhandler(g_comm, MPI_ERRORS_RETURN);
  for (int i = 0; i < kPlaces; ++i) {
    if (g_rank == 0) expect(MPI_Send(memory.at(0), kBytes, MPI_BYTE, 1, 1, g_comm), "MPI_Send");
    if (g_rank == 1) MPI_Recv(little, i % 2 ? 3 : 7, MPI_BYTE, 0, 1, g_comm, MPI_STATUS_IGNORE);
  }
  message_of(memory.at(0), kBytes / 4, MPI_INT);
}

// A process offers messages of 8 devices.
void message_of_many_devices() {
  constexpr int kDevices = 8;
  std::vector<std::unique_ptr<Memory>> buffers;
  for (int i = 0; i < kDevices; ++i) buffers.push_back(memory_elsewhere(i, 4 * kMany));
  Memory target(Where::device, 4 * kMany);
  for (const auto& buffer : buffers) {
    if (g_rank == 0) expect(MPI_Send(buffer->at(0), kMany, MPI_INT, 1, 1, g_comm), "MPI_Send");
    if (g_rank == 1) expect(MPI_Recv(target.at(0), kMany, MPI_INT, 0, 1, g_comm, MPI_STATUS_IGNORE), "MPI_Recv");
  }
  const auto last = memory_elsewhere(kDevices, 4 * kMany);
  message_of((g_rank == 0 ? *last : target).at(0), kMany, MPI_INT);
}

// ---- what is expected ----

// How often a cause is counted on a rank; kSome: once or more.
constexpr int kSome = -1;
struct Wanted {
  int rank;
  const char* cause;
  int count;
};
struct Case {
  const char* name;
  void (*run)();
  std::vector<Wanted> wanted = {};
};
Wanted on_rank(int rank, const char* cause, int count = kCalls) { return {rank, cause, count}; }
std::vector<Wanted> on_both(const char* cause, int count = kCalls) {
  return {on_rank(0, cause, count), on_rank(1, cause, count)};
}

struct Run {
  const char* name;
  std::vector<const char*> environment;  // NAME=VALUE, before it RANK: where it is one rank's
  std::vector<Case> cases;
  bool hides = false;  // rank 0 may not look into rank 1
};

const std::vector<Run> kRuns = {
    {"plain",
     {"GPUCOLL_EMU_DEVICES=10"},
     {{"fast", fast},
      {"fast_message", fast_message},
      {"user_operation", user_operation, on_both("user_operation", 2 * kCalls)},
      {"misaligned", misaligned, on_both("misaligned")},
      {"misaligned_on_one", misaligned_on_one, {on_rank(0, "misaligned"), on_rank(1, "other_rank")}},
      {"several_devices", several_devices, on_both("several_devices")},
      {"on_two_devices", on_two_devices, on_both("several_devices")},
      {"other_devices", other_devices, on_both("other_devices")},
      {"partly_host", partly_host, on_both("partly_host")},
      {"several_allocations", several_allocations, on_both("several_allocations")},
      {"host_buffer", host_buffer, on_both("host_buffer", kSome)},
      {"many_buffers", many_buffers, on_both("many_buffers", kSome)},
      {"unopened_memory", unopened_memory, {on_rank(1, "unopened_memory", kSome)}},
      {"no_devices_together", no_devices_together, on_both("no_devices_together")},
      {"no_mesh", no_mesh, on_both("no_mesh", kSome)},
      {"unsuitable", unsuitable, {on_rank(0, "other_rank"), on_rank(1, "unsuitable")}},
      {"persistent_places", persistent_places, on_both("persistent_places")},
      {"neighbors_first", neighbors_first, on_both("neighbors_first")},
      {"between_groups", between_groups, on_both("between_groups")},
      {"other_group_on_host", other_group_on_host, {on_rank(0, "other_rank", kSome)}},
      {"tiny_message", tiny_message, {on_rank(0, "message_tiny")}},
      {"buffered_message", buffered_message, {on_rank(0, "message_buffered")}},
      {"partly_host_message", partly_host_message, {on_rank(0, "message_partly_host")}},
      {"message_on_two_devices", message_on_two_devices, {on_rank(0, "message_several_devices")}},
      {"cut_off_messages", cut_off_messages},
      {"many_messages", many_messages, {on_rank(0, "message_many", kSome)}},
      {"the communicator of context", unopened_message, {on_rank(1, "message_unopened_memory", kSome)}},
      {"message_of_many_devices", message_of_many_devices, {on_rank(0, "message_not_offered")}}}},
    {"no_memory",
     {"1GPUCOLL_EMU_MEMORY=16M"},
     {{"no_memory", no_memory, {on_rank(0, "other_rank"), on_rank(1, "no_memory")}}}},
    {"pinned_bytes", {"GPUCOLL_PINNED_BYTES=64K"}, {{"pinned_bytes", pinned_bytes, on_both("pinned_bytes")}}},
    {"closed_memory",
     {"GPUCOLL_EMU_EXPORTS=off"},
     {{"closed_memory", large, on_both("closed_memory", kSome)},
      {"large_message", large_message, {on_rank(0, "message_closed_memory")}}}},
    {"no_peer_access", {"GPUCOLL_EMU_PEERS=off"}, {{"no_peer_access", large, on_both("no_peer_access", kSome)}}},
    {"shared_gpu_off",
     {"GPUCOLL_EMU_EXCLUSIVE=1", "GPUCOLL_EMU_DEVICES=1", "GPUCOLL_SHARED_GPU=off"},
     {{"shared_gpu_off", fast, on_both("shared_gpu_off")}}},
    {"shared_gpu",
     {"GPUCOLL_EMU_EXCLUSIVE=1", "GPUCOLL_EMU_DEVICES=1"},
     {{"shared_gpu", shared_gpu, on_both("shared_gpu")}}},
    {"nodes",
     {"0GPUCOLL_HOST_ID=a", "1GPUCOLL_HOST_ID=b"},
     {{"no_rdma", fast, on_both("no_rdma", kSome)},
      {"message_between_nodes", large_message, {on_rank(0, "message_between_nodes")}}}},
    {"message_off", {"GPUCOLL_PT2PT_DIRECT_BYTES=off"}, {{"message_off", large_message, {on_rank(0, "message_off")}}}},
    {"message_small",
     {"GPUCOLL_PT2PT_DIRECT_BYTES=1M"},
     {{"message_small", large_message, {on_rank(0, "message_small")}}}},
    {"message_without_plugin",
     {"1GPUCOLL_PT2PT_DIRECT_BYTES=off"},
     {{"message_without_plugin", large_message, {on_rank(0, "message_without_plugin")}}}},
    {"parameters", {"1GPUCOLL_BUFFER_BYTES=512K"}, {{"unreachable_rank", fast, on_both("unreachable_rank")}}},
    {"hidden",
     {},
     {{"board_out_of_reach", fast, {on_rank(0, "unreachable_rank"), on_rank(1, "other_rank")}},
      {"message_hidden_process", large_message, {on_rank(0, "message_hidden_process")}}},
     true},
};

// Counts of all causes, by MPI_T.
class Counters {
 public:
  Counters() {
    int threads = 0, all = 0;
    MPI_T_init_thread(MPI_THREAD_SINGLE, &threads);
    MPI_T_pvar_session_create(&session_);
    MPI_T_pvar_get_num(&all);
    for (int i = 0; i < all; ++i) add(i);
  }
  ~Counters() {
    MPI_T_pvar_session_free(&session_);
    MPI_T_finalize();
  }
  std::map<std::string, unsigned long long> read() {
    std::map<std::string, unsigned long long> counts;
    for (const auto& [cause, handle] : handles_) MPI_T_pvar_read(session_, handle, &counts[cause]);
    return counts;
  }

 private:
  void add(int index) {
    static const std::string prefix = "coll_gpucoll_slow_";
    char name[256] = "";
    int length = sizeof name, verbosity, variable_class, bind, readonly, continuous, atomic, none = 0, count;
    MPI_Datatype type;
    MPI_T_enum words;
    MPI_T_pvar_get_info(index, name, &length, &verbosity, &variable_class, &type, &words, nullptr, &none, &bind,
                        &readonly, &continuous, &atomic);
    if (std::string(name).rfind(prefix, 0) == 0)
      MPI_T_pvar_handle_alloc(session_, index, nullptr, &handles_[name + prefix.size()], &count);
  }
  MPI_T_pvar_session session_;
  std::map<std::string, MPI_T_pvar_handle> handles_;
};

void compare(const Case& its, const std::map<std::string, unsigned long long>& before,
             const std::map<std::string, unsigned long long>& after) {
  for (const auto& [cause, count] : after) {
    const auto added = static_cast<int>(count - before.at(cause));
    int wanted = 0;
    for (const Wanted& each : its.wanted)
      if (each.rank == g_rank && each.cause == cause) wanted = each.count;
    const bool right = wanted == kSome ? added > 0 : added == wanted;
    if (!checked(right)) fail("%s: %s is counted %d times, not %d", its.name, cause.c_str(), added, wanted);
    if (wanted) std::printf("expects %s %s\n", its.name, cause.c_str());
  }
  std::fflush(stdout);
}

void run(const Case& its, Counters& counters) {
  MPI_Comm_dup(MPI_COMM_WORLD, &g_comm);
  MPI_Comm_set_name(g_comm, (std::string("case_") + its.name).c_str());
  const auto before = counters.read();
  its.run();
  MPI_Barrier(g_comm);  // the other rank's part is over, too
  compare(its, before, counters.read());
  MPI_Comm_free(&g_comm);
}

// Lets this process look into no other that is not its own child, whoever it runs as; or others not into this one.
void hide(int rank) {
  if (rank == 1) return (void)prctl(PR_SET_DUMPABLE, 0);
  __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct sets[2] = {};
  if (syscall(SYS_capget, &header, sets) != 0) return;
  sets[0].effective &= ~(1u << CAP_SYS_PTRACE);
  syscall(SYS_capset, &header, sets);
}

// Before MPI begins.
void prepare(const Run& run) {
  const char* const rank = std::getenv("OMPI_COMM_WORLD_RANK");
  for (const char* setting : run.environment) {
    const bool is_of_one = *setting == '0' || *setting == '1';
    if (is_of_one && (!rank || *setting != *rank)) continue;
    const std::string text = setting + is_of_one;
    const size_t equals = text.find('=');
    setenv(text.substr(0, equals).c_str(), text.c_str() + equals + 1, 1);
  }
  if (run.hides && rank) hide(*rank - '0');
}

}  // namespace

int main(int argc, char** argv) {
  for (const Run& each : kRuns) {
    if (argc < 2 || std::strcmp(argv[1], each.name) != 0) continue;
    prepare(each);
    signal(SIGXFSZ, SIG_IGN);
    Mpi mpi(argc, argv);
    use_own_device();
    if (!each.hides) warm_up();  // rank 0 would not get at the data
    {
      Counters counters;
      for (const Case& its : each.cases) run(its, counters);
    }
    return mpi.finish("causes");
  }
  for (const Run& each : kRuns) std::printf("%s\n", each.name);
  return argc > 1;
}
