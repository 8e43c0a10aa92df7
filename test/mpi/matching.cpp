// Messages drawn at random between host and device memory, against a reference of MPI's matching (matching_model.h):
// all modes and forms, wildcards, probes, cancelled receives, truncation, types with gaps on either side, messages to
// itself, communicators of several kinds, requests of both memories completed together, several threads.
//
// usage: matching [--seed S] [--messages N] [--threads T] [--memory host|device] [--verbose]
#include <numeric>
#include <thread>

#include "generated_case.h"
#include "matching_model.h"

namespace {
using namespace mpi_test;
using namespace matching;
using generated::Block;
using generated::Bytes;
using generated::Side;
using generated::stream;
using generated::Type;

struct Options {
  uint64_t seed = 1;
  int messages = 2000, threads = 1;
  bool verbose = false;
  std::string memory;
};

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; i++) {
    const std::string word = argv[i], value = i + 1 < argc ? argv[i + 1] : "";
    if (word == "--seed") options.seed = std::strtoull(value.c_str(), nullptr, 0);
    if (word == "--messages") options.messages = std::atoi(value.c_str());
    if (word == "--threads") options.threads = std::atoi(value.c_str());
    if (word == "--memory") options.memory = value;
    if (word == "--verbose") options.verbose = true;
  }
  return options;
}

// ---- communicators ----

// One of all ranks, one of all in reverse order, and one between ranks of even and odd numbers.
class Communicators {
 public:
  Communicators() {
    MPI_Comm_dup(MPI_COMM_WORLD, &all_[0]);
    MPI_Comm_split(MPI_COMM_WORLD, 0, -g_rank, &all_[1]);
    MPI_Comm_dup(MPI_COMM_WORLD, &aside);
    if (g_size > 1) {
      MPI_Comm half;
      MPI_Comm_split(MPI_COMM_WORLD, g_rank % 2, g_rank, &half);
      MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - g_rank % 2, 5, &all_[2]);
      MPI_Comm_free(&half);
    }
    for (int i = 0; i < count(); i++) MPI_Comm_set_errhandler(all_[i], MPI_ERRORS_RETURN);
  }
  Communicators(const Communicators&) = delete;
  void release() {
    for (int i = 0; i < count(); i++) MPI_Comm_free(&all_[i]);
    MPI_Comm_free(&aside);
  }
  int count() const { return g_size > 1 ? 3 : 2; }
  MPI_Comm at(int comm) const { return all_[comm]; }
  static bool may(int comm, int from, int to) { return comm < 2 || (from + to) % 2 != 0; }
  // The rank that a process of MPI_COMM_WORLD has for us, and back.
  static int inside(int comm, int rank) { return comm == 0 ? rank : comm == 1 ? g_size - 1 - rank : rank / 2; }
  static int outside(int comm, int rank) {
    return comm == 0 ? rank : comm == 1 ? g_size - 1 - rank : 2 * rank + (1 - g_rank % 2);
  }

  MPI_Comm aside;  // for the test itself

 private:
  MPI_Comm all_[3];
};

// ---- buffers ----

// Bytes in memory of either kind, in some type.
struct Buffer {
  std::unique_ptr<Type> type;
  int count = 0;
  std::unique_ptr<Side> side;
  void* data() const { return side->pointer(); }
  MPI_Datatype handle() const { return type->handle; }
};

// Several bytes as one element.
const std::vector<generated::Base>& units() {
  static const std::vector<generated::Base> all = [] {
    std::vector<generated::Base> made = {generated::plain("byte", MPI_BYTE)};
    for (const int bytes : {4, 16, 52}) {
      MPI_Datatype several;
      MPI_Type_contiguous(bytes, MPI_BYTE, &several);
      MPI_Type_commit(&several);
      made.push_back({"bytes", several, generated::Shape{{{0, bytes}}, 0, bytes}, 1});
    }
    return made;
  }();
  return all;
}

