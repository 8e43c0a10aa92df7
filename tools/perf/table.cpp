#include "perf/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace gpucoll::perf {
namespace {

void print_line(std::string line) {
  line.erase(line.find_last_not_of(' ') + 1);
  fmt::print("{}\n", line);
}

// Small messages take less than a microsecond each.
int time_decimals(const Options& options) { return is_message_test(options.collective) ? 2 : 1; }

}  // namespace

Table::Table(const Options& options, const std::string& baseline, const std::vector<Call>& calls) {
  add_call(calls);
  if (options.overlap != OverlapChoice::none)
    add_overlap();
  else
    add_times(options);
  add_result(options.check);
  if (!baseline.empty()) add_baseline(options, baseline);
  if (!options.compare.empty()) add_earlier(options.tolerance);
}

void Table::add(const std::string& title, const std::string& unit, size_t width,
                std::function<std::string(const Row&, const Figures&)> text) {
  columns_.push_back({title, unit, std::max(width, title.size()), std::move(text)});
}

void Table::add_number(const std::string& title, const std::string& unit, size_t width, int decimals,
                       std::function<double(const Row&, const Figures&)> number) {
  add(title, unit, width, [decimals, number = std::move(number)](const Row& row, const Figures& f) {
    return fmt::format("{:.{}f}", number(row, f), decimals);
  });
}

void Table::add_call(const std::vector<Call>& calls) {
  size_t type_width = 4, op_width = 2, shape_width = 0;
  for (const Call& call : calls) {
    type_width = std::max(type_width, std::strlen(info(call.type).name));
    op_width = std::max(op_width, std::strlen(op_text(call)));
    if (call.shape) shape_width = std::max(shape_width, std::strlen(shape_text(call)));
  }
  add("bytes", "", 11, [](const Row& row, const Figures&) { return std::to_string(table_bytes(row.call)); });
  add("count", "", 11, [](const Row& row, const Figures&) { return std::to_string(row.call.count); });
  add("type", "", type_width + 1, [](const Row& row, const Figures&) { return info(row.call.type).name; });
  add("op", "", op_width, [](const Row& row, const Figures&) { return op_text(row.call); });
  if (shape_width > 0)
    add("shape", "", std::max(shape_width, std::strlen("contiguous")),
        [](const Row& row, const Figures&) { return shape_text(row.call); });
}

void Table::add_times(const Options& options) {
  const int decimals = time_decimals(options);
  if (options.latency) {
    add_number("min us", "", 9, decimals, [](const Row&, const Figures& f) { return f.ours.call.min_us; });
    add_number("p50 us", "", 9, decimals, [](const Row&, const Figures& f) { return f.ours.call.median_us; });
    add_number("p90 us", "", 9, decimals, [](const Row&, const Figures& f) { return f.ours.call.p90_us; });
    add_number("p99 us", "", 9, decimals, [](const Row&, const Figures& f) { return f.ours.call.p99_us; });
    add_number("max us", "", 9, decimals, [](const Row&, const Figures& f) { return f.ours.call.max_us; });
    return;
  }
  add_number("median us", "", 10, decimals, [](const Row&, const Figures& f) { return f.ours.call.median_us; });
  if (options.repeat > 1) {
    add_number("least us", "", 9, decimals, [](const Row&, const Figures& f) { return f.medians_us.least; });
    add_number("most us", "", 9, decimals, [](const Row&, const Figures& f) { return f.medians_us.most; });
  } else {
    add_number("min us", "", 9, decimals, [](const Row&, const Figures& f) { return f.ours.call.min_us; });
    add_number("max us", "", 9, decimals, [](const Row&, const Figures& f) { return f.ours.call.max_us; });
  }
  add_number("algbw", "GB/s", 8, 3, [](const Row& row, const Figures& f) { return algbw(row.call, f.ours); });
  add_number("busbw", "GB/s", 8, 3, [](const Row& row, const Figures& f) { return busbw(row.call, f.ours); });
}

void Table::add_overlap() {
  add_number("call us", "", 10, 1, [](const Row&, const Figures& f) { return f.ours.call.median_us; });
  add_number("computing", "us", 10, 1, [](const Row&, const Figures& f) { return f.ours.computing_us; });
  add_number("both", "us", 10, 1, [](const Row&, const Figures& f) { return f.ours.both_us; });
  add_number("hidden", "%", 6, 0, [](const Row&, const Figures& f) { return hidden_percent(f.ours); });
}

void Table::add_result(bool checked) {
  if (checked)
    add("bits", "", 8, [](const Row& row, const Figures&) {
      return row.bits ? fmt::format("{:08x}", *row.bits >> 32) : std::string("-");
    });
  add("wrong", "", 7, [checked](const Row& row, const Figures&) { return checked ? std::to_string(row.wrong) : "-"; });
}

void Table::add_baseline(const Options& options, const std::string& name) {
  const auto number = [this](const std::string& title, const std::string& unit, size_t width, int decimals,
                             auto value) {
    add(title, unit, width, [decimals, value](const Row& row, const Figures& f) {
      return row.with_baseline ? fmt::format("{:.{}f}", value(row, f), decimals) : std::string("-");
    });
  };
  number(name + " us", "", 10, time_decimals(options),
         [](const Row&, const Figures& f) { return f.baseline.call.median_us; });
  if (options.overlap != OverlapChoice::none) {
    number("hidden", "%", 6, 0, [](const Row&, const Figures& f) { return hidden_percent(f.baseline); });
    return;
  }
  if (options.latency)
    number("p99 us", "", 9, time_decimals(options),
           [](const Row&, const Figures& f) { return f.baseline.call.p99_us; });
  else
    number("busbw", "GB/s", 8, 3, [](const Row& row, const Figures& f) { return busbw(row.call, f.baseline); });
  number("ratio", "", 6, 2, [](const Row&, const Figures& f) { return f.ratio; });
  if (options.repeat == 1) return;
  number("least", "", 6, 2, [](const Row&, const Figures& f) { return f.ratios.least; });
  number("most", "", 6, 2, [](const Row&, const Figures& f) { return f.ratios.most; });
}

void Table::add_earlier(double tolerance_percent) {
  add("was us", "", 10, [](const Row& row, const Figures&) {
    return row.was ? fmt::format("{:.1f}", row.was->median_us) : std::string("-");
  });
  add("ratio", "", 6, [](const Row& row, const Figures& f) {
    return row.was ? fmt::format("{:.2f}", speedup(row, f)) : std::string("-");
  });
  add("", "", 6, [tolerance_percent](const Row& row, const Figures& f) {
    return slower(row, f, tolerance_percent) ? "slower" : "";
  });
  add("", "", 10, [](const Row& row, const Figures&) { return other_bits(row) ? "other bits" : ""; });
}

void Table::print_titles() const {
  std::string titles = "#", units = "#";
  for (size_t i = 0; i < columns_.size(); ++i) {
    const char* gap = i ? " " : "";
    titles += fmt::format("{}{:>{}}", gap, columns_[i].title, columns_[i].width);
    units += fmt::format("{}{:>{}}", gap, columns_[i].unit, columns_[i].width);
  }
  fmt::print("#\n");
  print_line(titles);
  print_line(units);
  std::fflush(stdout);
}

void Table::print(const Row& row, const Figures& figures) const {
  std::string line;
  for (const Column& column : columns_) line += fmt::format(" {:>{}}", column.text(row, figures), column.width);
  print_line(line);
  std::fflush(stdout);
}

}  // namespace gpucoll::perf
