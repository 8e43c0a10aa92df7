// What the environment says to gpucoll beside its parameters.
//
// Thread safety: any thread.
#pragma once

namespace gpucoll {

// Warns of variables that begin with GPUCOLL_ and name no parameter, once in a process.
void warn_of_unknown_variables();

}  // namespace gpucoll
