#include "base/observe/trace.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <mutex>
#include <new>
#include <string>

#include "base/boot_id.h"
#include "base/fork.h"
#include "base/log.h"
#include "base/mutant.h"
#include "base/observe/nvtx.h"
#include "base/params.h"
#include "base/system_limits.h"
#include "base/unique_fd.h"

namespace gpucoll::trace {

std::atomic<bool> detail::recording{false};

namespace {

bool shows_ranges = false;  // fixed before `recording` is set

constexpr const char* kWords[] = {
#define GC_ONE(name, words) words,
    GC_TRACED(GC_ONE)
#undef GC_ONE
};

// Is never unmapped: threads may record until the process is gone.
struct File {
  Header* header = nullptr;
  char* texts = nullptr;
  Record* records = nullptr;
  std::mutex mutex;  // of texts
} the_file;

// Known labels by the texts' addresses: found without the lock.
struct Known {
  std::atomic<const char*> text{nullptr};
  std::atomic<uint32_t> label{0};
};
constexpr size_t kKnown = 1024;
Known the_known[kKnown];

Clocks clocks() noexcept {
  timespec real = {};
  clock_gettime(CLOCK_REALTIME, &real);
  return {int64_t{real.tv_sec} * 1'000'000'000 + real.tv_nsec, monotonic_ns()};
}

template <size_t n>
void put(char (&to)[n], const char* text) noexcept {
  std::snprintf(to, n, "%s", text ? text : "");
}

const char* first_of(std::initializer_list<const char*> variables) {
  for (const char* name : variables)
    if (const char* const value = std::getenv(name)) return value;
  return nullptr;
}

int number_of(const char* text, int otherwise) { return text && *text ? std::atoi(text) : otherwise; }

// Open MPI 4's jobs are numbers; a spawned job's lower half differs. PRRTE's end with @ and a number. Slurm's have
// steps, one for each srun.
std::string job() {
  if (const char* const id = std::getenv("OMPI_MCA_ess_base_jobid"))
    return "orte-" + std::to_string(std::strtoull(id, nullptr, 10) >> 16);
  const char *const name = std::getenv("PMIX_NAMESPACE"), *const slurm = std::getenv("SLURM_JOB_ID"),
                    *const step = std::getenv("SLURM_STEP_ID");
  if (!name) return slurm ? std::string(slurm) + "." + (step ? step : "") : "";
  const std::string whole = name;
  return whole.substr(0, whole.find('@'));
}

void describe_process(Header& header) {
  header.pid = getpid();
  header.rank = number_of(first_of({"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "SLURM_PROCID"}), -1);
  header.size = number_of(first_of({"OMPI_COMM_WORLD_SIZE", "SLURM_NTASKS"}), 0);
  gethostname(header.host, sizeof header.host - 1);
  put(header.boot, boot_id().c_str());
  put(header.job, job().c_str());
#define GC_ONE(name, words) words "\n"
  put(header.names, GC_TRACED(GC_ONE));
#undef GC_ONE
  header.start = clocks();
}

// Opens a file that no other process records into, and makes it empty. Where one does, which has the same id in another
// PID namespace or under the same host name, this process takes another name: a mapping whose file is cut ends its
// process. The lock lasts as long as the mapping. Where the file system knows no locks, nobody is asked.
Result<UniqueFd> open_unused(std::string& path) {
  constexpr int kMost = 1000;
  const std::string first = path;
  for (int i = 1; i <= kMost; ++i) {
    UniqueFd fd(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
    if (fd.get() < 0) return Status::error(Code::system, "%s", std::strerror(errno));
    if (flock(fd.get(), LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) {
      if (ftruncate(fd.get(), 0) != 0) return Status::error(Code::system, "%s", std::strerror(errno));
      return fd;
    }
    path = first + "." + std::to_string(i);
  }
  return Status::error(Code::system, "other processes record into files of this name");
}

void use(void* memory, uint64_t capacity) noexcept {
  the_file.header = new (memory) Header{};
  the_file.texts = static_cast<char*>(memory) + kHeaderBytes;
  the_file.records = reinterpret_cast<Record*>(the_file.texts + kTextBytes);
  Header& header = *the_file.header;
  header.header_bytes = kHeaderBytes;
  header.text_bytes = kTextBytes;
  header.record_bytes = sizeof(Record);
  header.capacity = capacity;
  header.text_used = 1;  // the empty one
}

// Without room set aside, a write into the mapping would end the process once the file system is full. Keeps no
// descriptor, as a program may close all there are and open its own.
Status open_file(std::string& path, uint64_t capacity) {
  const uint64_t bytes = kHeaderBytes + kTextBytes + capacity * sizeof(Record);
  if (!fits_file_limit(bytes))
    return Status::error(Code::invalid_usage, "files may not have %llu bytes here (ulimit -f; parameter trace_bytes)",
                         static_cast<unsigned long long>(bytes));
  GC_TRY_AS(const UniqueFd fd, open_unused(path));
  int error = posix_fallocate(fd.get(), 0, static_cast<off_t>(bytes));
  void* memory = MAP_FAILED;
  if (!error) {
    memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
    if (memory == MAP_FAILED) error = errno;
  }
  if (error) {
    unlink(path.c_str());
    return Status::error(Code::system, "%s, with %llu bytes (parameter trace_bytes)", std::strerror(error),
                         static_cast<unsigned long long>(bytes));
  }
  use(memory, capacity);
  describe_process(*the_file.header);
  std::memcpy(the_file.header->magic, kMagic, sizeof kMagic);
  return {};
}

// For ranges alone: the texts and the latest records, which nobody reads, are in memory of this process.
Status open_memory() {
  constexpr uint64_t kCapacity = 64;
  void* const memory = mmap(nullptr, kHeaderBytes + kTextBytes + kCapacity * sizeof(Record), PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return Status::error(Code::system, "%s", std::strerror(errno));
  use(memory, kCapacity);
  return {};
}

void name_categories() noexcept {
  for (uint32_t i = 0; i < std::size(kWords); ++i) nvtx::name_category(i + 1, kWords[i]);
}

// Gives back the room that no record has taken. Threads that are about to write a record find it in the margin.
void tidy_up() noexcept {
  if (!on() || is_forked_child()) return;
  detail::recording.store(false, std::memory_order_relaxed);
  Header& header = *the_file.header;
  header.end = clocks();
  const uint64_t used = std::min(__atomic_load_n(&header.recorded, __ATOMIC_RELAXED), header.capacity);
  const uint64_t page = 4096, margin = 16 * page, all = kHeaderBytes + kTextBytes + header.capacity * sizeof(Record);
  const uint64_t from = (kHeaderBytes + kTextBytes + used * sizeof(Record) + page - 1) / page * page + margin;
  if (from < all) (void)madvise(reinterpret_cast<char*>(&header) + from, all - from, MADV_REMOVE);
}

void open_named_file() noexcept {
  std::string path;
  const Status opened = contained([&]() -> Status {
    const std::string& name = params().trace;
    if (name.empty() || is_forked_child()) return {};
    char host[64] = "?";
    gethostname(host, sizeof host - 1);
    path = name + "." + host + "." + std::to_string(getpid());
    return open_file(path, static_cast<uint64_t>(params().trace_bytes) / sizeof(Record));
  });
  if (opened) return;
  log::write(log::Level::warn,
             "process %d records no trace: it cannot write %s: %s; set the parameter trace to a file that it can write",
             static_cast<int>(getpid()), path.c_str(), opened.what());
}

void start_once() noexcept {
  open_named_file();
  shows_ranges = !is_forked_child() && nvtx::open();
  if (shows_ranges) name_categories();
  if (shows_ranges && !the_file.header) open_memory().ignore();
  if (!the_file.header) return;
  claim_process();
  pthread_atfork(nullptr, nullptr, [] {
    if (!gc_mutant(240)) detail::recording.store(false, std::memory_order_relaxed);
  });
  std::atexit([] { tidy_up(); });
  detail::recording.store(true, std::memory_order_relaxed);
}

// REQUIRES: the mutex. Returns 0, the empty text, where there is no room.
uint32_t append(const char* text) noexcept {
  Header& header = *the_file.header;
  const uint64_t length = std::strlen(text) + 1, at = header.text_used;
  if (at + length > kTextBytes) return 0;
  std::memcpy(the_file.texts + at, text, length);
  __atomic_store_n(&header.text_used, at + length, __ATOMIC_RELEASE);  // partner: the reader of the file
  return static_cast<uint32_t>(at);
}

// REQUIRES: the mutex.
uint32_t find_or_append(const char* text) noexcept {
  const char* const end = the_file.texts + the_file.header->text_used;
  for (const char* each = the_file.texts; each < end; each += std::strlen(each) + 1)
    if (!std::strcmp(each, text)) return static_cast<uint32_t>(each - the_file.texts);
  return append(text);
}

uint32_t this_thread() noexcept {
  thread_local uint32_t id = 0;
  if (id) return id;
  id = static_cast<uint32_t>(gettid());
  char name[32] = "", line[64];
  pthread_getname_np(pthread_self(), name, sizeof name);
  std::snprintf(line, sizeof line, "thread\t%u\t%s", id, name);
  std::lock_guard lock(the_file.mutex);
  append(line);
  return id;
}

Record& record_at(uint64_t number) noexcept { return the_file.records[(number - 1) % the_file.header->capacity]; }

// Returns 0 where this process does not record. Two writers meet in one record where one of them is a whole file
// behind; the reader then sees a mixture.
uint64_t write(int64_t begin_ns, int64_t duration_ns, const Fields& fields) noexcept {
  if (!on()) return 0;
  const uint32_t thread = this_thread();
  const uint64_t number = __atomic_add_fetch(&the_file.header->recorded, 1, __ATOMIC_RELAXED);
  Record& record = record_at(number);
  __builtin_prefetch(&record_at(number + 1), 1);  // else the exchange of the next one waits for its cache line
  (void)__atomic_exchange_n(&record.sequence, 0, __ATOMIC_ACQ_REL);  // what follows stays behind it
  record.begin_ns = begin_ns;
  __atomic_store_n(&record.duration_ns, duration_ns, __ATOMIC_RELAXED);
  record.group = fields.group;
  record.number = fields.number;
  record.bytes = fields.bytes;
  record.what = static_cast<uint16_t>(fields.what);
  __atomic_store_n(&record.way, static_cast<uint16_t>(fields.way), __ATOMIC_RELAXED);
  record.label = fields.label;
  record.thread = thread;
  record.peer = fields.peer;
  __atomic_store_n(&record.sequence, number, __ATOMIC_RELEASE);  // partner: the reader of the file
  return number;
}

void end_record(uint64_t number, Way way) noexcept {
  Record& record = record_at(number);
  if (__atomic_load_n(&record.sequence, __ATOMIC_RELAXED) != number) return;
  __atomic_store_n(&record.way, static_cast<uint16_t>(way), __ATOMIC_RELAXED);
  const int64_t duration = monotonic_ns() - record.begin_ns;
  __atomic_store_n(&record.duration_ns, duration, __ATOMIC_RELEASE);  // partner: the reader of the file
}

void complete_record(uint64_t number, const Fields& fields) noexcept {
  Record& record = record_at(number);
  if (__atomic_load_n(&record.sequence, __ATOMIC_RELAXED) != number) return;
  __atomic_store_n(&record.peer, fields.peer, __ATOMIC_RELAXED);
  __atomic_store_n(&record.number, fields.number, __ATOMIC_RELAXED);
  __atomic_store_n(&record.bytes, fields.bytes, __ATOMIC_RELAXED);
}

uint32_t category_of(const Fields& fields) noexcept { return static_cast<uint32_t>(fields.what) + 1; }

// Holds the text of a range: the function's name, or what happens, with the rank or the thing that it is about.
class RangeText {
 public:
  explicit RangeText(const Fields& fields) noexcept {
    const char *const words = kWords[static_cast<size_t>(fields.what)], *const label = the_file.texts + fields.label;
    text_ = fields.label ? label : words;
    if (fields.what == What::call || fields.what == What::request) return;
    if (fields.what == What::message && fields.peer >= 0)
      std::snprintf(own_, sizeof own_, "%s, rank %d", label, fields.peer);
    else if (fields.label)
      std::snprintf(own_, sizeof own_, "%s: %s", words, label);
    else if (fields.peer >= 0)
      std::snprintf(own_, sizeof own_, "%s rank %d", words, fields.peer);
    if (fields.label || fields.peer >= 0) text_ = own_;
  }
  const char* get() const noexcept { return text_; }

 private:
  const char* text_;
  char own_[96];
};

}  // namespace

void start() noexcept {
  static std::once_flag once;
  std::call_once(once, start_once);
}

uint32_t label(const char* text) noexcept {
  const size_t hash = reinterpret_cast<uintptr_t>(text) * 0x9E3779B97F4A7C15u >> 48;
  for (size_t i = 0; i < 8; ++i) {
    Known& known = the_known[(hash + i) % kKnown];
    // Acquire: partner is the release below.
    const char* const its = known.text.load(std::memory_order_acquire);
    if (its == text) return known.label.load(std::memory_order_relaxed);
    if (its) continue;
    std::lock_guard lock(the_file.mutex);
    if (known.text.load(std::memory_order_relaxed)) break;  // another thread's has come there
    known.label.store(find_or_append(text), std::memory_order_relaxed);
    known.text.store(text, std::memory_order_release);
    return known.label.load(std::memory_order_relaxed);
  }
  return copied_label(text);
}

uint32_t copied_label(const char* text) noexcept {
  std::lock_guard lock(the_file.mutex);
  return find_or_append(text);
}

void name_group(uint64_t group, int rank, int size, const char* name) noexcept {
  char line[192];
  std::snprintf(line, sizeof line, "group\t%llu\t%d\t%d\t%s", static_cast<unsigned long long>(group), rank, size, name);
  copied_label(line);
}

void add(int64_t begin_ns, const Fields& fields) noexcept {
  const uint64_t number = write(begin_ns, monotonic_ns() - begin_ns, fields);
  if (shows_ranges && number && fields.what == What::slow) nvtx::mark(category_of(fields), RangeText(fields).get());
}

uint64_t begin(const Fields& fields) noexcept {
  const uint64_t number = write(monotonic_ns(), kOpen, fields);
  if (shows_ranges && number) nvtx::push(category_of(fields), RangeText(fields).get(), fields.bytes);
  return number;
}

Ongoing begin_ongoing(int64_t begin_ns, const Fields& fields) noexcept {
  Ongoing ongoing = {.record = write(begin_ns, kOpen, fields)};
  if (shows_ranges && ongoing.record)
    ongoing.range = nvtx::start(category_of(fields), RangeText(fields).get(), fields.bytes);
  return ongoing;
}

void end(uint64_t number, Way way) noexcept {
  if (!number || !on()) return;
  if (shows_ranges) nvtx::pop();
  end_record(number, way);
}

void end(const Ongoing& ongoing, Way way) noexcept {
  if (!ongoing.record || !on()) return;
  if (ongoing.range) nvtx::end(ongoing.range);
  end_record(ongoing.record, way);
}

void end(const Ongoing& ongoing, const Fields& fields) noexcept {
  if (!ongoing.record || !on()) return;
  complete_record(ongoing.record, fields);
  end(ongoing, fields.way);
}

}  // namespace gpucoll::trace
