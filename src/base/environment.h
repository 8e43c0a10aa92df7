// The variables of the environment that begin with GPUCOLL_.
//
// Thread safety: any thread.
#pragma once
#include <string>

namespace gpucoll {

struct ParamInfo;

// That of a parameter.
std::string variable_of(const ParamInfo& info);
// Warns of variables that begin with GPUCOLL_ and name no parameter, once in a process. tells: false where another
// process warns for this one, once and for all.
void warn_of_unknown_variables(bool tells = true);

}  // namespace gpucoll
