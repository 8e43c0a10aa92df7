#include "perf/report.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <set>

#include "common/output.h"
#include "perf/json.h"

namespace gpucoll::perf {
namespace {

size_t nodes(const std::vector<Place>& places) {
  std::set<std::string> hosts;
  for (const Place& place : places) hosts.insert(place.host);
  return hosts.size();
}

std::string plural(size_t n, const char* word) { return fmt::format("{} {}{}", n, word, n == 1 ? "" : "s"); }

const char* timed_text(const Options& options) {
  if (options.pipelined) return "call of gpucoll's C API among many on a stream";
  if (options.api) return "call of gpucoll's C API until its stream is synchronized";
  if (options.persistent) return "start of a persistent MPI call until MPI_Wait has returned";
  return options.nonblocking ? "nonblocking MPI call until MPI_Wait has returned" : "blocking MPI call";
}

// Ends where the number of timed calls follows.
std::string message_text(const Options& options, size_t pairs) {
  const bool latency = options.collective == Collective::latency;
  std::string text = latency
                         ? "half a round trip by MPI_Send and MPI_Recv"
                         : fmt::format("a window of {} messages by MPI_Isend and MPI_Irecv {}, divided by its messages",
                                       options.window,
                                       options.collective == Collective::bibw ? "each way" : "and its acknowledgement");
  if (options.begins != MemoryKind::device || options.answers != MemoryKind::device)
    text += fmt::format("; {} memory on the ranks that begin, {} memory on their partners", name(options.begins),
                        name(options.answers));
  if (pairs > 1) text += fmt::format("; {} of {} pairs", latency ? "the mean" : "all messages", pairs);
  return text;
}

void print_places(const Heading& heading) {
  const auto& places = heading.places;
  if (heading.device_kind == "emu") {
    fmt::print("# device: {}, not a GPU: times say nothing about one\n", places.front().device);
    return;
  }
  for (size_t rank = 0; rank < places.size(); ++rank)
    fmt::print("# rank {}: {}, GPU {}, {}\n", rank, places[rank].host, places[rank].index, places[rank].device);
}

void print_measurement(const Options& options, const Heading& heading) {
  const std::string timed = is_message_test(options.collective)
                                ? message_text(options, heading.places.size() / 2)
                                : fmt::format("a {} on its slowest rank", timed_text(options));
  fmt::print("# time of {}, {} after {}; {}\n", timed,
             plural(static_cast<size_t>(options.iterations), is_message_test(options.collective) ? "exchange" : "call"),
             options.warmup, options.check ? "every element checked" : "results not checked");
  if (options.repeat > 1)
    fmt::print("# {} of each size: the median of their medians, the least and the most\n",
               plural(static_cast<size_t>(options.repeat), "run"));
  if (!heading.computing.empty())
    fmt::print("# hidden: how much of the call took no time beside {}\n", heading.computing);
  if (!heading.baseline.empty())
    fmt::print("# baseline: {}; ratio: how many times as fast as it gpucoll is\n", heading.baseline);
  if (!options.compare.empty())
    fmt::print("# was: the time in {}; ratio: how many times as fast it is now; slower: by more than {}%\n",
               options.compare, options.tolerance);
}

void print_csv_titles(std::FILE* file) {
  fmt::print(file,
             "collective,ranks,bytes,count,type,op,in_place,median_us,min_us,max_us,algbw_gbs,"
             "busbw_gbs,wrong,baseline,baseline_median_us,baseline_busbw_gbs,ratio,p90_us,p99_us,least_us,most_us,"
             "ratio_least,ratio_most,computing_us,both_us,hidden_percent,bits,type_shape\n");
}

void print_csv(std::FILE* file, const Row& row, const Figures& f, const Options& options, const Heading& heading) {
  const Call& call = row.call;
  const Timing& t = f.ours.call;
  fmt::print(file, "{},{},{},{},{},{},{},{:.3f},{:.3f},{:.3f},{:.6f},{:.6f},{}", name(call.collective), call.ranks,
             table_bytes(call), call.count, info(call.type).name, op_text(call), call.in_place ? 1 : 0, t.median_us,
             t.min_us, t.max_us, algbw(call, f.ours), busbw(call, f.ours),
             options.check ? std::to_string(row.wrong) : "");
  if (row.with_baseline)
    fmt::print(file, ",{},{:.3f},{:.6f},{:.4f}", heading.baseline_name, f.baseline.call.median_us,
               busbw(call, f.baseline), f.ratio);
  else
    fmt::print(file, ",,,,");
  fmt::print(file, ",{:.3f},{:.3f},{:.3f},{:.3f}", t.p90_us, t.p99_us, f.medians_us.least, f.medians_us.most);
  if (row.with_baseline)
    fmt::print(file, ",{:.4f},{:.4f}", f.ratios.least, f.ratios.most);
  else
    fmt::print(file, ",,");
  if (options.overlap != OverlapChoice::none)
    fmt::print(file, ",{:.3f},{:.3f},{:.1f}", f.ours.computing_us, f.ours.both_us, hidden_percent(f.ours));
  else
    fmt::print(file, ",,,");
  fmt::print(file, ",{},{}\n", row.bits ? fmt::format("{:016x}", *row.bits) : "",
             is_message_test(call.collective) ? shape_text(call) : "");
}

}  // namespace

Report::Report(const Options& options, const Heading& heading, const std::vector<Call>& calls)
    : options_(options),
      heading_(heading),
      table_(options, heading.baseline_name, calls),
      json_(heading_json(options, heading)) {}

Result<Report> Report::create(const Options& options, const Heading& heading, const std::vector<Call>& calls) {
  Report report(options, heading, calls);
  if (!options.compare.empty()) {
    GC_TRY_AS(report.earlier_, Earlier::load(options.compare));
    GC_TRY(report.earlier_->require_same_work(report.json_));
  }
  GC_TRY(open(options.json, &report.json_file_));
  GC_TRY(open(options.csv, &report.csv_file_));
  return report;
}

Status Report::open(const std::string& path, File* file) {
  if (path.empty()) return {};
  file->reset(std::fopen(path.c_str(), "w"));
  if (*file) return {};
  return Status::error(Code::invalid_argument, "cannot write %s: %s", path.c_str(), std::strerror(errno));
}

Status Report::begin() const {
  const auto& places = heading_.places;
  fmt::print("# gpucoll-perf {}: {}{}, {} on {}, {}\n", heading_.version, name(options_.collective),
             options_.in_place ? " in place" : "", plural(places.size(), "rank"), plural(nodes(places), "node"),
             heading_.mpi);
  print_places(heading_);
  print_measurement(options_, heading_);
  table_.print_titles();
  if (csv_file_) print_csv_titles(csv_file_.get());
  return tools::flush_output();
}

void Report::row(Row row) {
  if (earlier_) row.was = earlier_->find(row.call);
  const Figures f = figures(row);
  wrong_ += row.wrong;
  slower_rows_ += slower(row, f, options_.tolerance);
  other_bits_ += other_bits(row);
  table_.print(row, f);
  json_["results"].push_back(row_json(row, f, options_));
  if (csv_file_) print_csv(csv_file_.get(), row, f, options_, heading_);
}

void Report::explain(const std::string& example) { fmt::print(stderr, "gpucoll-perf: wrong: {}\n", example); }

void Report::print_totals() const {
  if (earlier_)
    fmt::print("# against {}: {} slower, {} with other bits\n", options_.compare,
               plural(static_cast<size_t>(slower_rows_), "row"), other_bits_);
  if (options_.check)
    fmt::print("# wrong elements: {}\n", wrong_);
  else
    fmt::print("# wrong elements: not checked\n");
}

Status Report::finish() {
  print_totals();
  GC_TRY(tools::flush_output());
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
