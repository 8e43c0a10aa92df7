// A communicator as it usually is: one node, devices that reach each other, by the links that are here, what parameters
// say.
//
// Needs neither devices nor other ranks. Thread safety: reads the parameters.
#pragma once
#include "base/status.h"
#include "core/plan/tuner.h"

namespace gpucoll::tools {

// As core/comm/communicator_connect.cpp makes it. Errors: those of the tuning file.
Result<core::CommProperties> usual_shape(bool emulated, int n_ranks);

}  // namespace gpucoll::tools
