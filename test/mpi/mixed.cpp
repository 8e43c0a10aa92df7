// The kind of memory is local to a rank: calls of MPI_Allreduce where every rank draws its kinds of send and receive
// buffer anew, on several communicators, between other collectives; then many communicators that come and go, some of
// them without ever being used; then roots that are far ahead.
#include <unistd.h>

#include "abi/abi.h"
#include "mpi_test.h"

namespace {
using namespace mpi_test;

size_t z(int value) { return static_cast<size_t>(value); }

constexpr int kCalls = 400, kCommunicators = 1000, kRunsAhead = 40;

// One call with buffers drawn from `seed`, `round` and the rank. A send buffer of its own, or in place.
void call(MPI_Comm comm, const char* name, uint64_t seed, uint64_t round) {
  int rank, size;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  const uint64_t mine = mix(seed, round, static_cast<uint64_t>(g_rank)), ours = mix(seed, round);
  // One in four alike on all ranks: the pure cases must be met too.
  const uint64_t kinds = ours % 4 == 0 ? ours >> 8 : mine;
  const int count = static_cast<int>(ours >> 16 & 1 ? ours % 50000 : ours % 40);
  const bool in_place = (mine >> 20 & 3) == 0;
  std::vector<int> in(static_cast<size_t>(count)), out(in);
  for (size_t i = 0; i < in.size(); i++) in[i] = static_cast<int>(mix(round, static_cast<uint64_t>(rank), i) % 1000);
  Memory send(kinds & 1 ? Where::device : Where::host, in.size() * sizeof(int));
  Memory recv(kinds & 2 ? Where::device : Where::host, in.size() * sizeof(int));
  send.write(in.data());
  recv.write(in_place ? in.data() : out.data());
  const int rc = MPI_Allreduce(in_place ? MPI_IN_PLACE : send.at(0), recv.at(0), count, MPI_INT, MPI_SUM, comm);
  recv.read(out.data());
  if (!checked(rc == MPI_SUCCESS)) fail("%s, call %lu: error %d", name, static_cast<unsigned long>(round), rc);
  for (size_t i = 0; i < out.size(); i++) {
    int expected = 0;
    for (int r = 0; r < size; r++) expected += static_cast<int>(mix(round, static_cast<uint64_t>(r), i) % 1000);
    if (checked(out[i] == expected)) continue;
    fail("%s, call %lu, count %d%s: element %zu is %d instead of %d", name, static_cast<unsigned long>(round), count,
         in_place ? ", in place" : "", i, out[i], expected);
    break;
  }
}

// A rooted collective of mixed kinds in between, which a root of host memory leaves early.
void broadcast(MPI_Comm comm, uint64_t round) {
  const bool device = mix(9, round, static_cast<uint64_t>(g_rank)) & 1;
  int value = g_rank == 0 ? static_cast<int>(round) : -1;
  Memory memory(device ? Where::device : Where::host, sizeof value);
  memory.write(&value);
  MPI_Bcast(memory.at(0), 1, MPI_INT, 0, comm);
  memory.read(&value);
  if (!checked(value == static_cast<int>(round))) fail("bcast %lu gave %d", static_cast<unsigned long>(round), value);
}

void several_communicators() {
  MPI_Comm copy, half;
  MPI_Comm_dup(MPI_COMM_WORLD, &copy);
  MPI_Comm_split(MPI_COMM_WORLD, g_rank % 2, -g_rank, &half);
  for (uint64_t round = 0; round < kCalls; round++) {
    switch (mix(3, round) % 4) {
      case 0: call(MPI_COMM_WORLD, "world", 11, round); break;
      case 1: call(copy, "copy of the world", 12, round); break;
      case 2: call(half, "half of the world", 13 + static_cast<uint64_t>(g_rank % 2), round); break;
      default: broadcast(MPI_COMM_WORLD, round);
    }
  }
  MPI_Comm_free(&half);
  MPI_Comm_free(&copy);
}

void communicators_come_and_go() {
  for (uint64_t round = 0; round < kCommunicators; round++) {
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    if (round % 10 == 0) call(comm, "a short-lived communicator", 21, round);
    MPI_Comm_free(&comm);
  }
}

// Broadcasts one after another, each rank resting now and then, so that roots with host memory are many calls ahead of
// the others, and have freed the communicator before these begin.
void run_ahead() {
  for (uint64_t round = 0; round < kRunsAhead; round++) {
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    const auto calls = mix(31, round) % 40;
    for (uint64_t call = 0; call < calls; call++) {
      const uint64_t ours = mix(32, round, call), mine = mix(ours, static_cast<uint64_t>(g_rank));
      const int root = static_cast<int>(ours >> 8) & 1 ? 0 : static_cast<int>(ours % static_cast<uint64_t>(g_size));
      const bool device = ours >> 20 & 1 ? true : g_rank != root && (mine & 1);
      if (g_rank != root && mine % 16 == 0) usleep(static_cast<useconds_t>(mine >> 20 & 0x3ff));
      uint64_t value = g_rank == root ? ours : 0;
      Memory memory(device ? Where::device : Where::host, sizeof value);
      memory.write(&value);
      MPI_Bcast(memory.at(0), 1, MPI_UINT64_T, root, comm);
      memory.read(&value);
      if (!checked(value == ours))
        fail("bcast %d of communicator %d is wrong", static_cast<int>(call), static_cast<int>(round));
    }
    MPI_Comm_free(&comm);
  }
}

// Gather to the last rank and broadcast from it, in one form.
class Rooted {
 public:
  static constexpr int kCount = 1000;
  Rooted(Form form, MPI_Comm comm, Memory& mine, Memory& whole) : form_(form), comm_(comm), mine_(mine), whole_(whole) {
    if (form != Form::persistent) return;
    GC_INIT(Gather)(mine.at(0), kCount, MPI_INT, whole.at(0), kCount, MPI_INT, root(), comm, MPI_INFO_NULL, &gather_);
    GC_INIT(Bcast)(whole.at(0), kCount * g_size, MPI_INT, root(), comm, MPI_INFO_NULL, &broadcast_);
  }
  ~Rooted() {
    for (MPI_Request* request : {&gather_, &broadcast_})
      if (*request != MPI_REQUEST_NULL) MPI_Request_free(request);
  }
  Rooted(const Rooted&) = delete;
  Rooted& operator=(const Rooted&) = delete;

