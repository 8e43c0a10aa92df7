// MPI-IO on device memory: each function that reads or writes data gives what it gives for host memory, over Open MPI's
// OMPIO and over ROMIO. The files lie in a directory of their own, which is removed.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "files_functions.h"
#include "files_plans.h"

namespace {
using namespace files;

// ---- one call ----

// Which ranks pass device memory.
enum class Kinds { device, mixed };
Where where_of(Kinds kinds, int turn) {
  return kinds == Kinds::device || (g_rank + turn) % 2 == 0 ? Where::device : Where::host;
}

int count_of(const MPI_Status& status) {
  int bytes = -1;
  MPI_Get_elements(&status, MPI_BYTE, &bytes);
  return bytes;
}

// ROMIO leaves the status of a call without data as it is.
MPI_Status nothing() {
  MPI_Status status{};
  MPI_Status_set_elements(&status, MPI_BYTE, 0);
  return status;
}

std::string title(const Operation& op, const Plan& plan, Where where) {
  return std::string(op.name) + " of " + std::to_string(plan.count(g_rank)) + " " + plan.shape.name + " in " +
         name_of(where) + " memory" + (plan.interleaved ? ", interleaved" : "");
}

void expect(bool right, const std::string& what, const char* why, long is, long should) {
  if (!checked(right)) fail("%s: %s %ld instead of %ld", what.c_str(), why, is, should);
}

// This rank's part of a call.
class Access {
 public:
  Access(const Operation& op, const Plan& plan, Where where)
      : op_(op),
        plan_(plan),
        what_(title(op, plan, where)),
        stream_(stream_of(g_rank, plan.bytes(g_rank))),
        type_(plan.shape),
        buffer_(where, plan.shape, plan.count(g_rank)) {}
  const std::string& what() const { return what_; }
  void set() { buffer_.set(stream_); }
  // Makes the call, and expects that the buffer has the whole stream since, and nothing else has changed.
  void call(MPI_File file, const char* differing) {
    MPI_Status status = nothing();
    const int rc = op_.call(file, plan_.offset(g_rank), buffer_.data(), plan_.count(g_rank), type_.get(), &status);
    expect(rc == MPI_SUCCESS, what_, "class", class_of(rc), MPI_SUCCESS);
    const int count = count_of(status);
    expect(count == static_cast<int>(stream_.size()), what_, "count", count, static_cast<long>(stream_.size()));
    const ptrdiff_t differs = buffer_.differs(stream_, stream_.size());
    expect(differs == -1, what_, differing, differs, -1);
  }

