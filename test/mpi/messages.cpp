// Point-to-point messages between memory of each kind, in every form that MPI has, with types that have gaps on either
// side, beside messages of host memory and collectives. Data depend on the rank, the test and the index; what a receive
// must not write is checked as well.
#include <atomic>
#include <climits>
#include <functional>
#include <memory>

#include "mpi_test.h"

namespace {
using namespace mpi_test;

constexpr int kTag = 7;

// ---- data ----

int value(int rank, int salt, size_t i) {
  return static_cast<int>(mix(static_cast<uint64_t>(rank), static_cast<uint64_t>(salt), i));
}

// A buffer of ints and how MPI is told to see it: `count` elements of `type` have `data` ints in it, at `places`.
struct Shape {
  const char* name;
  MPI_Datatype type;
  int count;
  std::vector<size_t> places;
  size_t room;
};

Shape plain(int n) {
  Shape shape = {"plain", MPI_INT, n, {}, static_cast<size_t>(n)};
  for (int i = 0; i < n; ++i) shape.places.push_back(static_cast<size_t>(i));
  return shape;
}

// Every other pair of ints.
Shape strided(int pairs) {
  Shape shape = {"strided", MPI_DATATYPE_NULL, 1, {}, 4 * static_cast<size_t>(pairs)};
  MPI_Type_vector(pairs, 2, 4, MPI_INT, &shape.type);
  MPI_Type_commit(&shape.type);
  for (size_t i = 0; i < static_cast<size_t>(pairs); ++i)
    for (size_t j : {0, 1}) shape.places.push_back(4 * i + j);
  return shape;
}

// Elements of three ints in an order of their own, with gaps in and between them.
Shape scattered(int elements) {
  constexpr size_t kExtent = 8;
  Shape shape = {"scattered", MPI_DATATYPE_NULL, elements, {}, kExtent * static_cast<size_t>(elements)};
  const int lengths[] = {1, 1, 1};
  const int at[] = {5, 0, 2};
  MPI_Datatype bare;
  MPI_Type_indexed(3, lengths, at, MPI_INT, &bare);
  MPI_Type_create_resized(bare, 0, kExtent * sizeof(int), &shape.type);
  MPI_Type_commit(&shape.type);
  MPI_Type_free(&bare);
  for (size_t e = 0; e < static_cast<size_t>(elements); ++e)
    for (int place : at) shape.places.push_back(kExtent * e + static_cast<size_t>(place));
  return shape;
}

// So many ints, in runs of other lengths with other gaps for each salt.
Shape uneven(size_t ints, int salt) {
  Shape shape = {"uneven", MPI_DATATYPE_NULL, 1, {}, 0};
  std::vector<int> lengths, at;
  while (shape.places.size() < ints) {
    const uint64_t random = mix(static_cast<uint64_t>(salt), lengths.size(), 0);
    lengths.push_back(static_cast<int>(std::min<size_t>(1 + random % 20, ints - shape.places.size())));
    shape.room += random / 32 % 5;
    at.push_back(static_cast<int>(shape.room));
    for (int j = 0; j < lengths.back(); ++j) shape.places.push_back(shape.room++);
  }
  MPI_Type_indexed(static_cast<int>(lengths.size()), lengths.data(), at.data(), MPI_INT, &shape.type);
  MPI_Type_commit(&shape.type);
  return shape;
}

void free_shape(Shape& shape) {
  if (shape.type != MPI_INT) MPI_Type_free(&shape.type);
}

constexpr int kUntouched = 0x5a5a5a5a;

// Memory of either kind in some shape.
struct Buffer {
  const Shape& shape;
  Memory memory;
  Buffer(Where where, const Shape& of) : shape(of), memory(where, of.room * sizeof(int)) { clear(); }
  void* data() const { return memory.at(0); }
  void clear() { memory.write(std::vector<int>(shape.room, kUntouched).data()); }
  void fill(int salt) {
    std::vector<int> all(shape.room, kUntouched);
    for (size_t i = 0; i < shape.places.size(); ++i) all[shape.places[i]] = value(g_rank, salt, i);
    memory.write(all.data());
  }
  // Expects the first n of the data that rank `from` has sent, and nothing else written.
  bool has(int from, int salt, size_t n) const {
    std::vector<int> all(shape.room), expected(shape.room, kUntouched);
    memory.read(all.data());
    for (size_t i = 0; i < n; ++i) expected[shape.places[i]] = value(from, salt, i);
    return all == expected;
  }
  bool has(int from, int salt) const { return has(from, salt, shape.places.size()); }
};

void expect(const char* what, int rc, int expected) {
  const int found = class_of(rc);
  if (!checked(found == expected)) fail("%s: error class %d instead of %d", what, found, expected);
}

// ---- forms ----

struct World {
  MPI_Comm comm;
  int peer;
  bool unmatched = false;
  explicit World(MPI_Comm of) : comm(of), peer(g_rank ^ 1) { MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN); }
};

// Begins a send; what it returns, ends it.
using End = std::function<void()>;
using Send = std::function<End(const World&, const Buffer&)>;
// Receives; the peer's send is under way.
using Receive = std::function<MPI_Status(const World&, const Buffer&)>;

using SendNow = int (*)(const void*, int, MPI_Datatype, int, int, MPI_Comm);
using SendLater = int (*)(const void*, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request*);

Send later(SendLater send) {
  return [send](const World& w, const Buffer& b) -> End {
    MPI_Request request;
    send(b.data(), b.shape.count, b.shape.type, w.peer, kTag, w.comm, &request);
    return [request]() mutable { MPI_Wait(&request, MPI_STATUS_IGNORE); };
  };
}

// Made, started and freed at once, as MPI allows it.
Send persistent(SendLater init) {
  return [init](const World& w, const Buffer& b) -> End {
    MPI_Request request;
    MPI_Datatype type;
    MPI_Type_dup(b.shape.type, &type);
    init(b.data(), b.shape.count, type, w.peer, kTag, w.comm, &request);
    MPI_Type_free(&type);
    MPI_Start(&request);
    return [request]() mutable {
      MPI_Wait(&request, MPI_STATUS_IGNORE);
      MPI_Request_free(&request);
    };
  };
}

struct NamedSend {
  const char* name;
  Send send;
};
const NamedSend kSends[] = {
    {"MPI_Isend", later(MPI_Isend)},
    {"MPI_Issend", later(MPI_Issend)},
    {"MPI_Ibsend", later(MPI_Ibsend)},
    {"MPI_Send_init", persistent(MPI_Send_init)},
    {"MPI_Ssend_init", persistent(MPI_Ssend_init)},
    {"MPI_Bsend_init", persistent(MPI_Bsend_init)},
};

