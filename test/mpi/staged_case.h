// One call of the staged test, and what must come of it: on device memory the same bytes as on host memory, in all
// forms and with either buffer on the device.
//
// Thread safety: none. Ownership: none.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "mpi_test.h"

namespace staged {
using namespace mpi_test;

constexpr size_t kRoom = 32768;          // bytes of a buffer
constexpr ptrdiff_t kStart = kRoom / 2;  // where the pointer that MPI gets points to

using Refill = std::function<void()>;
using Call = std::function<void(Form, void* send, void* recv, const Refill&)>;

// Completes what `start` began. A persistent call is run twice, from the same input.
inline void complete(Form form, MPI_Request* request, const Refill& refill) {
  if (form == Form::nonblocking) MPI_Wait(request, MPI_STATUS_IGNORE);
  if (form != Form::persistent) return;
  for (int run = 0; run < 2; run++) {
    if (run > 0) refill();
    MPI_Start(request);
    MPI_Wait(request, MPI_STATUS_IGNORE);
  }
  MPI_Request_free(request);
}

// MPI_X(arguments, comm) in all its forms; x is the name in lower case.
#define GC_CALL(X, x, comm, ...)                                                                   \
  [=](Form form, [[maybe_unused]] void* send, [[maybe_unused]] void* recv, const Refill& refill) { \
    MPI_Request request = MPI_REQUEST_NULL;                                                        \
    if (form == Form::blocking) MPI_##X(__VA_ARGS__, comm);                                        \
    if (form == Form::nonblocking) MPI_I##x(__VA_ARGS__, comm, &request);                          \
    if (form == Form::persistent) GC_INIT(X)(__VA_ARGS__, comm, MPI_INFO_NULL, &request);          \
    complete(form, &request, refill);                                                              \
  }

struct Case {
  std::string name;
  Call call;
  bool in_place = false;  // where this rank passes MPI_IN_PLACE as send buffer
};

// Which of the two buffers is in device memory on this rank.
struct Placement {
  const char* name;
  bool send, recv;
};

inline std::vector<Placement> placements(uint64_t seed) {
  const bool one = g_rank == static_cast<int>(seed % static_cast<uint64_t>(g_size));
  const uint64_t random = mix(seed, static_cast<uint64_t>(g_rank));
  return {{"device everywhere", true, true},
          {"device send buffers", true, false},
          {"device receive buffers", false, true},
          {"device on one rank", one, one},
          {"device at random", (random & 1) != 0, (random & 2) != 0}};
}

struct Images {
  std::vector<char> send, recv;
};

inline Images inputs(uint64_t seed) {
  Images in{std::vector<char>(kRoom), std::vector<char>(kRoom)};
  for (size_t i = 0; i < kRoom; i++) {
    // Small ints in every aligned position, so that sums and products of pairs stay defined.
    in.send[i] = i % 4 == 0 ? static_cast<char>(mix(seed, static_cast<uint64_t>(g_rank), i) % 23) : 0;
    in.recv[i] = i % 4 == 0 ? static_cast<char>(mix(seed + 1, static_cast<uint64_t>(g_rank), i) % 23) : 0;
  }
  return in;
}

inline Images run(const Case& test, Form form, const Images& in, Where send_where, Where recv_where) {
  Memory send(send_where, kRoom), recv(recv_where, kRoom);
  auto fill = [&] {
    send.write(in.send.data());
    recv.write(in.recv.data());
  };
  fill();
  test.call(form, send.at(kStart), recv.at(kStart), fill);
  Images out{std::vector<char>(kRoom), std::vector<char>(kRoom)};
  send.read(out.send.data());
  recv.read(out.recv.data());
  return out;
}

inline void compare(const std::vector<char>& got, const std::vector<char>& expected, const char* side,
                    const std::string& what) {
  if (checked(got == expected)) return;
  for (size_t i = 0; i < kRoom; i++) {
    if (got[i] == expected[i]) continue;
    return fail("%s: %s buffer, byte %td: %d instead of %d", what.c_str(), side, static_cast<ptrdiff_t>(i) - kStart,
                got[i], expected[i]);
  }
}

inline void run_case(const Case& test, uint64_t seed) {
  const Images in = inputs(seed);
  for (Form form : kForms) {
    // From the same form: MPI's own differ, as for neighbours that are the same rank twice.
    const Images expected = run(test, form, in, Where::host, Where::host);
    for (const Placement& place : placements(seed)) {
      const Images got =
          run(test, form, in, place.send ? Where::device : Where::host, place.recv ? Where::device : Where::host);
      const std::string what = std::string(name_of(form)) + test.name + ", " + place.name;
      compare(got.send, in.send, "send", what);
      compare(got.recv, expected.recv, "receive", what);
    }
  }
}

}  // namespace staged
