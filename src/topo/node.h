// Which node a process runs on, in the sense that matters here: two processes with equal NodeId can open each other's
// memory through /proc, that is, one kernel (boot id) and one process-id namespace. The parameter host_id makes several
// of one, for tests.
// Thread safety: any thread.
#pragma once
#include <array>
#include <cstdint>
#include <string>

#include "base/status.h"

namespace gpucoll::topo {

using NodeId = std::array<uint8_t, 16>;

// Errors: system, where no descriptor is left to read it by.
Result<NodeId> this_node();
std::string host_name();

}  // namespace gpucoll::topo
