// Reads what a program asks of a communicator that it makes (gpucollConfig_t).
#pragma once
#include "base/status.h"
#include "core/comm/comm_share.h"
#include "gpucoll/gpucoll.h"

namespace gpucoll::coll {

struct Configuration {
  bool shares = false;
  bool blocks = true;
  core::CommOptions options;
};

// Return the configuration of a communicator for which nothing is set, and that of one which there is.
// waits_without_end() is what the calling thread has chosen (abi/nccl.h).
Configuration configuration_of_parameters();
Configuration configuration_of(const core::CommShare& share);
bool& waits_without_end() noexcept;

// Returns what the program has set, and the rest from `otherwise`; null sets nothing. Takes configurations of programs
// that were compiled with earlier headers. Errors: invalid_argument.
Result<Configuration> read_configuration(const gpucollConfig_t* config, Configuration otherwise);

}  // namespace gpucoll::coll