// A type that has `bytes` bytes in `count` elements, or, unless they must be exact, a few more.
Buffer draw_buffer(size_t bytes, bool exact, uint64_t seed, const std::string& memory) {
  Random random(seed);
  const generated::Base& unit = units()[static_cast<size_t>(random.below(4))];
  const int want = static_cast<int>(bytes), size = unit.shape.size();
  Buffer b;
  int elements = std::min(1 + random.below(40), std::max(want / size, 1));
  if (random.one_in(5)) elements = std::max(want / size, 1);
  if (exact ? want % (elements * size) != 0 : random.one_in(3)) {
    b.type = std::make_unique<Type>(units()[0]);
    b.count = want;
  } else {
    b.count = (want + elements * size - 1) / (elements * size);
    b.type = std::make_unique<Type>(generated::spell(unit, elements, b.count, random));
  }
  Where where = random.one_in(3) ? Where::host : Where::device;
  if (!memory.empty()) where = memory == "host" ? Where::host : Where::device;
  b.side = std::make_unique<Side>(where, std::vector<Block>{{b.count, 0, b.type.get()}}, seed, random.below(3));
  return b;
}

// ---- one rank's part of a round ----

struct Sending {
  const Message* message;
  size_t number;  // of the message
  Buffer buffer;
  MPI_Request request = MPI_REQUEST_NULL;
  int rc = MPI_SUCCESS;
  MPI_Status status = {};
};

struct Receiving {
  const Receive* receive;
  Buffer buffer;
  MPI_Request request = MPI_REQUEST_NULL;
  int rc = MPI_SUCCESS;
  MPI_Status status = {}, probed = {};
};

// What is outstanding, completed in each of MPI's ways.
class Completion {
 public:
  void add(MPI_Request& request, MPI_Status& status, int& rc) {
    if (request != MPI_REQUEST_NULL) slots_.push_back({&request, &status, &rc});
  }
  void all(Random& random) {
    for (const Slot& s : slots_) requests_.push_back(*s.request);
    statuses_.resize(slots_.size());
    switch (random.below(8)) {
      case 0: several(MPI_Waitall(n(), requests_.data(), statuses_.data()), everything()); break;
      case 1: test_all(); break;
      case 2: some(MPI_Waitsome); break;
      case 3: some(MPI_Testsome); break;
      case 4: wait_any(); break;
      case 5: test_any(); break;
      case 6:
        for (int i : in_any_order(random)) one(i, MPI_Wait(&requests_[u(i)], &statuses_[u(i)]));
        break;
      default:
        for (int i : in_any_order(random)) test(i);
    }
    for (size_t i = 0; i < slots_.size(); i++) {
      *slots_[i].request = requests_[i];
      *slots_[i].status = statuses_[i];
    }
  }

 private:
  struct Slot {
    MPI_Request* request;
    MPI_Status* status;
    int* rc;
  };
  int n() const { return static_cast<int>(slots_.size()); }
  std::vector<int> everything() const {
    std::vector<int> order(slots_.size());
    std::iota(order.begin(), order.end(), 0);
    return order;
  }
  std::vector<int> in_any_order(Random& random) const {
    std::vector<int> order = everything();
    shuffle(order, random);
    return order;
  }
  void one(int i, int rc) { *slots_[u(i)].rc = rc; }
  void several(int rc, const std::vector<int>& which) {
    for (int i : which) one(i, rc);
  }
  void test_all() {
    int done = 0, rc = MPI_SUCCESS;
    while (!done && rc == MPI_SUCCESS) rc = MPI_Testall(n(), requests_.data(), &done, statuses_.data());
    several(rc, everything());
  }
  template <class F>
  void some(F&& function) {
    for (int done = 0; done != MPI_UNDEFINED;) {
      std::vector<int> which(slots_.size() + 1);
      std::vector<MPI_Status> theirs(slots_.size() + 1);
      const int rc = function(n(), requests_.data(), &done, which.data(), theirs.data());
      if (done == MPI_UNDEFINED) break;
      which.resize(u(done));
      for (size_t i = 0; i < which.size(); i++) statuses_[u(which[i])] = theirs[i];
      several(rc, which);
    }
  }
  void wait_any() {
    for (int i = 0; i != MPI_UNDEFINED;) {
      MPI_Status status;
      const int rc = MPI_Waitany(n(), requests_.data(), &i, &status);
      if (i != MPI_UNDEFINED) statuses_[u(i)] = status, one(i, rc);
    }
  }
  void test_any() {
    for (int i = 0, done = 0; !done || i != MPI_UNDEFINED;) {
      MPI_Status status;
      const int rc = MPI_Testany(n(), requests_.data(), &i, &done, &status);
      if (done && i != MPI_UNDEFINED) statuses_[u(i)] = status, one(i, rc);
    }
  }
  void test(int i) {
    int done = 0, rc = MPI_SUCCESS;
    while (!done && rc == MPI_SUCCESS) rc = MPI_Test(&requests_[u(i)], &done, &statuses_[u(i)]);
    one(i, rc);
  }