struct NamedReceive {
  const char* name;
  bool matched;
  Receive receive;
};
const NamedReceive kReceives[] = {
    {"MPI_Recv", false,
     [](const World& w, const Buffer& b) {
       MPI_Status status;
       MPI_Recv(b.data(), b.shape.count, b.shape.type, w.peer, kTag, w.comm, &status);
       return status;
     }},
    {"MPI_Irecv", false,
     [](const World& w, const Buffer& b) {
       MPI_Request request;
       MPI_Status status;
       MPI_Irecv(b.data(), b.shape.count, b.shape.type, MPI_ANY_SOURCE, MPI_ANY_TAG, w.comm, &request);
       int done = 0;
       while (!done) MPI_Test(&request, &done, &status);
       return status;
     }},
    {"MPI_Recv_init", false,
     [](const World& w, const Buffer& b) {
       MPI_Request request;
       MPI_Status status;
       MPI_Recv_init(b.data(), b.shape.count, b.shape.type, w.peer, kTag, w.comm, &request);
       MPI_Startall(1, &request);
       MPI_Wait(&request, &status);
       MPI_Request_free(&request);
       return status;
     }},
    {"MPI_Mrecv", true,
     [](const World& w, const Buffer& b) {
       MPI_Message message;
       MPI_Status status;
       MPI_Mprobe(w.peer, kTag, w.comm, &message, &status);
       MPI_Mrecv(b.data(), b.shape.count, b.shape.type, &message, &status);
       return status;
     }},
    {"MPI_Imrecv", true,
     [](const World& w, const Buffer& b) {
       MPI_Message message;
       MPI_Request request;
       MPI_Status status;
       int there = 0;
       while (!there) MPI_Improbe(MPI_ANY_SOURCE, kTag, w.comm, &there, &message, &status);
       MPI_Imrecv(b.data(), b.shape.count, b.shape.type, &message, &request);
       MPI_Waitall(1, &request, &status);
       return status;
     }},
};

void expect_status(const char* name, const World& w, const MPI_Status& status, MPI_Datatype type, size_t ints) {
  int elements = -1;
  MPI_Get_elements(&status, type, &elements);
  if (!checked(status.MPI_SOURCE == w.peer && status.MPI_TAG == kTag && elements == static_cast<int>(ints)))
    fail("%s: the status says source %d, tag %d, %d elements instead of %d, %d, %zu", name, status.MPI_SOURCE,
         status.MPI_TAG, elements, w.peer, kTag, ints);
}

// ---- tests ----

void exchange(const World& w, const NamedSend& send, const NamedReceive& receive, const Buffer& out, Buffer& in,
              int salt, size_t ints) {
  const End end = send.send(w, out);
  const MPI_Status status = receive.receive(w, in);
  end();
  expect_status(receive.name, w, status, in.shape.type, ints);
  if (!checked(in.has(w.peer, salt, ints)))
    fail("%s of %zu ints (%s) into %s memory (%s): wrong data", send.name, ints, out.shape.name, receive.name,
         in.shape.name);
}

// Open MPI's component cm over libfabric cannot receive matched messages, not even of host memory.
bool receives_matched_messages(const World& w) {
  int out = g_rank, in = -1;
  MPI_Message message;
  MPI_Request sent;
  MPI_Isend(&out, 1, MPI_INT, w.peer, kTag, w.comm, &sent);
  MPI_Mprobe(w.peer, kTag, w.comm, &message, MPI_STATUS_IGNORE);
  const int rc = MPI_Mrecv(&in, 1, MPI_INT, &message, MPI_STATUS_IGNORE);
  MPI_Wait(&sent, MPI_STATUS_IGNORE);
  return rc == MPI_SUCCESS;
}

// Each form of one side with each of the other, into and out of memory of each kind.
void all_forms(const World& w) {
  const Shape shape = plain(1234);
  int salt = 0;
  for (const NamedSend& send : kSends) {
    for (const NamedReceive& receive : kReceives) {
      if (w.unmatched && receive.matched) continue;
      for (Where from : {Where::device, Where::host}) {
        for (Where to : {Where::device, Where::host}) {
          if (from == Where::host && to == Where::host) continue;
          Buffer out(from, shape), in(to, shape);
          out.fill(++salt);
          exchange(w, send, receive, out, in, salt, shape.places.size());
        }
      }
    }
  }
}

// What is shorter than the buffer, also by a part of an element, leaves the rest of it as it was.
void shapes(const World& w) {
  Shape all[] = {plain(0),        plain(1),     plain(6000), strided(3000),
                 scattered(2000), plain(50001), strided(33), plain(100000)};
  int salt = 1000;
  for (Shape& from : all) {
    for (Shape& to : all) {
      if (from.places.size() > to.places.size()) continue;
      for (const bool both : {true, false}) {
        Buffer out(Where::device, from), in(both ? Where::device : Where::host, to);
        out.fill(++salt);
        exchange(w, kSends[0], kReceives[salt % (w.unmatched ? 3 : std::size(kReceives))], out, in, salt,
                 from.places.size());
      }
    }
  }
  for (Shape& shape : all) free_shape(shape);
}

void blocking_modes(const World& w) {
  const std::pair<const char*, SendNow> sends[] = {
      {"MPI_Send", MPI_Send}, {"MPI_Ssend", MPI_Ssend}, {"MPI_Bsend", MPI_Bsend}, {"MPI_Rsend", MPI_Rsend}};
  int salt = 2000;
  for (const int n : {1, 30000}) {
    const Shape shape = plain(n);
    Buffer out(Where::device, shape), in(Where::device, shape);
    for (const auto& [name, send] : sends) {
      out.fill(++salt);
      in.clear();
      MPI_Request request;
      MPI_Irecv(in.data(), n, MPI_INT, w.peer, kTag, w.comm, &request);
      MPI_Barrier(w.comm);  // MPI_Rsend may count on it
      expect(name, send(out.data(), n, MPI_INT, w.peer, kTag, w.comm), MPI_SUCCESS);
      MPI_Wait(&request, MPI_STATUS_IGNORE);
      if (!checked(in.has(w.peer, salt))) fail("%s of %d ints: wrong data", name, n);
    }
  }
}

// MPI 4.0 has it, and so Open MPI 5.0; also with nobody on one side or on both.
#if OMPI_MAJOR_VERSION >= 5
void isendrecv_replace(const World& w, Buffer& both, int salt) {
  const auto begin = [&](int to, int from) {
    MPI_Request request;
    both.fill(salt);
    expect(
        "MPI_Isendrecv_replace",
        MPI_Isendrecv_replace(both.data(), both.shape.count, both.shape.type, to, kTag, from, kTag, w.comm, &request),
        MPI_SUCCESS);
    return request;
  };
  MPI_Status status;
  MPI_Request request = begin(w.peer, w.peer);
  MPI_Wait(&request, &status);
  expect_status("MPI_Isendrecv_replace", w, status, both.shape.type, both.shape.places.size());
  if (!checked(both.has(w.peer, salt))) fail("MPI_Isendrecv_replace (%s): wrong data", both.shape.name);
  request = begin(MPI_PROC_NULL, MPI_PROC_NULL);
  MPI_Wait(&request, &status);
  if (!checked(status.MPI_SOURCE == MPI_PROC_NULL && both.has(g_rank, salt)))
    fail("MPI_Isendrecv_replace with nobody: source %d", status.MPI_SOURCE);
  const bool sends = g_rank < w.peer;
  request = sends ? begin(w.peer, MPI_PROC_NULL) : begin(MPI_PROC_NULL, w.peer);
  MPI_Wait(&request, &status);
  if (!checked(both.has(sends ? g_rank : w.peer, salt))) fail("MPI_Isendrecv_replace one way: wrong data");
}
#else
void isendrecv_replace(const World&, Buffer&, int) {}
#endif

