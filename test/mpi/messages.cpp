// Point-to-point messages of device memory are refused with an error, in all forms, before Open MPI touches the memory;
// those of host memory go on, before and after. With an argument: one MPI_Send of device memory, and no error handler
// of ours.
#include <functional>

#include "mpi_test.h"

namespace {
using namespace mpi_test;

constexpr int kCount = 100, kBytes = kCount * static_cast<int>(sizeof(int));

struct World {
  MPI_Comm comm;
  int peer;
  Memory device{Where::device, kBytes}, host{Where::host, kBytes};
  explicit World(MPI_Comm of) : comm(of), peer(g_rank ^ 1) { MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN); }
};

void expect(const char* what, int rc, int expected) {
  int found = rc;
  if (rc != MPI_SUCCESS) MPI_Error_class(rc, &found);
  if (!checked(found == expected)) fail("%s: error class %d instead of %d", what, found, expected);
}

using Send = int (*)(const void*, int, MPI_Datatype, int, int, MPI_Comm);
using SendLater = int (*)(const void*, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request*);

void sends_are_refused(World& w) {
  const std::pair<const char*, Send> sends[] = {
      {"MPI_Send", MPI_Send}, {"MPI_Bsend", MPI_Bsend}, {"MPI_Ssend", MPI_Ssend}, {"MPI_Rsend", MPI_Rsend}};
  const std::pair<const char*, SendLater> later[] = {
      {"MPI_Isend", MPI_Isend},           {"MPI_Ibsend", MPI_Ibsend},         {"MPI_Issend", MPI_Issend},
      {"MPI_Irsend", MPI_Irsend},         {"MPI_Send_init", MPI_Send_init},   {"MPI_Bsend_init", MPI_Bsend_init},
      {"MPI_Ssend_init", MPI_Ssend_init}, {"MPI_Rsend_init", MPI_Rsend_init},
  };
  std::vector<char> room(kBytes + MPI_BSEND_OVERHEAD);
  MPI_Buffer_attach(room.data(), static_cast<int>(room.size()));
  for (const auto& [name, send] : sends)
    expect(name, send(w.device.at(0), kCount, MPI_INT, w.peer, 1, w.comm), MPI_ERR_BUFFER);
  for (const auto& [name, send] : later) {
    MPI_Request request;
    expect(name, send(w.device.at(0), kCount, MPI_INT, w.peer, 1, w.comm, &request), MPI_ERR_BUFFER);
  }
  void* detached;
  int bytes;
  MPI_Buffer_detach(&detached, &bytes);
}

void receives_are_refused(World& w) {
  MPI_Request request;
  expect("MPI_Recv", MPI_Recv(w.device.at(0), kCount, MPI_INT, w.peer, 1, w.comm, MPI_STATUS_IGNORE), MPI_ERR_BUFFER);
  expect("MPI_Recv of any",
         MPI_Recv(w.device.at(0), 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, w.comm, MPI_STATUS_IGNORE), MPI_ERR_BUFFER);
  expect("MPI_Irecv", MPI_Irecv(w.device.at(0), kCount, MPI_INT, w.peer, 1, w.comm, &request), MPI_ERR_BUFFER);
  expect("MPI_Recv_init", MPI_Recv_init(w.device.at(0), kCount, MPI_INT, w.peer, 1, w.comm, &request), MPI_ERR_BUFFER);
  expect("MPI_Sendrecv",
         MPI_Sendrecv(w.host.at(0), 1, MPI_INT, w.peer, 1, w.device.at(0), 1, MPI_INT, w.peer, 1, w.comm,
                      MPI_STATUS_IGNORE),
         MPI_ERR_BUFFER);
}

// The first byte of data tells, not the address that is passed.
void data_elsewhere_is_refused(World& w) {
  MPI_Aint address;
  MPI_Datatype absolute, behind;
  const int one = 1;
  MPI_Get_address(w.device.at(0), &address);
  MPI_Type_create_hindexed(1, &one, &address, MPI_INT, &absolute);
  MPI_Type_commit(&absolute);
  expect("MPI_Send of MPI_BOTTOM", MPI_Send(MPI_BOTTOM, 1, absolute, w.peer, 1, w.comm), MPI_ERR_BUFFER);
  const MPI_Aint distance = MPI_Aint_diff(address, reinterpret_cast<MPI_Aint>(w.host.at(0)));
  MPI_Type_create_hindexed(1, &one, &distance, MPI_INT, &behind);
  MPI_Type_commit(&behind);
  expect("MPI_Send of a displaced type", MPI_Send(w.host.at(0), 1, behind, w.peer, 1, w.comm), MPI_ERR_BUFFER);
  MPI_Type_free(&behind);
  MPI_Type_free(&absolute);
}

