#include "mpi/message_causes.h"

#include <cstdio>
#include <utility>

namespace gpucoll::coll {
namespace {

struct Entry {
  std::atomic<uint64_t> context{0};  // plus 1; 0: free
  ToldCauses told;
};
constexpr size_t kEntries = 256;
Entry the_entries[kEntries];

struct Detail {
  Cause cause = Cause::none;
  char text[256];
};
thread_local Detail noted;

// Returns the last entry for all that have no room.
Entry& entry_of(uint64_t context) noexcept {
  for (size_t i = 0; i + 1 < kEntries; ++i) {
    Entry& entry = the_entries[(context + i) % (kEntries - 1)];
    uint64_t its = entry.context.load(std::memory_order_relaxed);
    if (its == 0 && entry.context.compare_exchange_strong(its, context + 1, std::memory_order_relaxed)) return entry;
    if (its == context + 1) return entry;
  }
  return the_entries[kEntries - 1];
}

}  // namespace

void tell_slow_message(uint64_t context, const char* comm, Cause cause, const char* detail) noexcept {
  char number[64];
  std::snprintf(number, sizeof number, "the communicator of context %llu", static_cast<unsigned long long>(context));
  const bool is_noted = !*detail && std::exchange(noted.cause, Cause::none) == cause;
  tell_cause(entry_of(context).told, cause, "a message", comm && *comm ? comm : number, is_noted ? noted.text : detail);
}

void note_detail(Cause cause, const char* detail) noexcept {
  noted.cause = cause;
  std::snprintf(noted.text, sizeof noted.text, "%s", detail);
}

}  // namespace gpucoll::coll