void sendrecv(const World& w) {
  Shape gaps = scattered(500);
  for (const Shape& shape : {plain(20000), gaps}) {
    Buffer out(Where::device, shape), in(Where::device, shape);
    out.fill(3000);
    MPI_Sendrecv(out.data(), shape.count, shape.type, w.peer, kTag, in.data(), shape.count, shape.type, w.peer, kTag,
                 w.comm, MPI_STATUS_IGNORE);
    if (!checked(in.has(w.peer, 3000))) fail("MPI_Sendrecv (%s): wrong data", shape.name);
    for (Where where : {Where::device, Where::host}) {
      Buffer both(where, shape);
      both.fill(3001);
      MPI_Status status;
      expect("MPI_Sendrecv_replace",
             MPI_Sendrecv_replace(both.data(), shape.count, shape.type, w.peer, kTag, w.peer, kTag, w.comm, &status),
             MPI_SUCCESS);
      expect_status("MPI_Sendrecv_replace", w, status, shape.type, shape.places.size());
      if (!checked(both.has(w.peer, 3001))) fail("MPI_Sendrecv_replace (%s): wrong data", shape.name);
      isendrecv_replace(w, both, 3002);
      expect("MPI_Sendrecv_replace with nobody",
             MPI_Sendrecv_replace(both.data(), shape.count, shape.type, MPI_PROC_NULL, kTag, MPI_PROC_NULL, kTag,
                                  w.comm, MPI_STATUS_IGNORE),
             MPI_SUCCESS);
    }
  }
  free_shape(gaps);
}

// Each side has types of its own, which no levels describe, and uses them in turn.
void types_of_both_sides(const World& w) {
  for (const int ints : {50, 700, 30000}) {
    const auto n = static_cast<size_t>(ints);
    Shape outs[] = {uneven(n, 1), uneven(n, 2), uneven(n, 3)};
    for (int turn = 0; turn < 6; ++turn) {
      const Shape& shape = outs[turn % 3];
      Shape theirs = turn % 2 ? plain(ints) : uneven(n, 40 + turn);
      Buffer out(Where::device, shape), in(turn == 5 ? Where::host : Where::device, theirs);
      out.fill(3600 + turn);
      MPI_Status status;
      MPI_Sendrecv(out.data(), 1, shape.type, w.peer, kTag, in.data(), theirs.count, theirs.type, w.peer, kTag, w.comm,
                   &status);
      expect_status("types of both sides", w, status, theirs.type, n);
      if (!checked(in.has(w.peer, 3600 + turn)))
        fail("types of both sides: wrong data, turn %d of %d ints", turn, ints);
      free_shape(theirs);
    }
    for (Shape& shape : outs) free_shape(shape);
  }
}

void packing(const World& w) {
  Shape gaps = scattered(700);
  const size_t bytes = gaps.places.size() * sizeof(int);
  for (Where where : {Where::device, Where::host}) {
    for (Where packed_where : {Where::device, Where::host}) {
      Buffer out(where, gaps), in(where, gaps);
      Memory packed(packed_where, bytes + 8);
      int position = 8, size = 0;
      out.fill(3500);
      MPI_Pack_size(gaps.count, gaps.type, w.comm, &size);
      expect("MPI_Pack",
             MPI_Pack(out.data(), gaps.count, gaps.type, packed.at(0), static_cast<int>(bytes) + 8, &position, w.comm),
             MPI_SUCCESS);
      if (!checked(position == static_cast<int>(bytes) + 8 && size >= static_cast<int>(bytes)))
        fail("MPI_Pack: position %d", position);
      expect("MPI_Pack beyond the end",
             MPI_Pack(out.data(), 1, gaps.type, packed.at(0), static_cast<int>(bytes) + 8, &position, w.comm),
             MPI_ERR_TRUNCATE);
      position = 8;
      expect("MPI_Unpack",
             MPI_Unpack(packed.at(0), static_cast<int>(bytes) + 8, &position, in.data(), gaps.count, gaps.type, w.comm),
             MPI_SUCCESS);
      if (!checked(in.has(g_rank, 3500))) fail("MPI_Unpack: wrong data");
    }
  }
  free_shape(gaps);
}

// Passes arguments that Open MPI's own functions refuse.
void arguments_that_are_wrong(const World& w) {
  static char representation[] = "external32";
  MPI_Comm_set_errhandler(w.comm, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  char packed[8] = {};
  int at = 0;
  MPI_Aint far = 0;
  expect("MPI_Pack of NULL", MPI_Pack(nullptr, 1, MPI_INT, packed, 8, &at, w.comm), MPI_ERR_BUFFER);
  expect("MPI_Unpack to NULL", MPI_Unpack(packed, 8, &at, nullptr, 1, MPI_INT, w.comm), MPI_ERR_BUFFER);
  expect("MPI_Pack_external of NULL", MPI_Pack_external(representation, nullptr, 1, MPI_INT, packed, 8, &far),
         MPI_ERR_BUFFER);
  expect("MPI_Unpack_external to NULL", MPI_Unpack_external(representation, packed, 8, &far, nullptr, 1, MPI_INT),
         MPI_ERR_BUFFER);
  expect("MPI_Pack of nothing", MPI_Pack(nullptr, 0, MPI_INT, packed, 8, &at, w.comm), MPI_SUCCESS);
  int *most = nullptr, there = 0;
  MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &most, &there);
  if (!there || *most == INT_MAX) return;  // each tag that is an int is right
  Memory memory(Where::device, 8);
  const auto replace = [&](int send_tag, int recv_tag) {
    return MPI_Sendrecv_replace(memory.at(0), 1, MPI_INT, g_rank, send_tag, g_rank, recv_tag, w.comm,
                                MPI_STATUS_IGNORE);
  };
  expect("MPI_Sendrecv_replace, a tag to send that is too large", replace(*most + 1, 0), MPI_ERR_TAG);
  expect("MPI_Sendrecv_replace, a tag to receive that is too large", replace(0, *most + 1), MPI_ERR_TAG);
}

