// Messages between nodes that go in pieces (src/mca/pt2pt/pieces.h): sizes around each threshold, memory of either kind
// on either side, types with gaps, too little room, probes, modes, requests under way together, threads. Data depend on
// the rank, the test and the index, and lie at odd addresses.
// Rank i exchanges with rank i ^ 1, which must be on another node. usage: pieces [threads]
#include <algorithm>
#include <deque>

#include "abi/abi.h"
#include "mpi_test.h"

namespace {
using namespace mpi_test;

constexpr int kTag = 3;
constexpr size_t kUnit = 64 << 10, kMostPiece = 512 << 10;

int to_int(size_t n) { return static_cast<int>(n); }

// From how many bytes on messages go in pieces.
size_t least() {
  const char* const set = std::getenv("GPUCOLL_PT2PT_DIRECT_BYTES");
  return set ? std::strtoull(set, nullptr, 0) : size_t{1} << 20;
}

uint64_t pieces_so_far() {
  const char *name = nullptr, *help = nullptr;
  for (size_t i = 0;; ++i) {
    const uint64_t value = gpucoll_abi(GC_ABI_VERSION)->counter(i, &name, &help);
    if (!std::strcmp(name, "pieces")) return value;
  }
}

Bytes data_of(int rank, int salt, size_t bytes) {
  Bytes data(bytes);
  for (size_t i = 0; i < bytes; ++i)
    data[i] =
        static_cast<uint8_t>(mix(static_cast<uint64_t>(rank), static_cast<uint64_t>(salt), i / 8) >> (8 * (i % 8)));
  return data;
}

// Bytes between two guards.
struct Buffer {
  static constexpr size_t kGuard = 64;
  Memory memory;
  size_t first, bytes;
  Buffer(Where where, size_t n, size_t offset = 1)
      : memory(where, n + offset + 2 * kGuard), first(kGuard + offset), bytes(n) {
    memory.write(Bytes(memory.bytes(), 0x5a).data());
  }
  void* at() const { return memory.at(static_cast<ptrdiff_t>(first)); }
  void fill(int salt) {
    Bytes all(memory.bytes(), 0x5a);
    const Bytes data = data_of(g_rank, salt, bytes);
    std::copy(data.begin(), data.end(), all.begin() + static_cast<ptrdiff_t>(first));
    memory.write(all.data());
  }
  // Expects the first n bytes that rank `from` has sent, and nothing else written.
  bool has(int from, int salt, size_t n) const {
    Bytes all(memory.bytes()), expected(memory.bytes(), 0x5a);
    const Bytes data = data_of(from, salt, n);
    std::copy(data.begin(), data.end(), expected.begin() + static_cast<ptrdiff_t>(first));
    memory.read(all.data());
    return all == expected;
  }
};

int peer() { return g_rank ^ 1; }

int count_of(const MPI_Status& status) {
  int bytes = 0;
  MPI_Get_count(&status, MPI_BYTE, &bytes);
  return bytes;
}

void exchange(const Buffer& out, const Buffer& in, MPI_Status* status, int tag = kTag) {
  MPI_Sendrecv(out.at(), to_int(out.bytes), MPI_BYTE, peer(), tag, in.at(), to_int(in.bytes), MPI_BYTE, peer(), tag,
               MPI_COMM_WORLD, status);
}

std::vector<size_t> sizes() {
  std::vector<size_t> all = {least() - 1, least(), least() + 1, 3 * kMostPiece - 1};
  for (const size_t pieces : {size_t{4}, size_t{5}, size_t{9}})
    for (const size_t size : {pieces * kMostPiece - 1, pieces * kMostPiece, pieces * kMostPiece + 1})
      if (size > least()) all.push_back(size);
  return all;
}

// Memory of either kind on either side. The even rank of a pair sends from one kind, the odd one from the other.
void each_size() {
  int salt = 0;
  for (const size_t size : sizes())
    for (const Where from : {Where::device, Where::host})
      for (const Where to : {Where::device, Where::host}) {
        Buffer out(from, size, 3), in(to, size + 5, 1);
        MPI_Status status;
        out.fill(++salt);
        const uint64_t before = pieces_so_far();
        exchange(out, in, &status);
        if (!checked(in.has(peer(), salt, size) && count_of(status) == to_int(size)))
          fail("%zu bytes, %s to %s: wrong data", size, name_of(from), name_of(to));
        const bool in_pieces = from == Where::device && size >= least();
        const uint64_t moved = pieces_so_far() - before;
        if (!checked(in_pieces ? moved >= 2 : moved == 0))
          fail("%zu bytes, %s to %s: %llu pieces", size, name_of(from), name_of(to), 0ULL + moved);
      }
}

// Messages of both ways under way together, beside some of host memory, received in another order by their tags.
void many_at_once() {
  constexpr int kMessages = 7;
  std::deque<Buffer> out, in;
  std::vector<MPI_Request> requests;
  for (int i = 0; i < kMessages; ++i) {
    const size_t size = i % 3 == 2 ? 1000 : least() + 700000 * static_cast<size_t>(i) + 1;
    const size_t offset = static_cast<size_t>(i);
    out.emplace_back(i % 4 == 3 ? Where::host : Where::device, size, offset);
    in.emplace_back(i % 5 == 4 ? Where::host : Where::device, size, offset + 1);
    out.back().fill(100 + i);
  }
  requests.resize(2 * kMessages);
  for (int i = kMessages; i-- > 0;)
    MPI_Irecv(in[i].at(), to_int(in[i].bytes), MPI_BYTE, peer(), i, MPI_COMM_WORLD, &requests[i]);
  for (int i = 0; i < kMessages; ++i)
    MPI_Isend(out[i].at(), to_int(out[i].bytes), MPI_BYTE, peer(), i, MPI_COMM_WORLD, &requests[kMessages + i]);
  MPI_Waitall(2 * kMessages, requests.data(), MPI_STATUSES_IGNORE);
  for (int i = 0; i < kMessages; ++i)
    if (!checked(in[i].has(peer(), 100 + i, in[i].bytes))) fail("message %d of many: wrong data", i);
}

// Messages of one tag are received in their order, whatever way they go.
void in_order() {
  const size_t sizes[] = {113, least() + 9, 113, least() + 600001, 20};
  std::deque<Buffer> out;
  MPI_Request sent[5];
  for (int i = 0; i < 5; ++i) {
    out.emplace_back(i % 2 ? Where::device : Where::host, sizes[i]);
    out.back().fill(200 + i);
  }
  for (int i = 0; i < 5; ++i)
    MPI_Isend(out[i].at(), to_int(sizes[i]), MPI_BYTE, peer(), kTag, MPI_COMM_WORLD, &sent[i]);
  for (int i = 0; i < 5; ++i) {
    Buffer in(i % 3 ? Where::device : Where::host, sizes[i]);
    MPI_Status status;
    MPI_Probe(peer(), MPI_ANY_TAG, MPI_COMM_WORLD, &status);
    if (!checked(count_of(status) == to_int(sizes[i]) && status.MPI_TAG == kTag))
      fail("a probe finds %d bytes of %zu", count_of(status), sizes[i]);
    MPI_Recv(in.at(), to_int(sizes[i]), MPI_BYTE, MPI_ANY_SOURCE, kTag, MPI_COMM_WORLD, &status);
    if (!checked(in.has(peer(), 200 + i, sizes[i]))) fail("message %d of one tag: wrong data", i);
  }
  MPI_Waitall(5, sent, MPI_STATUSES_IGNORE);
}

// Two matched probes, whose messages are received in the other order; the later one is cut off by some rooms.
void matched(size_t room) {
  const size_t size = least() + 1000;
  Buffer first(Where::device, size), second(Where::device, size), in(Where::device, size), other(Where::host, size);
  MPI_Request sent[2];
  MPI_Message message[2];
  MPI_Status status;
  first.fill(300);
  second.fill(301);
  MPI_Isend(first.at(), to_int(size), MPI_BYTE, peer(), kTag, MPI_COMM_WORLD, &sent[0]);
  MPI_Isend(second.at(), to_int(size), MPI_BYTE, peer(), kTag, MPI_COMM_WORLD, &sent[1]);
  for (MPI_Message& m : message) {
    MPI_Mprobe(peer(), kTag, MPI_COMM_WORLD, &m, &status);
    if (!checked(count_of(status) == to_int(size))) fail("a matched probe finds %d bytes", count_of(status));
  }
  const int rc = MPI_Mrecv(other.at(), to_int(room), MPI_BYTE, &message[1], &status);
  MPI_Mrecv(in.at(), to_int(size), MPI_BYTE, &message[0], &status);
  MPI_Waitall(2, sent, MPI_STATUSES_IGNORE);
  if (!checked(class_of(rc) == (room < size ? MPI_ERR_TRUNCATE : MPI_SUCCESS)))
    fail("a matched message of %zu bytes for %zu: error %d", size, room, class_of(rc));
  if (!checked(in.has(peer(), 300, size))) fail("a matched message: wrong data");
  if (room == size && !checked(other.has(peer(), 301, size))) fail("the second matched message: wrong data");
}

// Receives with too little room say so, write no more than they have, and leave the next message as it is.
void too_little_room() {
  const size_t size = least() + kMostPiece + 77;
  for (const size_t room : {size_t{0}, size_t{5}, size_t{8}, size_t{100}, size_t{113}, kUnit + 1, size - 1})
    for (const Where to : {Where::device, Where::host}) {
      Buffer out(Where::device, size), in(to, size), next(to, size);
      MPI_Request sent[2];
      MPI_Status status;
      out.fill(400);
      MPI_Isend(out.at(), to_int(size), MPI_BYTE, peer(), kTag, MPI_COMM_WORLD, &sent[0]);
      MPI_Isend(out.at(), to_int(size), MPI_BYTE, peer(), kTag, MPI_COMM_WORLD, &sent[1]);
      const int rc = MPI_Recv(in.at(), to_int(room), MPI_BYTE, peer(), kTag, MPI_COMM_WORLD, &status);
      MPI_Recv(next.at(), to_int(size), MPI_BYTE, peer(), kTag, MPI_COMM_WORLD, &status);
      MPI_Waitall(2, sent, MPI_STATUSES_IGNORE);
      if (!checked(class_of(rc) == MPI_ERR_TRUNCATE)) fail("%zu bytes for %zu: error %d", size, room, class_of(rc));
      Bytes all(in.memory.bytes());
      in.memory.read(all.data());
      const auto end = all.begin() + static_cast<ptrdiff_t>(in.first + room);
      if (!checked(std::all_of(end, all.end(), [](uint8_t b) { return b == 0x5a; })))
        fail("%zu bytes for %zu in %s memory: more is written", size, room, name_of(to));
      if (!checked(next.has(peer(), 400, size))) fail("behind %zu bytes for %zu: wrong data", size, room);
    }
}

// Every other pair of bytes.
void with_gaps() {
  const size_t pairs = least() / 2 + 400001;
  MPI_Datatype type;
  MPI_Type_vector(to_int(pairs), 2, 4, MPI_BYTE, &type);
  MPI_Type_commit(&type);
  for (const bool gaps_there : {false, true})
    for (const bool gaps_here : {false, true})
      for (const Where to : {Where::device, Where::host}) {
        Buffer out(Where::device, 4 * pairs), in(to, 4 * pairs);
        out.fill(500);
        MPI_Sendrecv(out.at(), gaps_there ? 1 : to_int(2 * pairs), gaps_there ? type : MPI_BYTE, peer(), kTag, in.at(),
                     gaps_here ? 1 : to_int(2 * pairs), gaps_here ? type : MPI_BYTE, peer(), kTag, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        const Bytes data = data_of(peer(), 500, 4 * pairs);
        Bytes all(in.memory.bytes()), expected(in.memory.bytes(), 0x5a);
        const auto place = [](bool gaps, size_t i) { return gaps ? i / 2 * 4 + i % 2 : i; };
        for (size_t i = 0; i < 2 * pairs; ++i) expected[in.first + place(gaps_here, i)] = data[place(gaps_there, i)];
        in.memory.read(all.data());
        if (!checked(all == expected))
          fail("gaps %d there, %d here, in %s memory: wrong data", gaps_there, gaps_here, name_of(to));
      }
  MPI_Type_free(&type);
}

// No send of such a message ends before its receive begins; a persistent one sends what is there at each start; the
// program may free a request under way.
void forms() {
  const size_t size = least() + 100;
  Buffer out(Where::device, size), in(Where::device, size), freed(Where::device, size), last(Where::device, size);
  MPI_Request requests[2], loose;
  int done = 0;
  out.fill(600);
  MPI_Issend(out.at(), to_int(size), MPI_BYTE, peer(), kTag, MPI_COMM_WORLD, &requests[0]);
  MPI_Barrier(MPI_COMM_WORLD);
  for (int i = 0; i < 100; ++i) MPI_Test(&requests[0], &done, MPI_STATUS_IGNORE);
  if (!checked(!done)) fail("a synchronous send is complete before its receive begins");
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Recv(in.at(), to_int(size), MPI_BYTE, peer(), kTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
  if (!checked(in.has(peer(), 600, size))) fail("a synchronous send: wrong data");

  MPI_Send_init(out.at(), to_int(size), MPI_BYTE, peer(), kTag, MPI_COMM_WORLD, &requests[0]);
  MPI_Recv_init(in.at(), to_int(size), MPI_BYTE, peer(), kTag, MPI_COMM_WORLD, &requests[1]);
  for (int start = 0; start < 3; ++start) {
    out.fill(610 + start);
    MPI_Startall(2, requests);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    if (!checked(in.has(peer(), 610 + start, size))) fail("start %d: wrong data", start);
  }
  for (MPI_Request& request : requests) MPI_Request_free(&request);

  freed.fill(620);
  MPI_Isend(freed.at(), to_int(size), MPI_BYTE, peer(), kTag, MPI_COMM_WORLD, &loose);
  MPI_Request_free(&loose);
  MPI_Recv(last.at(), to_int(size), MPI_BYTE, peer(), kTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  if (!checked(last.has(peer(), 620, size))) fail("a request that was freed: wrong data");
  MPI_Barrier(MPI_COMM_WORLD);
}

void all() {
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  each_size();
  many_at_once();
  in_order();
  for (const size_t room : {size_t{10}, kUnit, least() + 1000}) matched(room);
  too_little_room();
  with_gaps();
  forms();
}

void in_threads() {
  constexpr int kThreads = 3, kRounds = 6;
  on_threads(kThreads, [&](int t) {
    for (int round = 0; round < kRounds; ++round) {
      const size_t size = least() + 300000 * static_cast<size_t>(round * t) + 1;
      Buffer out(Where::device, size), in(round % 2 ? Where::device : Where::host, size);
      MPI_Status status;
      out.fill(1000 + 10 * t + round);
      exchange(out, in, &status, t);
      if (!checked(in.has(peer(), 1000 + 10 * t + round, size))) fail("thread %d, round %d: wrong data", t, round);
    }
  });
}

}  // namespace

int main(int argc, char** argv) { return main_of(argc, argv, "pieces", all, in_threads); }
