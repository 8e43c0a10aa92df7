// Which node a process runs on, in the sense that matters here: two processes with equal NodeId can open each other's
// memory through /proc, that is, one kernel (boot id) and one process-id namespace.
// Thread safety: pure.
#pragma once
#include <array>
#include <cstdint>
#include <string>

namespace gpucoll::topo {

using NodeId = std::array<uint8_t, 16>;

NodeId this_node();
std::string host_name();

}  // namespace gpucoll::topo