// Packs device memory, and expects the bytes that host memory gives.
void external_packing(const World& w) {
  static char representation[] = "external32";
  Shape gaps = scattered(700);
  MPI_Aint bytes = 0;
  MPI_Pack_external_size(representation, gaps.count, gaps.type, &bytes);
  const MPI_Aint room = bytes + 8;
  std::vector<char> expected(static_cast<size_t>(room)), got(expected.size());
  for (Where where : {Where::host, Where::device}) {
    for (Where packed_where : {Where::host, Where::device}) {
      Buffer out(where, gaps), in(where, gaps);
      Memory packed(packed_where, expected.size());
      MPI_Aint position = 8;
      packed.write(expected.data(), 8);
      out.fill(3600);
      expect("MPI_Pack_external",
             MPI_Pack_external(representation, out.data(), gaps.count, gaps.type, packed.at(0), room, &position),
             MPI_SUCCESS);
      if (!checked(position == room)) fail("MPI_Pack_external: position %ld", static_cast<long>(position));
      packed.read(got.data());
      if (where == Where::host && packed_where == Where::host)
        expected = got;
      else if (!checked(got == expected))
        fail("MPI_Pack_external: other bytes than from host memory");
      MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
      expect("MPI_Pack_external beyond the end",
             MPI_Pack_external(representation, out.data(), 1, gaps.type, packed.at(0), room, &position),
             MPI_ERR_TRUNCATE);
      position = 8;
      expect("MPI_Unpack_external",
             MPI_Unpack_external(representation, packed.at(0), room, &position, in.data(), gaps.count, gaps.type),
             MPI_SUCCESS);
      if (!checked(in.has(g_rank, 3600))) fail("MPI_Unpack_external: wrong data");
    }
  }
  (void)w;
  free_shape(gaps);
}

// The first byte of data tells, not the address that is passed; absolute addresses may lead to memory of both kinds.
void data_elsewhere(const World& w) {
  const Shape shape = plain(100);
  Buffer device_out(Where::device, shape), host_out(Where::host, shape), device_in(Where::device, shape),
      host_in(Where::host, shape);
  device_out.fill(4000);
  host_out.fill(4001);
  const auto type_of = [&](const Buffer& a, const Buffer& b) {
    const int lengths[] = {100, 100};
    MPI_Aint places[2];
    MPI_Get_address(a.data(), &places[0]);
    MPI_Get_address(b.data(), &places[1]);
    MPI_Datatype type;
    MPI_Type_create_hindexed(2, lengths, places, MPI_INT, &type);
    MPI_Type_commit(&type);
    return type;
  };
  MPI_Datatype out = type_of(device_out, host_out), in = type_of(device_in, host_in);
  MPI_Request request;
  MPI_Isend(MPI_BOTTOM, 1, out, w.peer, kTag, w.comm, &request);
  MPI_Recv(MPI_BOTTOM, 1, in, w.peer, kTag, w.comm, MPI_STATUS_IGNORE);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  if (!checked(device_in.has(w.peer, 4000) && host_in.has(w.peer, 4001))) fail("absolute addresses: wrong data");
  MPI_Type_free(&out);
  MPI_Type_free(&in);

  MPI_Datatype behind;
  MPI_Aint at, origin;
  const int length = 100;
  MPI_Get_address(device_out.data(), &at);
  MPI_Get_address(host_out.data(), &origin);
  const MPI_Aint distance = MPI_Aint_diff(at, origin);
  MPI_Type_create_hindexed(1, &length, &distance, MPI_INT, &behind);
  MPI_Type_commit(&behind);
  MPI_Isend(host_out.data(), 1, behind, w.peer, kTag, w.comm, &request);
  MPI_Recv(device_in.data(), 100, MPI_INT, w.peer, kTag, w.comm, MPI_STATUS_IGNORE);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  if (!checked(device_in.has(w.peer, 4000))) fail("a displaced type: wrong data");
  MPI_Type_free(&behind);
}

void what_is_too_long(const World& w) {
  const Shape longer = plain(20), shorter = plain(10);
  for (const bool waits : {true, false}) {
    Buffer out(Where::device, longer), in(Where::device, shorter);
    MPI_Request sent, received;
    MPI_Status status;
    out.fill(4500);
    MPI_Isend(out.data(), 20, MPI_INT, w.peer, kTag, w.comm, &sent);
    if (waits) {
      expect("MPI_Recv of what is too long", MPI_Recv(in.data(), 10, MPI_INT, w.peer, kTag, w.comm, &status),
             MPI_ERR_TRUNCATE);
    } else {
      MPI_Irecv(in.data(), 10, MPI_INT, w.peer, kTag, w.comm, &received);
      expect("MPI_Irecv of what is too long", MPI_Wait(&received, &status), MPI_ERR_TRUNCATE);
    }
    MPI_Wait(&sent, MPI_STATUS_IGNORE);
  }
}

// A large message into little room, or none: the send must end all the same.
void what_is_much_too_long(const World& w) {
  const Shape longer = plain(50000);
  for (const int room : {0, 1, 7, 28, 29, 1000, 49999}) {
    const Shape shorter = plain(room);
    for (const Where where : {Where::device, Where::host}) {
      Buffer out(Where::device, longer), in(where, shorter);
      MPI_Request sent, received;
      MPI_Status status;
      MPI_Irecv(in.data(), room, MPI_INT, w.peer, kTag, w.comm, &received);
      MPI_Isend(out.data(), longer.count, MPI_INT, w.peer, kTag, w.comm, &sent);
      expect("MPI_Irecv of what is much too long", MPI_Wait(&received, &status), MPI_ERR_TRUNCATE);
      expect("MPI_Isend of what is much too long", MPI_Wait(&sent, MPI_STATUS_IGNORE), MPI_SUCCESS);
    }
  }
}

// Host memory into too little room on the device: ob1, left alone, writes all of it into what it receives to.
void host_memory_is_too_long(const World& w) {
  constexpr int kBytes = 16 << 20;
  const std::vector<char> out(kBytes, 'a');
  for (const int room : {1, 1000, 65536, 70000, kBytes - 1}) {
    Memory in(Where::device, static_cast<size_t>(room));
    MPI_Request sent;
    MPI_Isend(out.data(), kBytes, MPI_BYTE, w.peer, kTag, w.comm, &sent);
    expect("MPI_Recv of host memory that is too long",
           MPI_Recv(in.at(0), room, MPI_BYTE, w.peer, kTag, w.comm, MPI_STATUS_IGNORE), MPI_ERR_TRUNCATE);
    MPI_Wait(&sent, MPI_STATUS_IGNORE);
  }
}

