#include "perf/json.h"

#include <fmt/format.h>

namespace gpucoll::perf {
namespace {

using Json = nlohmann::ordered_json;
constexpr int kFormat = 1;

Json sample_json(const Call& call, const Sample& sample, const Options& options) {
  const Timing& t = sample.call;
  Json out = {{"median_us", t.median_us},
              {"min_us", t.min_us},
              {"max_us", t.max_us},
              {"p90_us", t.p90_us},
              {"p99_us", t.p99_us},
              {"algbw_gbs", algbw(call, sample)},
              {"busbw_gbs", busbw(call, sample)}};
  if (options.overlap == OverlapChoice::none) return out;
  out["computing_us"] = sample.computing_us;
  out["both_us"] = sample.both_us;
  out["hidden_percent"] = hidden_percent(sample);
  return out;
}

Json runs_json(const Row& row, Sample Times::*side) {
  Json medians = Json::array();
  for (const Times& times : row.runs) medians.push_back((times.*side).call.median_us);
  return medians;
}

Json earlier_json(const Row& row, const Figures& figures, const Options& options) {
  return {{"median_us", row.was->median_us},
          {"ratio", speedup(row, figures)},
          {"slower", slower(row, figures, options.tolerance)},
          {"other_bits", other_bits(row)}};
}

const char* overlap_text(OverlapChoice overlap) {
  switch (overlap) {
    case OverlapChoice::none: break;
    case OverlapChoice::host: return "host";
    case OverlapChoice::kernel: return "kernel";
  }
  return "none";
}

}  // namespace

Json heading_json(const Options& options, const Heading& heading) {
  Json json = {{"tool", "gpucoll-perf"},
               {"format", kFormat},
               {"version", heading.version},
               {"mpi", heading.mpi},
               {"collective", name(options.collective)},
               {"api", options.api},
               {"nonblocking", options.nonblocking},
               {"persistent", options.persistent},
               {"pipelined", options.pipelined},
               {"registered", options.registered},
               {"overlap", overlap_text(options.overlap)},
               {"ranks", heading.places.size()},
               {"device", heading.device_kind},
               {"in_place", options.in_place},
               {"iterations", options.iterations},
               {"warmup", options.warmup},
               {"repeat", options.repeat},
               {"baseline", heading.baseline},
               {"baseline_name", heading.baseline_name}};
  if (is_message_test(options.collective)) {
    json["window"] = options.window;
    json["memory"] = memory_text(options);
  }
  json["places"] = Json::array();
  for (const Place& place : heading.places)
    json["places"].push_back({{"host", place.host}, {"device", place.device}, {"index", place.index}});
  json["results"] = Json::array();
  return json;
}

Json identity_json(const Call& call) {
  Json identity = {
      {"bytes", table_bytes(call)}, {"count", call.count}, {"type", info(call.type).name}, {"op", op_text(call)}};
  if (is_message_test(call.collective)) identity["type_shape"] = shape_text(call);
  return identity;
}

Json row_json(const Row& row, const Figures& figures, const Options& options) {
  Json out = identity_json(row.call);
  out.update(sample_json(row.call, figures.ours, options));
  out["runs_us"] = runs_json(row, &Times::ours);
  if (row.with_baseline) {
    out["baseline"] = sample_json(row.call, figures.baseline, options);
    out["baseline"]["runs_us"] = runs_json(row, &Times::baseline);
    out["ratio"] = figures.ratio;
    out["ratio_least"] = figures.ratios.least;
    out["ratio_most"] = figures.ratios.most;
  }
  if (row.was) out["earlier"] = earlier_json(row, figures, options);
  out["bits"] = row.bits ? Json(fmt::format("{:016x}", *row.bits)) : Json(nullptr);
  out["wrong"] = options.check ? Json(row.wrong) : Json(nullptr);
  return out;
}

}  // namespace gpucoll::perf