  std::vector<Slot> slots_;
  std::vector<MPI_Request> requests_;
  std::vector<MPI_Status> statuses_;
};

class Part {
 public:
  Part(const Options& options, const Communicators& comms, const Round& round, uint64_t seed)
      : comms_(comms),
        round_(round),
        seed_(seed),
        probes_tell_sizes_(options.threads == 1),
        mine_(mix(seed, 77, u(g_rank))) {
    for (size_t i = 0; i < round.messages.size(); i++) {
      const Message& m = round.messages[i];
      if (m.from == g_rank) out_.push_back({&m, i, draw_buffer(m.bytes, true, mix(seed, 1, i), options.memory)});
    }
    for (size_t i = 0; i < round.receives.size(); i++) {
      const Receive& r = round.receives[i];
      if (r.to == g_rank) in_.push_back({&r, draw_buffer(r.capacity, r.exact, mix(seed, 2, i), options.memory)});
    }
  }
  Part(const Part&) = delete;
  ~Part() {
    for (Sending& s : out_)
      if (s.request != MPI_REQUEST_NULL) MPI_Request_free(&s.request);
    for (Receiving& r : in_)
      if (r.request != MPI_REQUEST_NULL) MPI_Request_free(&r.request);
  }

  void play(int turn) {
    turn_ = turn;
    for (Receiving& r : in_)
      if (r.receive->early) post(r);
    start();
    if (round_.ready) MPI_Barrier(comms_.aside);
    for (Sending& s : out_) send(s);
    start();
    for (Receiving& r : in_)
      if (!r.receive->early) post(r);
    start();
    complete();
    if (round_.together) MPI_Barrier(comms_.aside);
    check();
  }

 private:
  Bytes data(size_t message) const { return stream(mix(seed_, 3 + u(turn_), message), round_.messages[message].bytes); }

  // Starts persistent requests that follow each other, in one call.
  void start() {
    std::vector<MPI_Request> all;
    for (const MPI_Request* r : to_start_) all.push_back(*r);
    if (!all.empty()) MPI_Startall(static_cast<int>(all.size()), all.data());
    for (size_t i = 0; i < all.size(); i++) *to_start_[i] = all[i];
    to_start_.clear();
  }

  // Of truncated messages, Open MPI 4.1's MPI_Testany tells nothing, and its MPI_Waitall hangs with several threads,
  // also where all memory is the host's: they are completed alone.
  void complete() {
    Completion outstanding;
    for (Receiving& r : in_)
      if (r.receive->exact && r.request != MPI_REQUEST_NULL) r.rc = MPI_Wait(&r.request, &r.status);
    for (Sending& s : out_) outstanding.add(s.request, s.status, s.rc);
    for (Receiving& r : in_) outstanding.add(r.request, r.status, r.rc);
    outstanding.all(mine_);
  }

  // ---- sending ----

  void send(Sending& s) {
    const Message& m = *s.message;
    s.buffer.side->clear();
    s.buffer.side->put(0, data(s.number));
    s.buffer.side->write();
    if (!is_persistent(m.mode)) {
      start();
      s.rc = begin(s);
    } else {
      if (turn_ > 0 && !restarts(s)) MPI_Request_free(&s.request);
      if (s.request == MPI_REQUEST_NULL) s.rc = begin(s);
      to_start_.push_back(&s.request);
    }
    if (m.mode == Mode::freed) MPI_Request_free(&s.request);
    if (round_.turns == 1) s.buffer.type->release();
  }

  // Open MPI 4.1's own persistent buffered sends, of host memory, send the data of their first start again.
  static bool restarts(const Sending& s) {
    return s.message->mode != Mode::bsend_init || s.buffer.side->where() == Where::device;
  }