  static int root() { return g_size - 1; }
  void run() {
    if (form_ == Form::blocking) {
      MPI_Gather(mine_.at(0), kCount, MPI_INT, whole_.at(0), kCount, MPI_INT, root(), comm_);
      MPI_Bcast(whole_.at(0), kCount * g_size, MPI_INT, root(), comm_);
      return;
    }
    begin(&gather_,
          [&] { MPI_Igather(mine_.at(0), kCount, MPI_INT, whole_.at(0), kCount, MPI_INT, root(), comm_, &gather_); });
    begin(&broadcast_, [&] { MPI_Ibcast(whole_.at(0), kCount * g_size, MPI_INT, root(), comm_, &broadcast_); });
  }

 private:
  template <class Call>
  void begin(MPI_Request* request, const Call& call) {
    if (form_ == Form::persistent)
      MPI_Start(request);
    else
      call();
    MPI_Wait(request, MPI_STATUS_IGNORE);
  }

  Form form_;
  MPI_Comm comm_;
  Memory &mine_, &whole_;
  MPI_Request gather_ = MPI_REQUEST_NULL, broadcast_ = MPI_REQUEST_NULL;
};

// All ranks have host memory: soon nobody waits for the others any more.
void all_on_host(Form form, MPI_Comm comm, int rounds) {
  const uint64_t before = gpucoll_abi(GC_ABI_VERSION)->runs();
  Memory mine(Where::host, Rooted::kCount * sizeof(int)), whole(Where::host, z(g_size) * mine.bytes());
  for (int round = 0; round < rounds; ++round) {
    Rooted calls(form, comm, mine, whole);
    calls.run();
  }
  if (!checked(gpucoll_abi(GC_ABI_VERSION)->runs() == before))
    fail("%shost memory alone ran on the device", name_of(form));
}

// A root with host memory alone and others with device memory: after a few calls it waits for them, and all run on the
// device; a persistent one is made for it at once. Then all have host memory.
void root_on_host(Form form) {
  constexpr int kRounds = 100, kCount = Rooted::kCount;
  MPI_Comm comm;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  const Where where = g_rank == Rooted::root() ? Where::host : Where::device;
  Memory mine(where, kCount * sizeof(int)), whole(where, z(g_size) * mine.bytes()), used(Where::device, sizeof(int));
  MPI_Allreduce(MPI_IN_PLACE, used.at(0), 1, MPI_INT, MPI_MAX, comm);  // the root has a device
  std::vector<int> values(kCount), all(kCount * z(g_size));
  const uint64_t before = gpucoll_abi(GC_ABI_VERSION)->runs();
  {
    Rooted calls(form, comm, mine, whole);
    for (int round = 0; round < kRounds; ++round) {
      for (int i = 0; i < kCount; ++i) values[z(i)] = static_cast<int>(mix(41, z(round), z(g_rank * kCount + i)));
      mine.write(values.data());
      calls.run();
      whole.read(all.data());
      for (int r = 0; r < g_size; ++r)
        for (int i = 0; i < kCount; ++i)
          if (!checked(all[z(r * kCount + i)] == static_cast<int>(mix(41, z(round), z(r * kCount + i)))))
            return fail("round %d of %sgather to and broadcast from host memory: element %d of rank %d", round,
                        name_of(form), i, r);
    }
  }
  const uint64_t ran = gpucoll_abi(GC_ABI_VERSION)->runs() - before;
  if (!checked(g_size == 1 || ran >= 2 * kRounds - (form == Form::persistent ? 0 : 20)))
    fail("%d of %d %scalls with host memory at the root ran on the device", static_cast<int>(ran), 2 * kRounds,
         name_of(form));
  all_on_host(form, comm, kRounds);
  MPI_Comm_free(&comm);
}

// Kernels access whole elements: device memory that is misaligned goes through the host, whatever the other side is.
void misaligned() {
  constexpr int kCount = 100;
  std::vector<int> in(kCount, g_rank + 1), out(kCount);
  for (const Where where : {Where::device, Where::host}) {
    Memory odd(Where::device, kCount * sizeof(int) + 1), sums(where, kCount * sizeof(int));
    need(gpucollMemcpy(odd.at(1), in.data(), kCount * sizeof(int)), "gpucollMemcpy");
    const uint64_t before = gpucoll_abi(GC_ABI_VERSION)->runs();
    MPI_Allreduce(odd.at(1), sums.at(0), kCount, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    sums.read(out.data());
    const char* const other = where == Where::device ? "device" : "host";
    if (!checked(out == std::vector<int>(kCount, g_size * (g_size + 1) / 2)))
      fail("misaligned memory and %s memory: the sum is wrong", other);
    if (!checked(g_size == 1 || gpucoll_abi(GC_ABI_VERSION)->runs() == before))
      fail("misaligned memory and %s memory: it ran on the device", other);
  }
}

}  // namespace

int main(int argc, char** argv) {
  Mpi mpi(argc, argv);
  use_own_device();
  several_communicators();
  communicators_come_and_go();
  run_ahead();
  for (const Form form : kForms) root_on_host(form);
  misaligned();
  return mpi.finish("mixed");
}
