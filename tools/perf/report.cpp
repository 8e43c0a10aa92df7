#include "perf/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <set>

namespace gpucoll::perf {
namespace {

// Decimal: 1e9 bytes a second; 0 for an empty message.
double algbw(const Call& call, const Timing& t) {
  return t.median_us > 0 ? static_cast<double>(table_bytes(call)) / t.median_us * 1e-3 : 0;
}
double busbw(const Call& call, const Timing& t) { return algbw(call, t) * bus_factor(call); }
// How many times as fast as the baseline ours is.
double ratio(const Row& row) { return row.ours.median_us > 0 ? row.baseline->median_us / row.ours.median_us : 0; }

const char* op_text(const Call& call) { return reduces(call.collective) ? name(call.op) : "-"; }

size_t nodes(const std::vector<Place>& places) {
  std::set<std::string> hosts;
  for (const Place& place : places) hosts.insert(place.host);
  return hosts.size();
}

std::string plural(size_t n, const char* word) { return fmt::format("{} {}{}", n, word, n == 1 ? "" : "s"); }

nlohmann::ordered_json timing_json(const Call& call, const Timing& t) {
  return {{"median_us", t.median_us},
          {"min_us", t.min_us},
          {"max_us", t.max_us},
          {"algbw_gbs", algbw(call, t)},
          {"busbw_gbs", busbw(call, t)}};
}

nlohmann::ordered_json row_json(const Row& row, bool checked) {
  nlohmann::ordered_json out = {{"bytes", table_bytes(row.call)},
                                {"count", row.call.count},
                                {"type", info(row.call.type).name},
                                {"op", op_text(row.call)}};
  out.update(timing_json(row.call, row.ours));
  if (row.baseline) {
    out["baseline"] = timing_json(row.call, *row.baseline);
    out["ratio"] = ratio(row);
  }
  out["wrong"] = checked ? nlohmann::ordered_json(row.wrong) : nlohmann::ordered_json(nullptr);
  return out;
}

const char* timed_text(const Options& options) {
  if (options.pipelined) return "call of gpucoll's C API among many on a stream";
  return options.api ? "call of gpucoll's C API until its stream is synchronized" : "blocking MPI call";
}

Status open_file(const std::string& path, std::FILE** file) {
  *file = std::fopen(path.c_str(), "w");
  if (*file) return {};
  return Status::error(Code::invalid_argument, "cannot write %s: %s", path.c_str(), std::strerror(errno));
}

}  // namespace

Result<Report> Report::create(const Options& options) {
  Report report(options);
  std::FILE* file = nullptr;
  if (!options.json.empty()) {
    GC_TRY(open_file(options.json, &file));
    report.json_file_.reset(file);
  }
  if (!options.csv.empty()) {
    GC_TRY(open_file(options.csv, &file));
    report.csv_file_.reset(file);
  }
  return report;
}

void Report::begin(const Heading& heading, const std::vector<Call>& calls) {
  baseline_ = heading.baseline_name;
  for (const Call& call : calls) {
    type_width_ = std::max(type_width_, std::strlen(info(call.type).name));
    op_width_ = std::max(op_width_, std::strlen(op_text(call)));
  }
  json_ = {{"tool", "gpucoll-perf"},
           {"version", heading.version},
           {"mpi", heading.mpi},
           {"collective", name(options_.collective)},
           {"api", options_.api},
           {"pipelined", options_.pipelined},
           {"registered", options_.registered},
           {"ranks", heading.places.size()},
           {"device", heading.device_kind},
           {"in_place", options_.in_place},
           {"iterations", options_.iterations},
           {"warmup", options_.warmup},
           {"baseline", heading.baseline}};
  json_["places"] = nlohmann::ordered_json::array();
  for (const Place& place : heading.places)
    json_["places"].push_back({{"host", place.host}, {"device", place.device}, {"index", place.index}});
  json_["results"] = nlohmann::ordered_json::array();
  if (csv_file_)
    fmt::print(csv_file_.get(),
               "collective,ranks,bytes,count,type,op,in_place,median_us,min_us,max_us,algbw_gbs,"
               "busbw_gbs,wrong,baseline,baseline_median_us,baseline_busbw_gbs,ratio\n");
  print_heading(heading);
  print_columns();
}

void Report::print_heading(const Heading& heading) const {
  const auto& places = heading.places;
  fmt::print("# gpucoll-perf {}: {}{}, {} on {}, {}\n", heading.version, name(options_.collective),
             options_.in_place ? " in place" : "", plural(places.size(), "rank"), plural(nodes(places), "node"),
             heading.mpi);
  if (heading.device_kind == "emu") {
    fmt::print("# device: {}, not a GPU: times say nothing about one\n", places.front().device);
  } else {
    for (size_t rank = 0; rank < places.size(); ++rank)
      fmt::print("# rank {}: {}, GPU {}, {}\n", rank, places[rank].host, places[rank].index, places[rank].device);
  }
  fmt::print("# time of a {} on its slowest rank, {} after {}; {}\n", timed_text(options_),
             plural(static_cast<size_t>(options_.iterations), "call"), options_.warmup,
             options_.check ? "every element checked" : "results not checked");
  if (!baseline_.empty())
    fmt::print("# baseline: {}; ratio: how many times as fast as it gpucoll is\n", heading.baseline);
}

void Report::print_columns() const {
  fmt::print("#\n#{:>11} {:>11}  {:>{}} {:>{}} {:>10} {:>9} {:>9} {:>8} {:>8} {:>7}", "bytes", "count", "type",
             type_width_, "op", op_width_, "median us", "min us", "max us", "algbw", "busbw", "wrong");
  if (!baseline_.empty()) fmt::print(" {:>10} {:>8} {:>6}", baseline_ + " us", "busbw", "ratio");
  fmt::print("\n#{:>11} {:>11}  {:>{}} {:>{}} {:>10} {:>9} {:>9} {:>8} {:>8}\n", "", "", "", type_width_, "", op_width_,
             "", "", "", "GB/s", "GB/s");
  std::fflush(stdout);
}

void Report::row(const Row& row) {
  const Call& call = row.call;
  const Timing& t = row.ours;
  wrong_ += row.wrong;
  std::string wrong = options_.check ? std::to_string(row.wrong) : "-";
  fmt::print(" {:>11} {:>11}  {:>{}} {:>{}} {:>10.1f} {:>9.1f} {:>9.1f} {:>8.3f} {:>8.3f} {:>7}", table_bytes(call),
             call.count, info(call.type).name, type_width_, op_text(call), op_width_, t.median_us, t.min_us, t.max_us,
             algbw(call, t), busbw(call, t), wrong);
  if (row.baseline)
    fmt::print(" {:>10.1f} {:>8.3f} {:>6.2f}", row.baseline->median_us, busbw(call, *row.baseline), ratio(row));
  else if (!baseline_.empty())
    fmt::print(" {:>10} {:>8} {:>6}", "-", "-", "-");
  fmt::print("\n");
  std::fflush(stdout);
  json_["results"].push_back(row_json(row, options_.check));
  if (!csv_file_) return;
  fmt::print(csv_file_.get(), "{},{},{},{},{},{},{},{:.3f},{:.3f},{:.3f},{:.6f},{:.6f},{}", name(call.collective),
             call.ranks, table_bytes(call), call.count, info(call.type).name, op_text(call), options_.in_place ? 1 : 0,
             t.median_us, t.min_us, t.max_us, algbw(call, t), busbw(call, t), options_.check ? wrong : "");
  if (row.baseline)
    fmt::print(csv_file_.get(), ",{},{:.3f},{:.6f},{:.4f}\n", baseline_, row.baseline->median_us,
               busbw(call, *row.baseline), ratio(row));
  else
    fmt::print(csv_file_.get(), ",,,,\n");
}

void Report::explain(const std::string& example) { fmt::print(stderr, "gpucoll-perf: wrong: {}\n", example); }

Status Report::finish() {
  if (options_.check)
    fmt::print("# wrong elements: {}\n", wrong_);
  else
    fmt::print("# wrong elements: not checked\n");
  std::fflush(stdout);
  if (csv_file_ && (std::fflush(csv_file_.get()) || std::ferror(csv_file_.get())))
    return Status::error(Code::system, "could not write all of %s", options_.csv.c_str());
  if (!json_file_) return {};
  json_["wrong"] = options_.check ? nlohmann::ordered_json(wrong_) : nlohmann::ordered_json(nullptr);
  fmt::print(json_file_.get(), "{}\n", json_.dump(2));
  if (std::fflush(json_file_.get()) || std::ferror(json_file_.get()))
    return Status::error(Code::system, "could not write all of %s", options_.json.c_str());
  return {};
}

}  // namespace gpucoll::perf