  int begin(Sending& s) {
    const Message& m = *s.message;
    const Buffer& b = s.buffer;
    const MPI_Comm comm = comms_.at(m.comm);
    const int to = Communicators::inside(m.comm, m.to);
    const auto now = [&](auto f) { return f(b.data(), b.count, b.handle(), to, m.tag, comm); };
    const auto later = [&](auto f) { return f(b.data(), b.count, b.handle(), to, m.tag, comm, &s.request); };
    switch (m.mode) {
      case Mode::send: return now(MPI_Send);
      case Mode::ssend: return now(MPI_Ssend);
      case Mode::rsend: return now(MPI_Rsend);
      case Mode::bsend: return now(MPI_Bsend);
      case Mode::irsend: return later(MPI_Irsend);
      case Mode::isend: return later(MPI_Isend);
      case Mode::issend: return later(MPI_Issend);
      case Mode::ibsend: return later(MPI_Ibsend);
      case Mode::send_init: return later(MPI_Send_init);
      case Mode::ssend_init: return later(MPI_Ssend_init);
      case Mode::bsend_init: return later(MPI_Bsend_init);
      case Mode::rsend_init: return later(MPI_Rsend_init);
      case Mode::freed: break;
    }
    return later(MPI_Isend);
  }

  // ---- receiving ----

  void post(Receiving& r) {
    r.buffer.side->clear();
    r.buffer.side->write();
    if (r.receive->way != Way::recv_init) {
      start();
      r.rc = begin(r);
    } else {
      if (turn_ == 0) r.rc = begin(r);
      to_start_.push_back(&r.request);
    }
    if (round_.turns == 1) r.buffer.type->release();
  }

  int begin(Receiving& r) {
    const Buffer& b = r.buffer;
    const MPI_Comm comm = comms_.at(r.receive->comm);
    const int from = r.receive->from == kAny ? MPI_ANY_SOURCE : Communicators::inside(r.receive->comm, r.receive->from);
    const int tag = r.receive->tag == kAny ? MPI_ANY_TAG : r.receive->tag;
    const Way way = r.receive->way;
    MPI_Message message;
    int there = 0;
    switch (way) {
      case Way::irecv: return MPI_Irecv(b.data(), b.count, b.handle(), from, tag, comm, &r.request);
      case Way::recv_init: return MPI_Recv_init(b.data(), b.count, b.handle(), from, tag, comm, &r.request);
      case Way::recv: return MPI_Recv(b.data(), b.count, b.handle(), from, tag, comm, &r.status);
      case Way::probe:
        MPI_Probe(from, tag, comm, &r.probed);
        return MPI_Recv(b.data(), b.count, b.handle(), r.probed.MPI_SOURCE, r.probed.MPI_TAG, comm, &r.status);
      case Way::iprobe:
        while (!there) MPI_Iprobe(from, tag, comm, &there, &r.probed);
        return MPI_Irecv(b.data(), b.count, b.handle(), r.probed.MPI_SOURCE, r.probed.MPI_TAG, comm, &r.request);
      case Way::mprobe:
        MPI_Mprobe(from, tag, comm, &message, &r.probed);
        return MPI_Mrecv(b.data(), b.count, b.handle(), &message, &r.status);
      case Way::improbe: break;
    }
    while (!there) MPI_Improbe(from, tag, comm, &there, &message, &r.probed);
    return MPI_Imrecv(b.data(), b.count, b.handle(), &message, &r.request);
  }

  // ---- checking ----

  void check() {
    std::vector<Receive> resolved;
    for (const Receiving& r : in_) {
      resolved.push_back(*r.receive);
      if (r.receive->from == kAny) resolved.back().from = Communicators::outside(r.receive->comm, r.status.MPI_SOURCE);
    }
    const std::vector<int> got = match(resolved, round_.messages);
    for (size_t i = 0; i < in_.size(); i++) check(in_[i], got[i]);
    for (const Sending& s : out_) {
      if (!checked(s.rc == MPI_SUCCESS)) tell("a send of %zu bytes: error %d", s.message->bytes, class_of(s.rc));
      if (!checked(s.buffer.side->difference() < 0)) tell("a send has changed its buffer");
    }
  }

