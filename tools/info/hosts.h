// Compares what gpucoll-info --json has found on several hosts: what must be equal on all of them, and whether they
// reach each other.
//
// Thread safety: any.
#pragma once
#include <string>
#include <vector>

#include "base/status.h"
#include "info/check.h"

namespace gpucoll::info {

// Reads documents of gather() from a file, one behind the other, or from all files in a folder and in those below it,
// as mpirun --output-filename makes it. An error names the file, and says what is wrong with it.
Result<std::vector<nlohmann::ordered_json>> read_hosts(const std::string& path);

// A finding for each thing in which hosts differ; one that says that they are alike where there is none.
std::vector<Finding> compare_hosts(const std::vector<nlohmann::ordered_json>& hosts);

}  // namespace gpucoll::info