 private:
  const Operation& op_;
  const Plan& plan_;
  const std::string what_;
  const Bytes stream_;
  const Type type_;
  Buffer buffer_;
};

void writes(const std::string& path, MPI_File file, const Operation& op, const Plan& plan, Where where) {
  Access access(op, plan, where);
  access.set();
  if (g_rank == 0 && truncate(path.c_str(), 0) != 0) fail("%s cannot be emptied", path.c_str());
  MPI_Barrier(MPI_COMM_WORLD);
  access.call(file, "changes its buffer at");
  MPI_Barrier(MPI_COMM_WORLD);
  const Bytes found = contents(path);
  expect(found.size() == plan.file_bytes(), access.what(), "bytes in the file", static_cast<long>(found.size()),
         static_cast<long>(plan.file_bytes()));
  for (int r = 0; r < g_size; ++r) {
    const long wrong = plan.wrong_in(found, r);
    expect(wrong == -1, access.what(), ("wrong byte of rank " + std::to_string(r) + " at").c_str(), wrong, -1);
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

void reads(MPI_File file, const Operation& op, const Plan& plan, Where where) {
  Access(op, plan, where).call(file, "wrong byte at");
}

void every_function(const Folder& folder, const Plan& plan, Kinds kinds) {
  const auto is_meant = [&](const Operation& op) { return works(op) && !(op.shares && plan.interleaved); };
  const std::string path = folder.of("every" + std::to_string(++g_round));
  const File file(path, MPI_MODE_CREATE | MPI_MODE_RDWR);
  plan.set_view(file.get());
  int turn = 0;
  for (const Operation& op : kWrites)
    if (is_meant(op)) writes(path, file.get(), op, plan, where_of(kinds, ++turn));
  if (g_rank == 0) fill(path, plan.file());
  MPI_Barrier(MPI_COMM_WORLD);
  for (const Operation& op : kReads)
    if (is_meant(op)) reads(file.get(), op, plan, where_of(kinds, ++turn));
}

void every_function(const Folder& folder) {
  for (const Shape& shape : kShapes)
    for (const bool interleaved : {false, true}) every_function(folder, Plan{shape, 37, interleaved}, Kinds::device);
  every_function(folder, Plan{kShapes[2], 0, false}, Kinds::device);
  every_function(folder, Plan{kShapes[2], 41, false}, Kinds::mixed);
  static const Shape large = {"large pieces", {{0, 40001}, {40011, 7}}, 0, 40020};
  every_function(folder, Plan{large, 4, false}, Kinds::device);
}

// ---- reads beyond the end of the file ----

// A read leaves bytes in its buffer, and a count in its status.
struct Outcome {
  Bytes image;
  int count;
};

Outcome read_short(MPI_File file, const Operation& op, const Plan& plan, Where where) {
  const Type type(plan.shape);
  Buffer buffer(where, plan.shape, plan.count(g_rank));
  MPI_Status status = nothing();
  op.call(file, plan.offset(g_rank), buffer.data(), plan.count(g_rank), type.get(), &status);
  MPI_Barrier(MPI_COMM_WORLD);
  return {buffer.image(), count_of(status)};
}

// The file ends within the data of the last rank. What is beyond remains as it was in memory.
void short_reads(const Folder& folder) {
  const std::string path = folder.of("short");
  for (const Shape& shape : kShapes) {
    const Plan plan{shape, 29, false};
    const size_t end = plan.bytes(g_size - 1) / 3 + 1, mine = g_rank == g_size - 1 ? end : plan.bytes(g_rank);
    Bytes bytes = plan.file();
    bytes.resize(static_cast<size_t>(plan.offset(g_size - 1)) + end);
    if (g_rank == 0) fill(path, bytes);
    MPI_Barrier(MPI_COMM_WORLD);
    Buffer should(Where::host, shape, plan.count(g_rank));
    should.set(Bytes(stream_of(g_rank, mine)));
    const File file(path, MPI_MODE_RDONLY);
    for (const Operation& op : kReads) {
      if (!may_be_short(op)) continue;
      const Outcome host = read_short(file.get(), op, plan, Where::host);
      const Outcome device = read_short(file.get(), op, plan, Where::device);
      const std::string what = "short " + title(op, plan, Where::device);
      expect(device.count == host.count, what, "count", device.count, host.count);
      // OMPIO's collective reads, and ROMIO's of types with gaps, write more than they read.
      if (op.collective || (g_romio && shape.runs.size() > 1)) continue;
      expect(host.image == should.image(), what, "is not short on the host", 0, 1);
      if (!checked(device.image == host.image)) fail("%s: another image than host memory's", what.c_str());
    }
  }
}

// ---- several at once ----

// One part of a file for each call that is under way, in one of two files; memory of both kinds.
class UnderWay {
 public:
  static constexpr int kCalls = 6;
  UnderWay(const Folder& folder, const Begin& begin) : folder_(folder), begin_(begin), shape_(kShapes[2]) {
    for (int i = 0; i < kCalls; ++i)
      buffers_.push_back(std::make_unique<Buffer>(i % 3 == 2 ? Where::host : Where::device, shape_, kCount + i));
  }
  void run() {
    for (int half = 0; half < 2; ++half)
      if (g_rank == 0 && begin_.reads) fill(path(half), file(half));
    MPI_Barrier(MPI_COMM_WORLD);
    {
      const File first(path(0), MPI_MODE_CREATE | MPI_MODE_RDWR), second(path(1), MPI_MODE_CREATE | MPI_MODE_RDWR);
      begin_all(first.get(), second.get());
    }
    MPI_Barrier(MPI_COMM_WORLD);
    for (int half = 0; half < 2 && !begin_.reads; ++half)
      if (!checked(contents(path(half)) == file(half))) fail("several %s: wrong file %d", begin_.name, half);
    MPI_Barrier(MPI_COMM_WORLD);
  }

 private:
  static constexpr int kCount = 51;
  std::string path(int half) const { return folder_.of("several" + std::to_string(half)); }
  size_t bytes(int i) const { return static_cast<size_t>((kCount + i) * shape_.bytes()); }
  Bytes stream(int rank, int i) const { return stream_of(rank * kCalls + i, bytes(i)); }
  // All ranks' data of a call lie behind those of the call before, of the same file.
  MPI_Offset offset(int rank, int i) const {
    size_t sum = static_cast<size_t>(rank) * bytes(i);
    for (int j = i % 2; j < i; j += 2) sum += bytes(j) * static_cast<size_t>(g_size);
    return static_cast<MPI_Offset>(sum);
  }
  Bytes file(int half) const {
    Bytes all;
    for (int i = half; i < kCalls; i += 2)
      for (int r = 0; r < g_size; ++r) {
        const Bytes part = stream(r, i);
        all.insert(all.end(), part.begin(), part.end());
      }
    return all;
  }
  // Ranks begin one after another: each has a message of the one before, which has begun all. Types are freed early.
  void begin_all(MPI_File first, MPI_File second) {
    MPI_Request requests[kCalls];
    MPI_Status statuses[kCalls];
    int token = 0;
    if (g_rank > 0) MPI_Recv(&token, 1, MPI_INT, g_rank - 1, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int i = 0; i < kCalls; ++i) {
      Type type(shape_);
      if (!begin_.reads) buffers_[static_cast<size_t>(i)]->set(stream(g_rank, i));
      const int rc = begin_.call(i % 2 ? second : first, offset(g_rank, i), buffers_[static_cast<size_t>(i)]->data(),
                                 kCount + i, type.get(), &requests[i]);
      expect(rc == MPI_SUCCESS, begin_.name, "several: class", class_of(rc), MPI_SUCCESS);
    }
    if (g_rank + 1 < g_size) MPI_Send(&token, 1, MPI_INT, g_rank + 1, 7, MPI_COMM_WORLD);
    const int ended = MPI_Waitall(kCalls, requests, statuses);
    expect(ended == MPI_SUCCESS, begin_.name, "several: MPI_Waitall's class", class_of(ended), MPI_SUCCESS);
    for (int i = 0; i < kCalls; ++i) look_at(i, statuses[i]);
  }
  void look_at(int i, const MPI_Status& status) {
    const int count = count_of(status);
    expect(count == static_cast<int>(bytes(i)), begin_.name, "several: count", count, static_cast<long>(bytes(i)));
    const ptrdiff_t differs = buffers_[static_cast<size_t>(i)]->differs(stream(g_rank, i), bytes(i));
    expect(differs == -1, begin_.name, "several: wrong byte at", differs, -1);
  }
  const Folder& folder_;
  const Begin& begin_;
  const Shape& shape_;
  std::vector<std::unique_ptr<Buffer>> buffers_;
};

void several_at_once(const Folder& folder) {
  for (const Begin& begin : kBegins) {
    if (g_romio && begin.collective) continue;
    ++g_round;
    UnderWay(folder, begin).run();
  }
}

// Between begin and end of a split collective, on two files at once, the ranks exchange messages and another file is
// written.
void split_collectives(const Folder& folder) {
  const Plan plan{kShapes[3], 23, false};
  const Type type(plan.shape);
  const int count = plan.count(g_rank);
  const Bytes stream = stream_of(g_rank, plan.bytes(g_rank));
  if (g_rank == 0) fill(folder.of("split0"), plan.file());
  MPI_Barrier(MPI_COMM_WORLD);
  Buffer read(Where::device, plan.shape, count), written(Where::device, plan.shape, count),
      other(Where::host, plan.shape, count);
  written.set(stream);
  other.set(stream);
  {
    const File from(folder.of("split0"), MPI_MODE_RDONLY);
    const File to(folder.of("split1"), MPI_MODE_CREATE | MPI_MODE_RDWR);
    const File beside(folder.of("split2"), MPI_MODE_CREATE | MPI_MODE_RDWR);
    MPI_File_read_at_all_begin(from.get(), plan.offset(g_rank), read.data(), count, type.get());
    MPI_File_write_at_all_begin(to.get(), plan.offset(g_rank), written.data(), count, type.get());
    MPI_File_write_at_all_begin(beside.get(), plan.offset(g_rank), other.data(), count, type.get());
    int sum = 0;
    MPI_Allreduce(&count, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Status status = nothing();
    MPI_File_write_at_all_end(beside.get(), other.data(), &status);
    MPI_File_write_at_all_end(to.get(), written.data(), &status);
    expect(count_of(status) == static_cast<int>(stream.size()), "split write", "count", count_of(status),
           static_cast<long>(stream.size()));
    MPI_File_read_at_all_end(from.get(), read.data(), MPI_STATUS_IGNORE);
  }
  const ptrdiff_t differs = read.differs(stream, stream.size());
  expect(differs == -1, "split read", "wrong byte at", differs, -1);
  MPI_Barrier(MPI_COMM_WORLD);
  for (const char* const name : {"split1", "split2"})
    if (!checked(contents(folder.of(name)) == plan.file())) fail("split writes: wrong file %s", name);
}

// ---- other buffers ----

// A type with absolute addresses leads to memory of the device and of the host.
// Address space for all between them must be had, so they lie in the same region.
void absolute_addresses(const Folder& folder) {
  constexpr size_t kPart = 1001;
  const std::string path = folder.of("absolute" + std::to_string(g_rank));
  Memory device(Where::device, kPart);
  void* const host = mmap(nullptr, kPart, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (host == MAP_FAILED) return fail("no memory");
  const Bytes stream = stream_of(g_rank, 2 * kPart);
  device.write(stream.data());
  std::memcpy(host, stream.data() + kPart, kPart);
  int lengths[2] = {kPart, kPart};
  MPI_Aint places[2];
  MPI_Get_address(device.at(0), &places[0]);
  MPI_Get_address(host, &places[1]);
  MPI_Datatype type;
  MPI_Type_create_hindexed(2, lengths, places, MPI_BYTE, &type);
  MPI_Type_commit(&type);
  Bytes read(2 * kPart);
  {
    const File file(path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_COMM_SELF);
    MPI_File_write(file.get(), MPI_BOTTOM, 1, type, MPI_STATUS_IGNORE);
    if (!checked(contents(path) == stream)) fail("absolute addresses: wrong file");
    device.write(read.data());
    std::memset(host, 0, kPart);
    MPI_Request request;
    MPI_File_iread_at(file.get(), 0, MPI_BOTTOM, 1, type, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  }
  device.read(read.data());
  std::memcpy(read.data() + kPart, host, kPart);
  munmap(host, kPart);
  if (!checked(read == stream)) fail("absolute addresses: wrong data");
  MPI_Type_free(&type);
}

// The component converts the data, for which it needs their type.
void external_representation(const Folder& folder) {
  Bytes found[2];
  std::vector<int> values(99);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<int>(mix(i, static_cast<uint64_t>(g_rank)));
  for (const Where where : {Where::host, Where::device}) {
    const std::string path = folder.of(std::string("external_") + name_of(where) + std::to_string(g_rank));
    Memory memory(where, values.size() * sizeof(int));
    memory.write(values.data());
    const File file(path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_COMM_SELF);
    const int set = class_of(MPI_File_set_view(file.get(), 0, MPI_INT, MPI_INT, "external32", MPI_INFO_NULL));
    if (!checked(set == MPI_SUCCESS)) fail("external32 is of class %d", set);
    MPI_File_write_at(file.get(), 0, memory.at(0), 99, MPI_INT, MPI_STATUS_IGNORE);
    found[where == Where::device] = contents(path);
    const std::vector<int> none(99, 0);
    memory.write(none.data());
    MPI_File_read_at(file.get(), 0, memory.at(0), 99, MPI_INT, MPI_STATUS_IGNORE);
    std::vector<int> got(99);
    memory.read(got.data());
    if (!checked(got == values)) fail("external32 in %s memory: wrong data", name_of(where));
  }
  if (!checked(found[0] == found[1])) fail("external32: another file from device memory");
}

// ---- errors ----

int g_handled = 0;
void count_error(MPI_File*, int*, ...) { ++g_handled; }

// Writes to a file that is read only give the error that they give for host memory, to the handler of the file.
void errors(const Folder& folder) {
  const Plan plan{kShapes[2], 3, false};
  const Type type(plan.shape);
  if (g_rank == 0) fill(folder.of("errors"), plan.file());
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Errhandler handler;
  MPI_File_create_errhandler(count_error, &handler);
  for (const Operation& op : kWrites) {
    // OMPIO's blocking collectives tell no error, on host memory, too.
    if (op.shares || !works(op) || (op.collective && !is_nonblocking(op) && !is_split(op))) continue;
    int classes[2], handled[2];
    for (const Where where : {Where::host, Where::device}) {
      const File file(folder.of("errors"), MPI_MODE_RDONLY);
      MPI_File_set_errhandler(file.get(), handler);
      Buffer buffer(where, plan.shape, plan.count(g_rank));
      g_handled = 0;
      MPI_Status status = nothing();
      const int rc = op.call(file.get(), plan.offset(g_rank), buffer.data(), plan.count(g_rank), type.get(), &status);
      classes[where == Where::device] = class_of(rc);
      handled[where == Where::device] = g_handled;
    }
    expect(classes[0] != MPI_SUCCESS && classes[1] == classes[0], op.name, "read only: class", classes[1], classes[0]);
    expect(handled[0] > 0 && handled[1] == handled[0], op.name, "read only: calls of the handler", handled[1],
           handled[0]);
  }
  MPI_Errhandler_free(&handler);
}

// ---- requests that the program frees early ----

// Makes progress until something is so.
template <class Condition>
void await(const char* what, const Condition& is_so) {
  int found, turns = 0;
  while (!is_so() && ++turns < 5000) {
    MPI_Iprobe(MPI_ANY_SOURCE, 9, MPI_COMM_WORLD, &found, MPI_STATUS_IGNORE);
    usleep(1000);
  }
  if (!checked(turns < 5000)) fail("%s never ends", what);
}

void freed_requests(const Folder& folder) {
  const Shape& shape = kShapes[2];
  const Type type(shape);
  const std::string path = folder.of("freed" + std::to_string(g_rank));
  const Bytes stream = stream_of(g_rank, static_cast<size_t>(33 * shape.bytes()));
  Buffer from(Where::device, shape, 33), to(Where::device, shape, 33);
  from.set(stream);
  const File file(path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_COMM_SELF);
  MPI_Request request;
  MPI_File_iwrite_at(file.get(), 0, from.data(), 33, type.get(), &request);
  MPI_Request_free(&request);
  await("a freed MPI_File_iwrite_at", [&] { return contents(path) == stream; });
  MPI_File_iread_at(file.get(), 0, to.data(), 33, type.get(), &request);
  MPI_Request_free(&request);
  await("a freed MPI_File_iread_at", [&] { return to.differs(stream, stream.size()) == -1; });
}

int g_types_deleted = 0;

int count_deleted(MPI_Datatype, int, void*, void*) {
  ++g_types_deleted;
  return MPI_SUCCESS;
}

// The program frees the type of a request that is under way. Open MPI tells it by an attribute when the type ends.
void freed_type(const Folder& folder) {
  const Shape& shape = kShapes[2];
  Buffer buffer(Where::device, shape, 9);
  const File file(folder.of("type" + std::to_string(g_rank)), MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_COMM_SELF);
  int key;
  MPI_Type_create_keyval(MPI_TYPE_NULL_COPY_FN, count_deleted, &key, nullptr);
  MPI_Request request;
  {
    const Type type(shape);
    MPI_Type_set_attr(type.get(), key, nullptr);
    MPI_File_iwrite_at(file.get(), 0, buffer.data(), 9, type.get(), &request);
  }
  if (!checked(g_types_deleted == 0)) fail("the type of a request ends before that");
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  if (!checked(g_types_deleted == 1)) fail("the type of a request does not end with that");
  MPI_Type_free_keyval(&key);
}

// The program closes a file without the end of a split collective. Others, which Open MPI makes at the address of that
// one, have nothing to do with its buffer.
void closed_early(const Folder& folder) {
  const std::string path = folder.of("early" + std::to_string(g_rank));
  const Bytes first(1000, 1), second(1000, 2);
  Bytes host(1000, 3), found(1000);
  Memory device(Where::device, first.size());
  fill(path, first);
  {
    const File file(path, MPI_MODE_RDONLY, MPI_COMM_SELF);
    MPI_File_read_at_all_begin(file.get(), 0, device.at(0), 1000, MPI_BYTE);
  }
  device.write(second.data());
  for (int i = 0; i < 4; ++i) {
    const File file(path, MPI_MODE_RDONLY, MPI_COMM_SELF);
    MPI_File_read_at_all_begin(file.get(), 0, host.data(), 1000, MPI_BYTE);
    MPI_File_read_at_all_end(file.get(), host.data(), MPI_STATUS_IGNORE);
  }
  device.read(found.data());
  if (!checked(found == second)) fail("a split collective of a closed file has written");
  if (!checked(host == first)) fail("split collectives behind a closed file: wrong data");
}

// ---- without memory ----

// Rank 0 passes a type that no host memory is large enough for. It gets an error, and the others do not wait for it.
void call_without_memory(const Folder& folder, const Operation& op, const Plan& plan, bool reads) {
  static const Shape far = {"far", {{0, 1}, {ptrdiff_t{1} << 47, 1}}, 0, (ptrdiff_t{1} << 47) + 1};
  const Type type(plan.shape), far_type(far);
  const Bytes stream = stream_of(g_rank, plan.bytes(g_rank));
  Buffer buffer(Where::device, plan.shape, plan.count(g_rank));
  if (!reads) buffer.set(stream);
  const File file(folder.of("without"), MPI_MODE_CREATE | MPI_MODE_RDWR);
  MPI_Status status = nothing();
  const bool fails = g_rank == 0;
  const int count = fails ? 1 : plan.count(g_rank);
  const MPI_Offset at = plan.offset(g_rank);
  const int rc = op.call(file.get(), at, buffer.data(), count, fails ? far_type.get() : type.get(), &status);
  const int wanted = fails ? MPI_ERR_NO_MEM : MPI_SUCCESS;
  expect(class_of(rc) == wanted, op.name, "without memory: class", class_of(rc), wanted);
  const ptrdiff_t differs = buffer.differs(stream, fails && reads ? 0 : stream.size());
  expect(differs == -1, op.name, "without memory: wrong byte at", differs, -1);
}

// Expects that all ranks but the first have written their part of a file that was empty of data.
void expect_written_without_memory(const Folder& folder, const Operation& op, const Plan& plan) {
  const Bytes found = contents(folder.of("without"));
  const auto first = static_cast<ptrdiff_t>(plan.bytes(0));
  if (!checked(std::all_of(found.begin(), found.begin() + first, [](uint8_t byte) { return byte == 0; })))
    fail("%s without memory has written the part of rank 0", op.name);
  for (int r = 1; r < g_size; ++r) {
    const long wrong = plan.wrong_in(found, r);
    expect(wrong == -1, op.name, "without memory: wrong byte in the file at", wrong, -1);
  }
}

void write_without_memory(const Folder& folder, const Operation& op, const Plan& plan) {
  if (g_rank == 0) fill(folder.of("without"), Bytes(plan.file_bytes()));
  MPI_Barrier(MPI_COMM_WORLD);
  call_without_memory(folder, op, plan, false);
  MPI_Barrier(MPI_COMM_WORLD);
  expect_written_without_memory(folder, op, plan);
  MPI_Barrier(MPI_COMM_WORLD);
}

void without_memory() {
  const Folder folder;
  const Plan plan{kShapes[2], 10, false};
  if (g_rank == 0) fill(folder.of("without"), plan.file());
  MPI_Barrier(MPI_COMM_WORLD);
  for (const Operation& op : kReads)
    if (works(op) && !op.shares) call_without_memory(folder, op, plan, true);
  for (const Operation& op : kWrites)
    if (works(op) && !op.shares) write_without_memory(folder, op, plan);
}

void with_one_thread() {
  const Folder folder;
  every_function(folder);
  short_reads(folder);
  several_at_once(folder);
  split_collectives(folder);
  absolute_addresses(folder);
  external_representation(folder);
  errors(folder);
  freed_requests(folder);
  freed_type(folder);
  closed_early(folder);
}

// ---- threads ----

// Each thread has a file of its own, and one of all threads of the rank.
void use_files(const Folder& folder, MPI_File shared, int t) {
  const Shape& shape = kShapes[2];
  const Type type(shape);
  const std::string path = folder.of("thread" + std::to_string(g_rank) + "_" + std::to_string(t));
  constexpr int kCount = 200;
  const size_t bytes = static_cast<size_t>(kCount * shape.bytes());
  const File own(path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_COMM_SELF);
  for (int round = 0; round < 25; ++round) {
    const Bytes stream = stream_of(g_rank * 1000 + t * 100 + round, bytes);
    const MPI_File file = round % 2 ? own.get() : shared;
    const MPI_Offset at = static_cast<MPI_Offset>(bytes) * t;
    const Where where = round % 5 == 4 ? Where::host : Where::device;
    Buffer from(where, shape, kCount), to(where, shape, kCount);
    MPI_Request request;
    from.set(stream);
    if (round % 3 == 0) {
      MPI_File_iwrite_at(file, at, from.data(), kCount, type.get(), &request);
      MPI_Wait(&request, MPI_STATUS_IGNORE);
      MPI_File_iread_at(file, at, to.data(), kCount, type.get(), &request);
      MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else {
      MPI_File_write_at(file, at, from.data(), kCount, type.get(), MPI_STATUS_IGNORE);
      MPI_File_read_at(file, at, to.data(), kCount, type.get(), MPI_STATUS_IGNORE);
    }
    const ptrdiff_t differs = to.differs(stream, bytes);
    if (!checked(differs == -1)) fail("thread %d, round %d: wrong byte at %td", t, round, differs);
  }
}

void with_threads() {
  const Folder folder;
  const File shared(folder.of("threads" + std::to_string(g_rank)), MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_COMM_SELF);
  on_threads(3, [&](int t) { use_files(folder, shared.get(), t); });
}

void one_write() {
  const Folder folder;
  const std::string path = folder.of("one");
  const File file(path, MPI_MODE_CREATE | MPI_MODE_RDWR);
  writes(path, file.get(), kWrites[0], Plan{kShapes[0], 37, false}, Where::device);
}

}  // namespace

// Words: threads; or memory, for calls that cannot be staged, or one, for a single call; and romio, where that runs.
int main(int argc, char** argv) {
  const std::string word = argc > 1 ? argv[1] : "";
  g_romio = argc > 1 && !std::strcmp(argv[argc - 1], "romio");
  void (*const body)() = word == "memory" ? without_memory : word == "one" ? one_write : with_one_thread;
  return main_of(argc, argv, "files", body, with_threads);
}
