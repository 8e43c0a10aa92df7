// Looks at what this machine lacks for gpucoll, and says how to mend it.
//
// Thread safety: none; starts ompi_info, and opens devices as gather() does.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace gpucoll::info {

enum class Grade { good, note, warning, fault };
struct Finding {
  Grade grade;
  std::string what, cure;  // no cure where nothing needs one
};

// facts: of gather().
std::vector<Finding> check_machine(const nlohmann::ordered_json& facts);
Grade worst_of(const std::vector<Finding>& findings);
// A line for each finding, and one for each cure. color: the words are in the terminal's colours.
std::string as_text(const std::vector<Finding>& findings, bool color);

}  // namespace gpucoll::info
