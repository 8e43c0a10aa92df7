// Writes what the library does, and when, into a file of this process, from which contrib/trace-report makes a timeline
// of all ranks (docs/formats/trace.md). The parameter `trace` turns it on.
//
// The file is mapped memory that all processes could see, so what has been recorded is in it however the process ends.
// Its size is fixed: the latest records replace the oldest ones. A record costs its caller a look at the clock and a
// cache line; nobody waits for anybody.
//
// Where a tool asks for ranges of NVTX (base/observe/nvtx.h), it gets what begins and ends here as such, with or
// without a file.
//
// Thread safety: any thread; start() before other threads use the library. Forked children record nothing.
#pragma once
#include <atomic>
#include <cstdint>

#include "base/monotonic.h"

namespace gpucoll::trace {

// Lists what records tell of: X(name, words in the timeline).
#define GC_TRACED(X)                         \
  X(call, "call")                            \
  X(request, "request")                      \
  X(group, "group")                          \
  X(wait, "wait for")                        \
  X(order, "wait for the order of launches") \
  X(connect, "connect")                      \
  X(plan, "plan")                            \
  X(launch, "launch")                        \
  X(device, "on the device")                 \
  X(copy, "copy by copy engine")             \
  X(staging, "copy through the host")        \
  X(message, "message")                      \
  X(network, "network step")                 \
  X(slow, "not the fast way")
enum class What : uint16_t {
#define GC_ONE(name, words) name,
  GC_TRACED(GC_ONE)
#undef GC_ONE
};

// How a call ended.
enum class Way : uint16_t { none, on_device, staged, failed };

// A record's fields beside its time. A peer is a rank in the group; -1 is none.
struct Fields {
  What what;
  Way way = Way::none;
  uint32_t label = 0;  // of label()
  int32_t peer = -1;
  uint64_t group = 0;   // the communicator: a number that is equal on all its ranks, and no other communicator has
  uint64_t number = 0;  // of the call, among those of the group that have the same label; of a message: its tag plus 1
  uint64_t bytes = 0;
};

// The formats of the file. All numbers are as this machine's processor stores them.
struct Record {
  uint64_t sequence;              // its number from 1 on, stored last; 0: none, or it is being written
  int64_t begin_ns, duration_ns;  // a duration of kOpen: it has not ended
  uint64_t group, number, bytes;
  uint16_t what, way;
  uint32_t label;
  uint32_t thread;
  int32_t peer;
};
static_assert(sizeof(Record) == 64);

inline constexpr int64_t kOpen = -1;

struct Clocks {
  int64_t realtime_ns, monotonic_ns;  // read together
};

inline constexpr char kMagic[8] = {'G', 'C', 'T', 'R', 'A', 'C', 'E', '1'};
inline constexpr uint64_t kHeaderBytes = 4096, kTextBytes = uint64_t{1} << 18;

// Is followed by the texts, kTextBytes from kHeaderBytes on, and the records.
struct Header {
  char magic[8];
  uint64_t header_bytes, text_bytes, record_bytes, capacity;
  uint64_t recorded;   // how many records there have been: record n is in place (n - 1) % capacity
  uint64_t text_used;  // bytes
  Clocks start, end;   // `end` is 0 where the process has not ended by itself
  int64_t pid;
  int32_t rank, size;                 // in the job; -1, 0: unknown
  char host[64], boot[64], job[128];  // clocks of one boot are one clock; processes of one job belong together
  char names[1024];                   // of What, each on a line
};
static_assert(sizeof(Header) <= kHeaderBytes);

namespace detail {
extern std::atomic<bool> recording;
}

// Returns whether this process records.
inline bool on() noexcept { return __builtin_expect(detail::recording.load(std::memory_order_relaxed), false); }

// Opens the file, at the first call, where the parameter `trace` names one, and asks whether a tool wants ranges. A
// file that cannot be written is told once, in a sentence.
void start() noexcept;

// Returns what stands for a text in records. The first one keeps no text: its characters last as long as the process,
// and nobody changes them. REQUIRES of these and of name_group(): on().
uint32_t label(const char* text) noexcept;
uint32_t copied_label(const char* text) noexcept;
// Says which rank this process has in a group. A thread may have ranks of its own.
void name_group(uint64_t group, int rank, int size, const char* name) noexcept;
// Records what begins now, so that the file has it even where it never ends. Returns the record's number for end(), or
// 0 where this process does not record. The calling thread ends it, and ends before it what it began after it. end()
// does nothing for 0, where a later record has replaced this one, and in a child that was forked in between.
uint64_t begin(const Fields& fields) noexcept;
void end(uint64_t number, Way way = Way::none) noexcept;
// Records what any thread may end, in any order.
struct Ongoing {
  uint64_t record = 0, range = 0;  // 0: none
};
Ongoing begin_ongoing(int64_t begin_ns, const Fields& fields) noexcept;
void end(const Ongoing& ongoing, Way way = Way::none) noexcept;
// Ends it with what was not known when it began: the way, the peer, the number and the bytes of these fields.
void end(const Ongoing& ongoing, const Fields& fields) noexcept;
// Records what began then and ends now, where this process records. Tools see a moment of What::slow, and nothing else.
void add(int64_t begin_ns, const Fields& fields) noexcept;

// Records from its beginning to its end.
class Span {
 public:
  explicit Span(What what, bool wanted = true) noexcept : number_(on() && wanted ? begin({.what = what}) : 0) {}
  ~Span() {
    if (number_) end(number_);
  }
  Span(const Span&) = delete;
  Span& operator=(const Span&) = delete;

 private:
  uint64_t number_;
};

// Records for which rank a caller waits, and from when to when, as it looks at one after the other.
class Waiting {
 public:
  Waiting(uint64_t group, uint64_t number) noexcept : group_(group), number_(number) {}
  ~Waiting() {
    if (record_) end(record_);
  }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;
  void on_rank(int rank) noexcept {
    if (!on() || rank == rank_) return;
    if (record_) end(record_);
    rank_ = rank;
    record_ = begin({.what = What::wait, .peer = rank, .group = group_, .number = number_});
  }

 private:
  uint64_t group_, number_;
  int rank_ = -1;
  uint64_t record_ = 0;
};

}  // namespace gpucoll::trace
