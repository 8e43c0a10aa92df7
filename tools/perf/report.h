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
#include "perf/earlier.h"
#include "perf/figures.h"
#include "perf/heading.h"
#include "perf/options.h"
#include "perf/table.h"

namespace gpucoll::perf {

class Report {
 public:
  // Reads the earlier run and opens the files, in this order: they may be the same one. Errors: invalid_argument where
  // the one cannot be compared with, or another not be written.
  static Result<Report> create(const Options& options, const Heading& heading, const std::vector<Call>& calls);
  // Once, first.
  Status begin() const;
  void row(Row row);
  // Shown on standard error before the row it belongs to.
  void explain(const std::string& example);
  // Once, last: the totals, and the JSON file.
  Status finish();
  // Rows that have become slower than in the earlier run.
  int slower_rows() const { return slower_rows_; }

 private:
  struct CloseFile {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  using File = std::unique_ptr<std::FILE, CloseFile>;

  Report(const Options& options, const Heading& heading, const std::vector<Call>& calls);
  static Status open(const std::string& path, File* file);
  void print_totals() const;

  Options options_;
  Heading heading_;
  Table table_;
  std::optional<Earlier> earlier_;
  File json_file_, csv_file_;
  nlohmann::ordered_json json_;
  uint64_t wrong_ = 0;
  int slower_rows_ = 0, other_bits_ = 0;
};

}  // namespace gpucoll::perf
