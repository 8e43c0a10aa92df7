// Parameters of tests that run every case of a table with one thread a block, with two, and with three.
#pragma once
#include <gtest/gtest.h>

#include <iterator>
#include <string>
#include <vector>

namespace gpucoll::test {

struct EachCase {
  int which, threads;
};

template <class Cases>
std::vector<EachCase> each_case(const Cases& cases) {
  std::vector<EachCase> parameters;
  for (int which = 0; which < static_cast<int>(std::size(cases)); ++which) {
    for (int threads : {1, 2, 3}) parameters.push_back({which, threads});
  }
  return parameters;
}

template <class Cases>
std::string name_of(const Cases& cases, const EachCase& parameter) {
  return std::string(cases[parameter.which].name) + "_" + std::to_string(parameter.threads);
}

}  // namespace gpucoll::test