// Its message can still be received.
void matched_receives_are_refused(World& w) {
  for (const bool waits : {true, false}) {
    int value = g_rank, got = -1;
    MPI_Message message;
    MPI_Request sent, received;
    MPI_Isend(&value, 1, MPI_INT, w.peer, 2, w.comm, &sent);
    MPI_Mprobe(w.peer, 2, w.comm, &message, MPI_STATUS_IGNORE);
    if (waits)
      expect("MPI_Mrecv", MPI_Mrecv(w.device.at(0), 1, MPI_INT, &message, MPI_STATUS_IGNORE), MPI_ERR_BUFFER);
    else
      expect("MPI_Imrecv", MPI_Imrecv(w.device.at(0), 1, MPI_INT, &message, &received), MPI_ERR_BUFFER);
    expect("MPI_Mrecv to the host", MPI_Mrecv(&got, 1, MPI_INT, &message, MPI_STATUS_IGNORE), MPI_SUCCESS);
    MPI_Wait(&sent, MPI_STATUS_IGNORE);
    if (!checked(got == w.peer)) fail("the matched message is %d instead of %d", got, w.peer);
  }
}

// Nothing is read or written.
void messages_without_data_pass(World& w) {
  expect("MPI_Sendrecv of nothing",
         MPI_Sendrecv(w.device.at(0), 0, MPI_INT, w.peer, 3, w.device.at(0), 0, MPI_INT, w.peer, 3, w.comm,
                      MPI_STATUS_IGNORE),
         MPI_SUCCESS);
  expect("MPI_Send to nobody", MPI_Send(w.device.at(0), kCount, MPI_INT, MPI_PROC_NULL, 3, w.comm), MPI_SUCCESS);
}

void host_messages_pass(World& w) {
  std::vector<int> in(kCount, g_rank + 1), out(kCount);
  MPI_Request requests[2];
  expect("MPI_Recv_init", MPI_Recv_init(out.data(), kCount, MPI_INT, w.peer, 4, w.comm, &requests[0]), MPI_SUCCESS);
  expect("MPI_Send_init", MPI_Send_init(in.data(), kCount, MPI_INT, w.peer, 4, w.comm, &requests[1]), MPI_SUCCESS);
  const std::function<void()> forms[] = {
      [&] {
        if (g_rank % 2) MPI_Send(in.data(), kCount, MPI_INT, w.peer, 4, w.comm);
        MPI_Recv(out.data(), kCount, MPI_INT, w.peer, 4, w.comm, MPI_STATUS_IGNORE);
        if (g_rank % 2 == 0) MPI_Send(in.data(), kCount, MPI_INT, w.peer, 4, w.comm);
      },
      [&] {
        MPI_Request both[2];
        MPI_Irecv(out.data(), kCount, MPI_INT, w.peer, 4, w.comm, &both[0]);
        MPI_Isend(in.data(), kCount, MPI_INT, w.peer, 4, w.comm, &both[1]);
        MPI_Waitall(2, both, MPI_STATUSES_IGNORE);
      },
      [&] {
        MPI_Startall(2, requests);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
      },
      [&] {
        MPI_Sendrecv(in.data(), kCount, MPI_INT, w.peer, 4, out.data(), kCount, MPI_INT, w.peer, 4, w.comm,
                     MPI_STATUS_IGNORE);
      },
  };
  for (size_t form = 0; form < std::size(forms); ++form) {
    out.assign(kCount, -1);
    forms[form]();
    if (!checked(out == std::vector<int>(kCount, w.peer + 1))) fail("form %zu of a host message: wrong data", form);
  }
  for (MPI_Request& request : requests) MPI_Request_free(&request);
}

// On the device, by staging, and those that Open MPI's own modules make of messages.
void collectives_pass(World& w) {
  for (Memory* memory : {&w.device, &w.host}) {
    const std::vector<int> in(kCount, 1);
    std::vector<int> out(kCount);
    memory->write(in.data());
    MPI_Allreduce(MPI_IN_PLACE, memory->at(0), kCount, MPI_INT, MPI_SUM, w.comm);
    memory->read(out.data());
    if (!checked(out == std::vector<int>(kCount, g_size))) fail("an allreduce beside messages is wrong");
  }
}

void all(MPI_Comm of) {
  World w(of);
  host_messages_pass(w);
  sends_are_refused(w);
  receives_are_refused(w);
  data_elsewhere_is_refused(w);
  matched_receives_are_refused(w);
  messages_without_data_pass(w);
  host_messages_pass(w);
  collectives_pass(w);
}

}  // namespace

int main(int argc, char** argv) {
  Mpi mpi(argc, argv);
  use_own_device();
  if (argc > 1) {
    Memory memory(Where::device, kBytes);
    MPI_Send(memory.at(0), kCount, MPI_INT, g_rank ^ 1, 1, MPI_COMM_WORLD);
  }
  MPI_Comm copy;
  MPI_Comm_dup(MPI_COMM_WORLD, &copy);
  all(copy);
  MPI_Comm_free(&copy);
  all(MPI_COMM_WORLD);
  return mpi.finish("messages");
}