// Probes tell the size of the message, whichever way it comes, also of those as large as an envelope.
void probes(const World& w) {
  struct Message {
    Where from, to;
    int bytes;
  };
  const Message messages[] = {{Where::device, Where::host, 300000}, {Where::host, Where::device, 113},
                              {Where::device, Where::host, 113},    {Where::device, Where::device, 500001},
                              {Where::host, Where::host, 113},      {Where::host, Where::device, 200000},
                              {Where::device, Where::device, 113},  {Where::device, Where::host, 70001}};
  constexpr size_t kMessages = std::size(messages);
  for (const bool matched : {false, true}) {
    std::vector<std::unique_ptr<Memory>> in, out;
    MPI_Request sent[kMessages];
    for (size_t i = 0; i < kMessages; ++i) {
      const auto bytes = static_cast<size_t>(messages[i].bytes);
      out.push_back(std::make_unique<Memory>(messages[i].from, bytes));
      in.push_back(std::make_unique<Memory>(messages[i].to, bytes));
      out[i]->write(std::vector<char>(bytes, static_cast<char>(g_rank + static_cast<int>(i))).data());
      MPI_Isend(out[i]->at(0), messages[i].bytes, MPI_BYTE, w.peer, kTag, w.comm, &sent[i]);
    }
    MPI_Message found[kMessages];
    for (size_t i = 0; i < kMessages; ++i) {
      MPI_Status status;
      int bytes = -1;
      if (matched)
        MPI_Mprobe(w.peer, kTag, w.comm, &found[i], &status);
      else
        MPI_Probe(w.peer, kTag, w.comm, &status);
      MPI_Get_count(&status, MPI_BYTE, &bytes);
      if (!checked(bytes == messages[i].bytes)) fail("a probe finds %d bytes instead of %d", bytes, messages[i].bytes);
      if (!matched) MPI_Recv(in[i]->at(0), messages[i].bytes, MPI_BYTE, w.peer, kTag, w.comm, MPI_STATUS_IGNORE);
    }
    for (size_t i = kMessages; matched && i-- > 0;)
      MPI_Mrecv(in[i]->at(0), messages[i].bytes, MPI_BYTE, &found[i], MPI_STATUS_IGNORE);
    MPI_Waitall(kMessages, sent, MPI_STATUSES_IGNORE);
    for (size_t i = 0; i < kMessages; ++i) {
      std::vector<char> got(in[i]->bytes());
      in[i]->read(got.data());
      const auto expected = static_cast<char>(w.peer + static_cast<int>(i));
      if (!checked(got == std::vector<char>(got.size(), expected))) fail("message %zu after a probe: wrong data", i);
    }
  }
}

// Messages that a probe has matched stay apart from those received after them, also where these are cut off.
void matched_before_others(const World& w) {
  constexpr int kEnvelope = 113;
  const Shape large = plain(50000);
  Buffer first(Where::device, large), second(Where::device, large), in(Where::device, large);
  std::vector<char> small(kEnvelope, 'a'), little(10), got(kEnvelope);
  MPI_Request sent[3];
  MPI_Message message;
  MPI_Status status;
  int bytes = 0;
  first.fill(9600);
  second.fill(9601);
  MPI_Isend(first.data(), large.count, MPI_INT, w.peer, kTag, w.comm, &sent[0]);
  MPI_Isend(second.data(), large.count, MPI_INT, w.peer, kTag, w.comm, &sent[1]);
  MPI_Mprobe(w.peer, kTag, w.comm, &message, MPI_STATUS_IGNORE);
  expect("MPI_Recv of what is cut off", MPI_Recv(little.data(), 10, MPI_BYTE, w.peer, kTag, w.comm, MPI_STATUS_IGNORE),
         MPI_ERR_TRUNCATE);
  MPI_Mrecv(in.data(), large.count, MPI_INT, &message, MPI_STATUS_IGNORE);
  MPI_Waitall(2, sent, MPI_STATUSES_IGNORE);
  if (!checked(in.has(w.peer, 9600))) fail("a matched message before one that is cut off: wrong data");

  MPI_Isend(small.data(), kEnvelope, MPI_BYTE, w.peer, kTag, w.comm, &sent[0]);
  MPI_Isend(small.data(), kEnvelope, MPI_BYTE, w.peer, kTag, w.comm, &sent[1]);
  MPI_Isend(second.data(), large.count, MPI_INT, w.peer, kTag, w.comm, &sent[2]);
  MPI_Mprobe(w.peer, kTag, w.comm, &message, MPI_STATUS_IGNORE);
  MPI_Recv(got.data(), kEnvelope, MPI_BYTE, w.peer, kTag, w.comm, MPI_STATUS_IGNORE);
  MPI_Probe(w.peer, kTag, w.comm, &status);
  MPI_Get_count(&status, MPI_BYTE, &bytes);
  if (!checked(bytes == large.count * static_cast<int>(sizeof(int))))
    fail("a probe behind others finds %d bytes", bytes);
  MPI_Mrecv(got.data(), kEnvelope, MPI_BYTE, &message, MPI_STATUS_IGNORE);
  MPI_Recv(in.data(), large.count, MPI_INT, w.peer, kTag, w.comm, MPI_STATUS_IGNORE);
  MPI_Waitall(3, sent, MPI_STATUSES_IGNORE);
  if (!checked(in.has(w.peer, 9601) && got == small)) fail("messages behind a matched one: wrong data");
}

// Receives the later one of two messages that probes have matched first, and cuts it off.
void cut_off_before_others(const World& w) {
  const Shape large = plain(50000);
  Buffer first(Where::device, large), second(Where::device, large), in(Where::device, large);
  std::vector<char> little(10);
  MPI_Request sent[2];
  MPI_Message found[2];
  first.fill(9610);
  second.fill(9611);
  MPI_Isend(first.data(), large.count, MPI_INT, w.peer, kTag, w.comm, &sent[0]);
  MPI_Isend(second.data(), large.count, MPI_INT, w.peer, kTag, w.comm, &sent[1]);
  for (MPI_Message& message : found) MPI_Mprobe(w.peer, kTag, w.comm, &message, MPI_STATUS_IGNORE);
  expect("MPI_Mrecv of what is cut off", MPI_Mrecv(little.data(), 10, MPI_BYTE, &found[1], MPI_STATUS_IGNORE),
         MPI_ERR_TRUNCATE);
  MPI_Mrecv(in.data(), large.count, MPI_INT, &found[0], MPI_STATUS_IGNORE);
  MPI_Waitall(2, sent, MPI_STATUSES_IGNORE);
  if (!checked(in.has(w.peer, 9610))) fail("a matched message after a later one was cut off: wrong data");
}

