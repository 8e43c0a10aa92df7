// Records messages of device memory (docs/formats/trace.md). Where nothing is recorded, the component's table has none
// of these functions in it.
//
// Thread safety: trace_messages() before the component calls anything else; what it puts into the table: any thread.
#pragma once
#include "abi/abi.h"

namespace gpucoll::coll {

void trace_messages(gc_abi* table) noexcept;

}  // namespace gpucoll::coll