  void check(Receiving& r, int got) {
    if (!checked(got >= 0)) {
      tell("a receive got a message from rank %d that nobody has sent", r.status.MPI_SOURCE);
      return;
    }
    const Message& m = round_.messages[u(got)];
    const bool truncated = m.bytes > r.receive->capacity;
    if (!checked(class_of(r.rc) == (truncated ? MPI_ERR_TRUNCATE : MPI_SUCCESS)))
      tell("way %d of %zu bytes for %zu from rank %d: error %d", static_cast<int>(r.receive->way), m.bytes,
           r.receive->capacity, m.from, class_of(r.rc));
    if (r.receive->way >= Way::probe) check_status("a probe", r.probed, m, probes_tell_sizes_);
    if (!truncated) check_status("a receive", r.status, m, true);
    if (truncated)
      r.buffer.side->accept(0);
    else
      r.buffer.side->put(0, data(u(got)));
    const ptrdiff_t wrong = r.buffer.side->difference();
    if (!checked(wrong < 0))
      tell("mode %d, way %d, %zu bytes from rank %d, tag %d, into %s, capacity %zu: wrong at %s",
           static_cast<int>(m.mode), static_cast<int>(r.receive->way), m.bytes, m.from, m.tag,
           r.buffer.type->name.c_str(), r.receive->capacity, r.buffer.side->place(wrong).c_str());
  }

  void check_status(const char* what, const MPI_Status& status, const Message& m, bool tells_size) {
    int bytes = static_cast<int>(m.bytes);
    if (tells_size) MPI_Get_count(&status, MPI_BYTE, &bytes);
    const int from = Communicators::inside(m.comm, m.from);
    if (!checked(status.MPI_SOURCE == from && status.MPI_TAG == m.tag && bytes == static_cast<int>(m.bytes)))
      tell("%s says source %d, tag %d, %d bytes instead of %d, %d, %zu", what, status.MPI_SOURCE, status.MPI_TAG, bytes,
           from, m.tag, m.bytes);
  }

  template <class... Values>
  void tell(const char* format, Values... values) {
    char text[300];
    std::snprintf(text, sizeof text, format, values...);
    fail("turn %d of %d: %s (repeat by --seed %llu --messages 1)", turn_, round_.turns, text, 0ULL + seed_);
  }

  const Communicators& comms_;
  const Round& round_;
  const uint64_t seed_;
  const bool probes_tell_sizes_;  // with several threads seldom that of another message: docs/adr/0037, known limits
  Random mine_;
  int turn_ = 0;
  std::vector<Sending> out_;
  std::vector<Receiving> in_;
  std::vector<MPI_Request*> to_start_;
};

// ---- cancelled receives ----

bool wait_cancelled(MPI_Request& request) {
  MPI_Status status;
  int cancelled = 0;
  MPI_Cancel(&request);
  MPI_Wait(&request, &status);
  MPI_Test_cancelled(&status, &cancelled);
  return cancelled != 0;
}

// A receive is cancelled while its message may be on its way: either it has the message, or another receive gets it.
void contest(const Options& options, const Communicators& comms, uint64_t seed) {
  constexpr int kContested = 100, kNobody = 101;
  const int right = (g_rank + 1) % g_size, left = (g_rank + g_size - 1) % g_size;
  Random random(mix(seed, 4));
  const size_t bytes = draw_size(random) + 1;
  Buffer out = draw_buffer(bytes, true, mix(seed, 5), options.memory);
  Buffer in = draw_buffer(bytes, false, mix(seed, 6), options.memory);
  Buffer never = draw_buffer(bytes, false, mix(seed, 7), options.memory);
  for (const Buffer* b : {&out, &in, &never}) b->side->clear();
  out.side->put(0, stream(mix(seed, 8, u(g_rank)), bytes));
  for (const Buffer* b : {&out, &in, &never}) b->side->write();
  MPI_Request sent, received, unmatched;
  MPI_Irecv(never.data(), never.count, never.handle(), MPI_ANY_SOURCE, kNobody, comms.at(0), &unmatched);
  MPI_Irecv(in.data(), in.count, in.handle(), left, kContested, comms.at(0), &received);
  MPI_Isend(out.data(), out.count, out.handle(), right, kContested, comms.at(0), &sent);
  if (wait_cancelled(received)) {
    if (!checked(in.side->difference() < 0)) fail("a cancelled receive has written (--seed %llu)", 0ULL + seed);
    MPI_Recv(in.data(), in.count, in.handle(), left, kContested, comms.at(0), MPI_STATUS_IGNORE);
  }
  MPI_Wait(&sent, MPI_STATUS_IGNORE);
  in.side->put(0, stream(mix(seed, 8, u(left)), bytes));
  if (!checked(in.side->difference() < 0)) fail("a contested message: wrong data (--seed %llu)", 0ULL + seed);
  if (!checked(wait_cancelled(unmatched) && never.side->difference() < 0))
    fail("a receive from nobody is not cancelled (--seed %llu)", 0ULL + seed);
}

