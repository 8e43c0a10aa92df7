// The table on standard output: a list of columns, chosen by the options.
//
// Thread safety: none; used by rank 0 alone.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "perf/figures.h"
#include "perf/options.h"

namespace gpucoll::perf {

struct Column {
  std::string title, unit;
  size_t width;
  std::function<std::string(const Row&, const Figures&)> text;
};

class Table {
 public:
  // `baseline`: its name, or "".
  Table(const Options& options, const std::string& baseline, const std::vector<Call>& calls);
  void print_titles() const;
  void print(const Row& row, const Figures& figures) const;

 private:
  void add(const std::string& title, const std::string& unit, size_t width,
           std::function<std::string(const Row&, const Figures&)> text);
  void add_number(const std::string& title, const std::string& unit, size_t width, int decimals,
                  std::function<double(const Row&, const Figures&)> number);
  void add_call(const std::vector<Call>& calls);
  void add_times(const Options& options);
  void add_overlap();
  void add_result(bool checked);
  void add_baseline(const Options& options, const std::string& name);
  void add_earlier(double tolerance_percent);

  std::vector<Column> columns_;
};

}  // namespace gpucoll::perf
