#include "coll/match/call_id.h"

namespace gpucoll::coll {

const char* function_name(uint32_t function) {
#define GC_FUNCTION(name, text) text,
  static constexpr const char* kNames[] = {"no collective", GC_BOARD_FUNCTIONS(GC_FUNCTION)};
#undef GC_FUNCTION
  const uint32_t plain = function & ~uint32_t{GC_PERSISTENT};
  return plain < GC_FUNCTION_end ? kNames[plain] : kNames[0];
}

const char* name_of(const CallId& place) {
#define GC_FUNCTION(name, text) "MPI_I" #name,
  static constexpr const char* kNonblocking[] = {"no collective", GC_BOARD_FUNCTIONS(GC_FUNCTION)};
#undef GC_FUNCTION
#define GC_FUNCTION(name, text) text "_init",
  static constexpr const char* kMade[] = {"no collective", GC_BOARD_FUNCTIONS(GC_FUNCTION)};
#undef GC_FUNCTION
#define GC_FUNCTION(name, text) "a start of " text "_init",
  static constexpr const char* kStarted[] = {"no collective", GC_BOARD_FUNCTIONS(GC_FUNCTION)};
#undef GC_FUNCTION
  const uint32_t plain = place.function & ~uint32_t{GC_PERSISTENT};
  if (plain >= GC_FUNCTION_end || place.order == GC_ORDER_BLOCKING || place.order == GC_ORDER_NEIGHBORS)
    return function_name(place.function);
  if (place.order == kStarts) return kStarted[plain];
  return place.function & GC_PERSISTENT ? kMade[plain] : kNonblocking[plain];
}

}  // namespace gpucoll::coll
