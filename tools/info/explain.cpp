#include "info/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/params.h"
#include "common/usual_shape.h"
#include "core/plan/collective_send_recv.h"
#include "core/plan/copy_engine_reduction.h"
#include "core/plan/tuner.h"
#include "core/plan/tuning_file.h"

namespace gpucoll::info {
namespace {

using core::Algorithm;
using core::Choice;
using core::CommProperties;
using core::Function;
using core::Protocol;

constexpr Protocol kProtocols[] = {Protocol::simple, Protocol::ll, Protocol::ll128};

Result<Function> find_function(const std::string& name) {
  std::string names;
  for (int i = 0; i < proto::kFunctions; ++i) {
    const auto function = static_cast<Function>(i);
    if (name == core::name(function)) return function;
    names += (names.empty() ? "" : ", ") + std::string(core::name(function));
  }
  if (name == "bcast") return Function::broadcast;
  return Status(Code::invalid_argument, fmt::format("there is no function '{}'; there are {}", name, names));
}

bool is_measured(const CommProperties& shape, Function function, const Choice& c, uint64_t bytes) {
  return shape.table && shape.table->us(function, c.algorithm, c.protocol, bytes) >= 0;
}

std::string candidates_text(Function function, uint64_t bytes, const CommProperties& shape) {
  std::string text =
      fmt::format("  {:<10} {:<8} {:>8} {:>8} {:>12}\n", "algorithm", "protocol", "channels", "threads", "us");
  bool first = true;
  for (const Choice& c : core::candidates(function, bytes, shape, true)) {
    text += fmt::format("{} {:<10} {:<8} {:>8} {:>8} {:>12.1f}  {}{}\n", first ? "*" : " ", core::name(c.algorithm),
                        core::name(c.protocol), c.channels, c.threads, c.us,
                        is_measured(shape, function, c, bytes) ? "measured" : "predicted", first ? ", chosen" : "");
    first = false;
  }
  return text;
}

bool has_kernel(Function function, Algorithm algorithm) {
  return std::any_of(std::begin(kProtocols), std::end(kProtocols),
                     [=](Protocol protocol) { return core::supported(function, algorithm, protocol); });
}

// Those that are no candidates, and why.
std::string others_text(Function function, uint64_t bytes, const CommProperties& shape) {
  std::string text;
  const auto list = core::candidates(function, bytes, shape, true);
  const bool for_zero_copy = std::any_of(list.begin(), list.end(), [](const Choice& c) { return c.zero_copy; });
  for (Algorithm algorithm : {Algorithm::ring, Algorithm::tree, Algorithm::one_shot, Algorithm::all_pairs}) {
    if (!has_kernel(function, algorithm))
      text += fmt::format("- {:<10} {:<8} there is no such kernel\n", core::name(algorithm), "any");
    for (Protocol protocol : kProtocols) {
      const bool there = std::any_of(list.begin(), list.end(), [&](const Choice& c) {
        return c.algorithm == algorithm && c.protocol == protocol;
      });
      if (there || !core::supported(function, algorithm, protocol)) continue;
      const char* why = core::obstacle(function, algorithm, protocol, bytes, shape, true);
      text += fmt::format("- {:<10} {:<8} {}\n", core::name(algorithm), core::name(protocol),
                          why ? why
                          : for_zero_copy && algorithm == Algorithm::tree
                              ? "left out for zero-copy, which reduces in another order"
                              : "left out by the parameter algorithm or protocol");
    }
  }
  return text;
}

// What takes the place of the candidates by its size: there is no model of its time.
struct BySize {
  core::Limit limit;
  const char* name;
  uint64_t least;  // of bytes as the function has them; 0: never
  bool taken;
};
std::vector<BySize> ways_by_size(Function function, uint64_t bytes, const CommProperties& shape) {
  std::vector<BySize> ways;
  const auto n = static_cast<uint64_t>(shape.n_ranks);
  const bool scatters = function == Function::reduce_scatter;
  if (scatters || function == Function::all_reduce || function == Function::reduce) {
    ways.push_back({core::Limit::copy_reduction_bytes, "copies", core::least_copy_reduction(function, shape),
                    core::reduces_by_copies(function, bytes, shape)});
    ways.push_back({core::Limit::zero_copy_bytes, "zero_copy",
                    scatters ? (shape.zero_copy_bytes + n - 1) / n : shape.zero_copy_bytes,
                    core::choose(function, bytes, shape, true).zero_copy});
  }
  if (function == Function::all_gather || function == Function::broadcast)
    ways.push_back({function == Function::broadcast ? core::Limit::copy_engine_bytes : core::Limit::copy_exchange_bytes,
                    "copies", core::least_copied_collective(function, shape),
                    core::goes_as_messages(function, bytes, shape)});
  return ways;
}

// Who says what the limit is.
std::string source_of(core::Limit limit, const CommProperties& shape) {
  size_t count = 0;
  const ParamInfo* table = param_table(&count);
  const ParamInfo* param =
      std::find_if(table, table + count, [=](const ParamInfo& p) { return !std::strcmp(p.name, core::name(limit)); });
  const std::string source = param_source(*param);
  if (params().*param->member != kAuto) return fmt::format("the parameter {}, {}", param->name, source);
  return fmt::format("the {} {}", shape.table && shape.table->limit(limit) ? "tuning file's" : "default", param->name);
}

std::string way_text(const BySize& way, const CommProperties& shape) {
  return fmt::format("by size, from {} bytes on ({}): its time is not predicted", way.least,
                     source_of(way.limit, shape));
}

// Those of them that are not taken, and why.
std::string not_by_size_text(Function function, uint64_t bytes, const CommProperties& shape) {
  std::string text;
  for (const BySize& way : ways_by_size(function, bytes, shape)) {
    if (way.taken) continue;
    text += fmt::format(
        "- {:<10} {:<8} {}\n", way.name, "any",
        way.least == 0      ? fmt::format("never between so many ranks, or off ({})", source_of(way.limit, shape))
        : bytes < way.least ? way_text(way, shape)
                            : "left out by a parameter, or no way is a candidate that may go on in its place");
  }
  return text;
}

// Copies that the host starts (core/plan/copy_engine_limits.h).
const char* where_by_kernels() {
  return params().copy_engine_bytes == kAuto ? "in CUDA graphs and in the C API by kernels"
                                             : "in CUDA graphs by kernels";
}

std::string by_size_text(const BySize& way, const CommProperties& shape) {
  const std::string what =
      way.limit == core::Limit::zero_copy_bytes ? "zero-copy, straight from and into the buffers of all ranks, once "
                                                  "these have been opened; until then as below"
      : way.limit == core::Limit::copy_reduction_bytes
          ? "carried by copy engines, reduced piece by piece where it arrives; in CUDA graphs by kernels alone"
          : fmt::format("as messages, by copy engines; {}", where_by_kernels());
  return fmt::format("{};\n  {}\n\n", what, way_text(way, shape));
}

std::string pair_text(Function function, uint64_t bytes, const CommProperties& shape) {
  const core::PairChoice choice = core::choose_pair(bytes, shape);
  const BySize copies = function == Function::all_to_all
                            ? BySize{core::Limit::copy_exchange_bytes, "copies", shape.copies.exchanges, true}
                            : BySize{core::Limit::copy_engine_bytes, "copies", shape.copies.messages, true};
  if (copies.least && bytes >= copies.least)
    return fmt::format("* by a copy engine, {}; {}\n", where_by_kernels(), way_text(copies, shape));
  return fmt::format("* {} in {} part{}, {} threads a block; messages that leave in the same group share the launch\n",
                     core::name(choice.protocol), choice.parts, choice.parts == 1 ? "" : "s", choice.threads);
}

}  // namespace

Result<std::string> explain(const Question& question) {
  if (question.n_ranks < 1)
    return Status::error(Code::invalid_argument, "-np %d is no number of ranks", question.n_ranks);
  GC_TRY_AS(const Function function, find_function(question.function));
  GC_TRY_AS(const CommProperties shape, tools::usual_shape(question.emulated, question.n_ranks));
  std::string text = fmt::format("{} of {} bytes, {} rank{} on {}\n", core::name(function), question.bytes,
                                 question.n_ranks, question.n_ranks == 1 ? "" : "s",
                                 question.emulated ? "emulated devices" : "GPUs of one node that reach each other");
  text += fmt::format("{}\n\n", params().tuning_file.empty() ? "predictions of the built-in model"
                                : shape.table ? fmt::format("times of the tuning file {}", params().tuning_file)
                                              : fmt::format("predictions: the tuning file {} has no section for these",
                                                            params().tuning_file));
  if (function == Function::send_recv) return text + pair_text(function, question.bytes, shape);
  if (core::is_exchange(function) && core::goes_as_messages(function, question.bytes, shape))
    return text + "as messages:\n" + pair_text(function, question.bytes, shape) +
           others_text(function, question.bytes, shape);
  for (const BySize& way : ways_by_size(function, question.bytes, shape))
    if (way.taken) text += by_size_text(way, shape);
  return text + candidates_text(function, question.bytes, shape) + others_text(function, question.bytes, shape) +
         not_by_size_text(function, question.bytes, shape);
}

}  // namespace gpucoll::info