// A collective is in flight on one rank and waits for the other one, which waits for a message to be received: so it
// must be, though the sender's memory, which is new, may not be opened beside what is in flight.
void beside_what_waits(const World& w) {
  const Shape shape = plain(700000);
  const int one = 1;
  Memory sum(Where::device, sizeof one);
  MPI_Request request;
  sum.write(&one);
  if (g_rank % 2 == 0) {
    Buffer in(Where::device, shape);
    MPI_Iallreduce(MPI_IN_PLACE, sum.at(0), 1, MPI_INT, MPI_SUM, w.comm, &request);
    MPI_Recv(in.data(), shape.count, MPI_INT, w.peer, kTag, w.comm, MPI_STATUS_IGNORE);
    MPI_Send(&one, 1, MPI_INT, w.peer, kTag, w.comm);
    if (!checked(in.has(w.peer, 9500))) fail("a message beside a collective in flight: wrong data");
  } else {
    int got = 0;
    Buffer out(Where::device, shape);
    out.fill(9500);
    MPI_Send(out.data(), shape.count, MPI_INT, w.peer, kTag, w.comm);
    MPI_Recv(&got, 1, MPI_INT, w.peer, kTag, w.comm, MPI_STATUS_IGNORE);
    MPI_Iallreduce(MPI_IN_PLACE, sum.at(0), 1, MPI_INT, MPI_SUM, w.comm, &request);
  }
  MPI_Wait(&request, MPI_STATUS_IGNORE);
}

