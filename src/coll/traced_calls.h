// Records the component's calls of the engine. Where nothing is recorded, the table has none of these functions in it,
// and no call pays for them.
//
// Thread safety: trace_calls() before the component calls anything else; what it puts into the table: as there.
#pragma once
#include "abi/abi.h"

namespace gpucoll::coll {

// Puts functions that record each call into the table, in front of those that are there.
void trace_calls(gc_abi* table) noexcept;

}  // namespace gpucoll::coll