// ---- what draws cannot show ----

// A synchronous send must not complete before its receive begins.
void synchronous_waits(const Communicators& comms) {
  const int peer = g_rank ^ 1;
  for (const bool persistent : {false, true}) {
    Memory out(Where::device, 10), in(Where::device, 10);
    MPI_Request sent = MPI_REQUEST_NULL;
    int done = 0;
    if (persistent && peer < g_size) {
      MPI_Ssend_init(out.at(0), 10, MPI_BYTE, peer, 1, comms.at(0), &sent);
      MPI_Start(&sent);
    } else if (peer < g_size) {
      MPI_Issend(out.at(0), 10, MPI_BYTE, peer, 1, comms.at(0), &sent);
    }
    MPI_Barrier(comms.aside);
    for (int i = 0; i < 100 && peer < g_size; i++) {
      MPI_Test(&sent, &done, MPI_STATUS_IGNORE);
      if (!checked(!done)) fail("a synchronous send is complete before its receive begins");
    }
    MPI_Barrier(comms.aside);
    if (peer >= g_size) continue;
    MPI_Recv(in.at(0), 10, MPI_BYTE, peer, 1, comms.at(0), MPI_STATUS_IGNORE);
    MPI_Wait(&sent, MPI_STATUS_IGNORE);
    if (persistent) MPI_Request_free(&sent);
  }
}

// Requests stay when their communicator is freed.
void communicator_freed_early(const Communicators& comms, uint64_t seed) {
  MPI_Comm comm;
  MPI_Request requests[2];
  constexpr size_t kBytes = 100000;
  MPI_Comm_dup(comms.at(0), &comm);
  const int right = (g_rank + 1) % g_size, left = (g_rank + g_size - 1) % g_size;
  Memory out(Where::device, kBytes), in(Where::device, kBytes);
  Bytes got(kBytes);
  out.write(stream(mix(seed, 9, u(g_rank)), kBytes).data());
  MPI_Irecv(in.at(0), kBytes, MPI_BYTE, left, 1, comm, &requests[0]);
  MPI_Isend(out.at(0), kBytes, MPI_BYTE, right, 1, comm, &requests[1]);
  MPI_Comm_free(&comm);
  MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
  in.read(got.data());
  if (!checked(got == stream(mix(seed, 9, u(left)), kBytes))) fail("a communicator that was freed: wrong data");
}

// What a message leaves behind that was cut off, whatever its size, must not be found by a probe.
void cut_off_and_probed(const Communicators& comms) {
  const int right = (g_rank + 1) % g_size, left = (g_rank + g_size - 1) % g_size;
  for (const int bytes : {2, 8, 9, 112, 113, 114, 4096, 5000}) {
    for (const int room : {1, 3, 7, 8, 100}) {
      if (room >= bytes || g_size == 1) continue;  // Open MPI 4.1 tells no truncation of messages to itself
      Memory out(Where::device, 6000), in(Where::host, 6000);
      MPI_Request sent[2];
      MPI_Status status;
      int rc, found = 0;
      MPI_Isend(out.at(0), bytes, MPI_BYTE, right, 1, comms.at(0), &sent[0]);
      rc = MPI_Recv(in.at(0), room, MPI_BYTE, left, 1, comms.at(0), MPI_STATUS_IGNORE);
      if (!checked(class_of(rc) == MPI_ERR_TRUNCATE)) fail("%d bytes in %d: error %d", bytes, room, class_of(rc));
      MPI_Isend(out.at(0), 6000, MPI_BYTE, right, 1, comms.at(0), &sent[1]);
      MPI_Probe(left, 1, comms.at(0), &status);
      MPI_Get_count(&status, MPI_BYTE, &found);
      if (!checked(found == 6000)) fail("a probe says %d bytes of 6000 after %d bytes in %d", found, bytes, room);
      MPI_Recv(in.at(0), 6000, MPI_BYTE, left, 1, comms.at(0), MPI_STATUS_IGNORE);
      MPI_Waitall(2, sent, MPI_STATUSES_IGNORE);
    }
  }
}