void cancelled_and_freed(const World& w) {
  const Shape shape = plain(3000);
  Buffer out(Where::device, shape), in(Where::device, shape), never(Where::device, shape);
  MPI_Request request, freed;
  MPI_Status status;
  int cancelled = 0;
  never.fill(5000);
  MPI_Irecv(never.data(), shape.count, MPI_INT, w.peer, 99, w.comm, &request);
  MPI_Cancel(&request);
  MPI_Wait(&request, &status);
  MPI_Test_cancelled(&status, &cancelled);
  if (!checked(cancelled && never.has(g_rank, 5000))) fail("a receive is not cancelled");
  out.fill(5001);
  MPI_Isend(out.data(), shape.count, MPI_INT, w.peer, kTag, w.comm, &freed);
  MPI_Request_free(&freed);
  MPI_Recv(in.data(), shape.count, MPI_INT, w.peer, kTag, w.comm, MPI_STATUS_IGNORE);
  if (!checked(in.has(w.peer, 5001))) fail("a send that was freed: wrong data");
  MPI_Barrier(w.comm);  // the send that was freed has ended now
  MPI_Irecv(in.data(), shape.count, MPI_INT, w.peer, kTag, w.comm, &freed);
  MPI_Request_free(&freed);
  out.fill(5002);
  MPI_Ssend_init(out.data(), shape.count, MPI_INT, w.peer, kTag, w.comm, &request);
  MPI_Start(&request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  MPI_Request_free(&request);
  MPI_Barrier(w.comm);
  for (int i = 0; i < 1000 && !in.has(w.peer, 5002); ++i) MPI_Iprobe(w.peer, 98, w.comm, &cancelled, &status);
  if (!checked(in.has(w.peer, 5002))) fail("a receive that was freed: wrong data");
}

// Looks for messages that never come, as often as a program might that waits for something else.
void look_around(const World& w, int times) {
  for (int i = 0, there; i < times; ++i) MPI_Iprobe(w.peer, 98, w.comm, &there, MPI_STATUS_IGNORE);
}

// A receive that is freed before its message comes, while it does, or after, receives all the same; the send ends.
void freed_receives(const World& w) {
  Shape all[] = {plain(3000), strided(20000), scattered(700), plain(200000)};
  int salt = 5100;
  bool may_wait = true;
  for (const Shape& shape : all) {
    for (int looks = 0; looks < 9; ++looks) {
      for (const Where where : {Where::host, Where::device}) {
        Buffer out(Where::device, shape), in(where, shape);
        MPI_Request sent, freed;
        out.fill(++salt);
        if (salt % 3) {
          MPI_Irecv(in.data(), shape.count, shape.type, w.peer, kTag, w.comm, &freed);
        } else {
          MPI_Recv_init(in.data(), shape.count, shape.type, w.peer, kTag, w.comm, &freed);
          MPI_Start(&freed);
        }
        if (looks == 0) MPI_Request_free(&freed);
        MPI_Barrier(w.comm);
        MPI_Isend(out.data(), shape.count, shape.type, w.peer, kTag, w.comm, &sent);
        look_around(w, looks);
        if (looks > 0) MPI_Request_free(&freed);
        MPI_Wait(&sent, MPI_STATUS_IGNORE);
        MPI_Barrier(w.comm);
        const int most = may_wait ? 100000 : 1;
        for (int i = 0; i < most && !in.has(w.peer, salt); ++i) look_around(w, 1);
        may_wait &= in.has(w.peer, salt);  // what has failed once need not be waited for again
        if (!checked(in.has(w.peer, salt)))
          fail("a receive into %s memory (%s) that was freed after %d looks: wrong data", name_of(where), shape.name,
               looks);
      }
    }
  }
  for (Shape& shape : all) free_shape(shape);
}

// Requests of both kinds of memory, completed in any order.
void many_at_once(const World& w) {
  constexpr int kMessages = 24;
  std::vector<Shape> shapes;
  for (int i = 0; i < kMessages; ++i) shapes.push_back(plain(1 + i * i * 37));
  std::vector<Buffer*> in, out;
  std::vector<MPI_Request> requests;
  for (int i = 0; i < kMessages; ++i) {
    const Shape& shape = shapes[static_cast<size_t>(i)];
    in.push_back(new Buffer(i % 3 ? Where::device : Where::host, shape));
    out.push_back(new Buffer(i % 2 ? Where::device : Where::host, shape));
    out.back()->fill(6000 + i);
    requests.resize(requests.size() + 2);
    MPI_Irecv(in.back()->data(), shape.count, MPI_INT, w.peer, i % 4, w.comm, &requests[requests.size() - 2]);
    MPI_Isend(out.back()->data(), shape.count, MPI_INT, w.peer, i % 4, w.comm, &requests[requests.size() - 1]);
  }
  for (int left = 2 * kMessages; left > 0;) {
    int done = 0, which[2 * kMessages];
    if (left % 2) {
      MPI_Waitany(2 * kMessages, requests.data(), which, MPI_STATUS_IGNORE);
      done = 1;
    } else {
      MPI_Testsome(2 * kMessages, requests.data(), &done, which, MPI_STATUSES_IGNORE);
    }
    left -= done;
  }
  for (int i = 0; i < kMessages; ++i) {
    if (!checked(in[static_cast<size_t>(i)]->has(w.peer, 6000 + i))) fail("message %d of many: wrong data", i);
    delete in[static_cast<size_t>(i)];
    delete out[static_cast<size_t>(i)];
  }
}

void to_itself_and_nobody(const World& w) {
  const Shape shape = plain(5000);
  Buffer out(Where::device, shape), in(Where::device, shape);
  MPI_Request request;
  MPI_Status status;
  out.fill(7000);
  MPI_Irecv(in.data(), shape.count, MPI_INT, 0, kTag, MPI_COMM_SELF, &request);
  MPI_Send(out.data(), shape.count, MPI_INT, 0, kTag, MPI_COMM_SELF);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  if (!checked(in.has(g_rank, 7000))) fail("a message to itself: wrong data");
  expect("MPI_Send to nobody", MPI_Send(out.data(), shape.count, MPI_INT, MPI_PROC_NULL, 3, w.comm), MPI_SUCCESS);
  expect("MPI_Recv from nobody", MPI_Recv(out.data(), shape.count, MPI_INT, MPI_PROC_NULL, 3, w.comm, &status),
         MPI_SUCCESS);
  if (!checked(status.MPI_SOURCE == MPI_PROC_NULL && out.has(g_rank, 7000))) fail("a message from nobody");
}

// Persistent ones that are started again and again, with other data each time.
void again_and_again(const World& w) {
  const Shape shape = plain(777);
  Buffer out(Where::device, shape), in(Where::device, shape), host_in(Where::host, shape), host_out(Where::host, shape);
  MPI_Request all[4];
  MPI_Recv_init(in.data(), shape.count, MPI_INT, w.peer, 1, w.comm, &all[0]);
  MPI_Send_init(out.data(), shape.count, MPI_INT, w.peer, 1, w.comm, &all[1]);
  MPI_Recv_init(host_in.data(), shape.count, MPI_INT, w.peer, 2, w.comm, &all[2]);
  MPI_Send_init(host_out.data(), shape.count, MPI_INT, w.peer, 2, w.comm, &all[3]);
  for (int i = 0; i < 20; ++i) {
    out.fill(8000 + i);
    host_out.fill(8100 + i);
    MPI_Startall(4, all);
    MPI_Waitall(4, all, MPI_STATUSES_IGNORE);
    if (!checked(in.has(w.peer, 8000 + i) && host_in.has(w.peer, 8100 + i))) fail("start %d: wrong data", i);
  }
  for (MPI_Request& request : all) MPI_Request_free(&request);
}

// MPI_Request_get_status tells that a request is complete, and leaves it.
void asked_and_left(const World& w) {
  const Shape shape = plain(4000);
  for (const Where where : {Where::host, Where::device}) {
    Buffer out(Where::device, shape), in(where, shape);
    MPI_Request sent, received;
    MPI_Recv_init(in.data(), shape.count, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, w.comm, &received);
    for (int turn = 0; turn < 3; ++turn) {
      MPI_Status asked, status;
      int there = 0, done = 0;
      out.fill(8500 + turn);
      MPI_Start(&received);
      MPI_Isend(out.data(), shape.count, MPI_INT, w.peer, kTag, w.comm, &sent);
      while (!there) MPI_Request_get_status(received, &there, &asked);
      MPI_Test(&received, &done, &status);
      MPI_Wait(&sent, MPI_STATUS_IGNORE);
      if (!checked(done && in.has(w.peer, 8500 + turn))) fail("a request that was asked: not done, or wrong data");
      expect_status("MPI_Request_get_status", w, asked, MPI_INT, shape.places.size());
      expect_status("MPI_Test after it", w, status, MPI_INT, shape.places.size());
    }
    MPI_Request_free(&received);
  }
}

// A persistent receive that had too little room is started again, for a message that fits. Open MPI 4.1 frees requests
// that have failed, persistent ones as well.
void started_after_failure(const World& w) {
  const Shape longer = plain(50000), shorter = plain(3000);
  for (const Where where : {Where::host, Where::device}) {
    Buffer large(Where::device, longer), small(Where::device, shorter), in(where, shorter);
    MPI_Request sent, received = MPI_REQUEST_NULL;
    small.fill(8600);
    for (const bool fits : {false, true, false, true}) {
      const Buffer& out = fits ? small : large;
      in.clear();
      if (received == MPI_REQUEST_NULL)
        MPI_Recv_init(in.data(), shorter.count, MPI_INT, w.peer, kTag, w.comm, &received);
      MPI_Start(&received);
      MPI_Isend(out.data(), out.shape.count, MPI_INT, w.peer, kTag, w.comm, &sent);
      expect("a persistent receive", MPI_Wait(&received, MPI_STATUS_IGNORE), fits ? MPI_SUCCESS : MPI_ERR_TRUNCATE);
      expect("its send", MPI_Wait(&sent, MPI_STATUS_IGNORE), MPI_SUCCESS);
      if (!checked(!fits || in.has(w.peer, 8600))) fail("a persistent receive after one that failed: wrong data");
    }
    MPI_Request_free(&received);
  }
}

// The program frees the type and the communicator before the message has come; nobody sends by another one.
void freed_around_it(const World& w) {
  Shape shape = strided(5000);
  for (const Where where : {Where::host, Where::device}) {
    MPI_Comm comm;
    MPI_Datatype type;
    Buffer out(Where::device, shape), in(where, shape);
    MPI_Request requests[4];
    out.fill(8700);
    MPI_Comm_dup(w.comm, &comm);
    MPI_Type_dup(shape.type, &type);
    MPI_Irecv(in.data(), shape.count, type, w.peer, kTag, comm, &requests[0]);
    MPI_Barrier(comm);
    MPI_Irecv(in.data(), shape.count, type, MPI_PROC_NULL, kTag, comm, &requests[1]);
    MPI_Recv_init(in.data(), shape.count, type, MPI_PROC_NULL, kTag, comm, &requests[2]);
    MPI_Isend(out.data(), shape.count, type, w.peer, kTag, comm, &requests[3]);
    MPI_Type_free(&type);
    MPI_Comm_free(&comm);
    MPI_Start(&requests[2]);
    for (int left = 4; left > 0; --left) {
      int which;
      MPI_Waitany(4, requests, &which, MPI_STATUS_IGNORE);
    }
    MPI_Request_free(&requests[2]);
    if (!checked(in.has(w.peer, 8700))) fail("a receive whose communicator and type were freed: wrong data");
  }
  free_shape(shape);
}

void collectives_beside(const World& w) {
  const Shape shape = plain(100000);
  Buffer out(Where::device, shape), in(Where::device, shape);
  MPI_Request requests[3];
  Memory sums(Where::device, sizeof(int));
  const int one = 1;
  int sum = 0;
  sums.write(&one);
  out.fill(9000);
  MPI_Irecv(in.data(), shape.count, MPI_INT, w.peer, kTag, w.comm, &requests[0]);
  MPI_Iallreduce(MPI_IN_PLACE, sums.at(0), 1, MPI_INT, MPI_SUM, w.comm, &requests[1]);
  MPI_Isend(out.data(), shape.count, MPI_INT, w.peer, kTag, w.comm, &requests[2]);
  MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
  sums.read(&sum);
  if (!checked(in.has(w.peer, 9000) && sum == g_size)) fail("messages beside a collective: wrong data");
}

// Threads that probe for messages of one size, and receive one each: another may have received what they have found.
void probing_threads(const World& w) {
  constexpr int kThreads = 4, kMessages = 60, kInts = 4096;
  std::atomic<int> wrong{0};
  const auto receive_one = [&](Memory& into, bool waits) {
    MPI_Status status;
    int there = 0, ints = -1;
    if (waits) MPI_Probe(w.peer, kTag, w.comm, &status);
    while (!waits && !there) MPI_Iprobe(w.peer, kTag, w.comm, &there, &status);
    MPI_Get_count(&status, MPI_INT, &ints);
    wrong += ints != kInts;
    MPI_Recv(into.at(0), kInts, MPI_INT, w.peer, kTag, w.comm, MPI_STATUS_IGNORE);
  };
  on_threads(kThreads, [&](int t) {
    Memory data(Where::device, kInts * sizeof(int));
    for (int i = 0; i < kMessages; ++i) {
      if (g_rank == 0)
        MPI_Send(data.at(0), kInts, MPI_INT, w.peer, kTag, w.comm);
      else
        receive_one(data, t % 2 == 0);
    }
  });
  if (!checked(wrong == 0)) fail("threads that probe: %d of %d sizes were wrong", wrong.load(), kThreads * kMessages);
}

// Sends that one thread frees while another, which waits for messages of its own, ends them.
void threads_that_free(const World& w) {
  constexpr int kThreads = 3, kMessages = 1500;
  std::atomic<int> wrong{0};
  on_threads(kThreads, [&](int t) {
    const int tag = kTag + t;
    Memory out(Where::device, sizeof tag), in(Where::device, sizeof tag);
    out.write(&tag);
    for (int i = 0; i < kMessages; ++i) {
      MPI_Request sent;
      int got = -1;
      MPI_Isend(out.at(0), 1, MPI_INT, w.peer, tag, w.comm, &sent);
      MPI_Request_free(&sent);
      MPI_Recv(in.at(0), 1, MPI_INT, w.peer, tag, w.comm, MPI_STATUS_IGNORE);
      if (i % 100 == 0) in.read(&got), wrong += got != tag;
    }
  });
  if (!checked(wrong == 0)) fail("threads that free: %d messages were wrong", wrong.load());
}

// Threads that receive, at once, host messages of the size of an envelope. If two took one note for theirs, the other
// one would stay, and a probe would take it for that of the next message.
void threads_that_take_notes(const World& w) {
  constexpr int kThreads = 4, kEach = 8, kRounds = 400, kPlain = 113, kInts = 4096;
  Memory large(Where::device, kInts * sizeof(int));
  int token = 0, ints = -1;
  std::vector<char> plain(kPlain, 'p');
  if (g_rank == 0) {
    for (int round = 0; round < kRounds; ++round) {
      for (int i = 0; i < kThreads * kEach; ++i) MPI_Send(plain.data(), kPlain, MPI_BYTE, w.peer, kTag, w.comm);
      MPI_Recv(&token, 1, MPI_INT, w.peer, kTag + 1, w.comm, MPI_STATUS_IGNORE);
    }
    MPI_Send(large.at(0), kInts, MPI_INT, w.peer, kTag, w.comm);
    return;
  }
  std::atomic<int> received{0};
  on_threads(kThreads, [&](int) {
    std::vector<char> got(kPlain);
    for (int i = 1; i <= kRounds * kEach; ++i) {
      MPI_Recv(got.data(), kPlain, MPI_BYTE, w.peer, kTag, w.comm, MPI_STATUS_IGNORE);
      if (received.fetch_add(1) % (kThreads * kEach) == kThreads * kEach - 1)
        MPI_Send(&token, 1, MPI_INT, w.peer, kTag + 1, w.comm);
    }
  });
  MPI_Status status;
  MPI_Probe(w.peer, kTag, w.comm, &status);
  MPI_Get_count(&status, MPI_INT, &ints);
  if (!checked(ints == kInts)) fail("a probe behind threads that receive finds %d ints", ints);
  MPI_Recv(large.at(0), kInts, MPI_INT, w.peer, kTag, w.comm, MPI_STATUS_IGNORE);
}

// Threads that have no room, at once, for messages of one tag. If two ended the same message, the sender of the other
// one would wait for ever.
void threads_without_room(const World& w) {
  constexpr int kThreads = 4, kMessages = 500, kInts = 4096;
  std::atomic<int> wrong{0};
  on_threads(kThreads, [&](int) {
    Memory data(Where::device, kInts * sizeof(int));
    for (int i = 0; i < kMessages; ++i) {
      int ignored, found = MPI_ERR_TRUNCATE;
      if (g_rank == 0)
        MPI_Send(data.at(0), kInts, MPI_INT, w.peer, kTag, w.comm);
      else
        found = class_of(MPI_Recv(&ignored, 0, MPI_INT, w.peer, kTag, w.comm, MPI_STATUS_IGNORE));
      wrong += found != MPI_ERR_TRUNCATE;
    }
  });
  if (!checked(wrong == 0)) fail("threads without room: %d receives told no truncation", wrong.load());
}

void all(MPI_Comm of) {
  World w(of);
  w.unmatched = !receives_matched_messages(w);
  std::vector<char> room(1 << 20);
  MPI_Buffer_attach(room.data(), static_cast<int>(room.size()));
  all_forms(w);
  shapes(w);
  blocking_modes(w);
  sendrecv(w);
  types_of_both_sides(w);
  packing(w);
  external_packing(w);
  arguments_that_are_wrong(w);
  data_elsewhere(w);
  what_is_too_long(w);
  what_is_much_too_long(w);
  host_memory_is_too_long(w);
  if (!w.unmatched) probes(w);
  if (!w.unmatched) matched_before_others(w);
  if (!w.unmatched) cut_off_before_others(w);
  beside_what_waits(w);
  cancelled_and_freed(w);
  freed_receives(w);
  many_at_once(w);
  to_itself_and_nobody(w);
  again_and_again(w);
  asked_and_left(w);
  started_after_failure(w);
  freed_around_it(w);
  collectives_beside(w);
  void* detached;
  int bytes;
  MPI_Buffer_detach(&detached, &bytes);
}

void all_threads(const World& w, bool notes_alone) {
  probing_threads(w);
  threads_that_take_notes(w);
  if (notes_alone) return;
  threads_that_free(w);
  threads_without_room(w);
}

}  // namespace

// usage: messages [threads|notes]: with MPI_THREAD_MULTIPLE; notes: no more than the threads that take notes
int main(int argc, char** argv) {
  const bool notes = argc > 1 && !std::strcmp(argv[1], "notes"), threads = argc > 1 && !std::strcmp(argv[1], "threads");
  Mpi mpi(argc, argv, threads || notes ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE);
  use_own_device();
  if (!notes) {
    MPI_Comm copy;
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    all(copy);
    MPI_Comm_free(&copy);
    all(MPI_COMM_WORLD);
  }
  if (mpi.threads() == MPI_THREAD_MULTIPLE && g_size == 2) all_threads(World(MPI_COMM_WORLD), notes);
  return mpi.finish("messages");
}
