// What gpucoll-perf tells: the table on standard output, and the same as JSON and CSV.
//
// Thread safety: none; used by rank 0 alone. Ownership: a Report owns its files.
#pragma once
#include <cstdint>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "perf/measure.h"
#include "perf/options.h"

namespace gpucoll::perf {

// Where a rank runs. Plain bytes: ranks send it to rank 0.
struct Place {
  char host[64];
  char device[64];  // its name
  int index;
};

struct Heading {
  std::string version, mpi;
  std::string device_kind;  // "cuda" or "emu"
  std::vector<Place> places;
  std::string baseline;  // description; "" for none
  std::string baseline_name;
};

struct Row {
  Call call;
  Timing ours;
  std::optional<Timing> baseline;
  uint64_t wrong = 0;
};

class Report {
 public:
  // Opens the files. Errors: invalid_argument where one cannot be written.
  static Result<Report> create(const Options& options);
  // Once, first.
  void begin(const Heading& heading, const std::vector<Call>& calls);
  void row(const Row& row);
  // Shown on standard error before the row it belongs to.
  void explain(const std::string& example);
  // Once, last: the total, and the JSON file.
  Status finish();
  uint64_t wrong() const { return wrong_; }

 private:
  struct CloseFile {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  using File = std::unique_ptr<std::FILE, CloseFile>;

  explicit Report(const Options& options) : options_(options) {}
  void print_heading(const Heading& heading) const;
  void print_columns() const;

  Options options_;
  File json_file_, csv_file_;
  nlohmann::ordered_json json_;
  std::string baseline_;  // name, or ""
  size_t type_width_ = 4, op_width_ = 2;
  uint64_t wrong_ = 0;
};

}  // namespace gpucoll::perf