// A message that is cut off must not end another one that was matched before it, and is still to be taken.
void cut_off_behind_another(const Communicators& comms) {
  constexpr size_t kBytes = 160;
  const int right = (g_rank + 1) % g_size, left = (g_rank + g_size - 1) % g_size;
  Memory out(Where::device, kBytes), in(Where::device, kBytes), cut(Where::host, kBytes);
  Bytes got(kBytes);
  out.write(stream(mix(10, u(g_rank)), kBytes).data());
  MPI_Request sent[2], received;
  MPI_Status status;
  int bytes = 0;
  for (MPI_Request& r : sent) MPI_Isend(out.at(0), kBytes, MPI_BYTE, right, 1, comms.at(0), &r);
  // When this has come, the two are there as well.
  MPI_Sendrecv(nullptr, 0, MPI_BYTE, right, 2, nullptr, 0, MPI_BYTE, left, 2, comms.at(0), MPI_STATUS_IGNORE);
  MPI_Irecv(in.at(0), kBytes, MPI_BYTE, left, 1, comms.at(0), &received);
  MPI_Recv(cut.at(0), 3, MPI_BYTE, left, 1, comms.at(0), MPI_STATUS_IGNORE);
  MPI_Wait(&received, &status);
  MPI_Get_count(&status, MPI_BYTE, &bytes);
  MPI_Waitall(2, sent, MPI_STATUSES_IGNORE);
  in.read(got.data());
  if (!checked(bytes == static_cast<int>(kBytes) && got == stream(mix(10, u(left)), kBytes)))
    fail("a message before one that was cut off: %d bytes, or wrong data", bytes);
}

// ---- all of it ----

int play(const Options& options, const Communicators& comms, uint64_t seed) {
  Random ours(seed);
  const Round round = draw_round(comms.count(), g_size, Communicators::may, ours);
  if (options.verbose) {
    std::printf("rank %d: seed %llu, %zu messages\n", g_rank, 0ULL + seed, round.messages.size());
    std::fflush(stdout);
  }
  Part part(options, comms, round, seed);
  for (int turn = 0; turn < round.turns; turn++) part.play(turn);
  // ob1 loses a message, of host memory, too, that another thread has matched, but not marked yet, when its receive is
  // cancelled (mca_pml_ob1_recv_request_cancel, Open MPI 4.1 and 5.0).
  if (ours.one_in(4) && options.threads == 1) contest(options, comms, seed);
  return static_cast<int>(round.messages.size()) * round.turns;
}

void play_all(const Options& options, const Communicators& comms, uint64_t seed) {
  use_own_device();
  for (int played = 0; played < options.messages;) played += play(options, comms, seed++);
}

void run(const Options& options) {
  std::vector<std::unique_ptr<Communicators>> comms;
  std::vector<std::thread> threads;
  for (int t = 0; t < options.threads; t++) comms.push_back(std::make_unique<Communicators>());
  if (options.messages > 1) {
    synchronous_waits(*comms[0]);
    for (uint64_t i = 0; i < 5; i++) communicator_freed_early(*comms[0], i);
    cut_off_and_probed(*comms[0]);
    if (g_size > 1) cut_off_behind_another(*comms[0]);
  }
  Options each = options;
  each.messages /= options.threads;
  for (int t = 1; t < options.threads; t++)
    threads.emplace_back([&, t] { play_all(each, *comms[u(t)], options.seed + u(t) * 1000003); });
  play_all(each, *comms[0], options.seed);
  for (std::thread& t : threads) t.join();
  for (const auto& c : comms) c->release();
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  Mpi mpi(argc, argv, options.threads > 1 ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE);
  if (options.threads > 1 && mpi.threads() < MPI_THREAD_MULTIPLE) return checked(true), mpi.finish("matching");
  // Duplicates inherit it. Open MPI's component ucx may take an error to another communicator than the request's.
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  use_own_device();
  if (g_rank == 0)
    std::printf("matching: --seed %llu --messages %d --threads %d\n", 0ULL + options.seed, options.messages,
                options.threads);
  units();
  std::vector<char> room(64 << 20);
  MPI_Buffer_attach(room.data(), static_cast<int>(room.size()));
  run(options);
  void* detached;
  int bytes;
  MPI_Buffer_detach(&detached, &bytes);
  return mpi.finish("matching");
}
