// Runs a case of the differential test and compares all memory with what is expected.
#pragma once
#include <string>

#include "random_case.h"

namespace gpucoll_test {

// "" where all is well, else what went wrong first. Drive::processes: REQUIRES that this process has not used gpucoll.
std::string run_case(const Case& c);

// A smaller case that goes wrong as well, found by leaving out calls and halving counts for at most `seconds`.
Case shrink(const Case& c, int seconds);

}  // namespace gpucoll_test
