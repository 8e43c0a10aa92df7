// The results of an earlier run, read from the JSON that it wrote (docs/formats/perf.md).
//
// Thread safety: immutable once loaded. Ownership: a value.
#pragma once
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "base/status.h"
#include "perf/figures.h"

namespace gpucoll::perf {

class Earlier {
 public:
  // Errors: invalid_argument where the file cannot be read or is none of gpucoll-perf's.
  static Result<Earlier> load(const std::string& path);
  // Whether `heading`, as begin() of a report writes it, is of the same work. Errors: invalid_argument says what
  // differs.
  Status require_same_work(const nlohmann::ordered_json& heading) const;
  std::optional<Was> find(const Call& call) const;

 private:
  Earlier(const std::string& path, nlohmann::ordered_json file) : path_(path), file_(std::move(file)) {}

  std::string path_;
  nlohmann::ordered_json file_;
};

}  // namespace gpucoll::perf
