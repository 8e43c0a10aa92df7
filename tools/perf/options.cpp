#include "perf/options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <climits>

#include "base/params.h"
#include "common/command_line.h"

namespace gpucoll::perf {
namespace {

// The arguments as they were written.
struct Words {
  std::string collective, type = "float", op = "sum", baseline = "none";
  std::string min_bytes = "8", max_bytes = "64M";
  int check = 1;
};

Status bad(const std::string& sentence) { return Status(Code::invalid_argument, sentence); }

void declare(CLI::App& app, Options& options, Words& words) {
  app.set_version_flag("--version", std::string("gpucoll-perf ") + library_version());
  app.add_option("collective", words.collective, "One of " + collective_names())->required();
  app.add_option("-b,--minbytes", words.min_bytes, "Smallest size, such as 8 or 64K")->capture_default_str();
  app.add_option("-e,--maxbytes", words.max_bytes, "Largest size")->capture_default_str();
  app.add_option("-f,--stepfactor", options.factor, "Each size is this times the one before")->capture_default_str();
  app.add_option("-n,--iters", options.iterations, "Timed calls of each size")->capture_default_str();
  app.add_option("-w,--warmup_iters", options.warmup, "Calls before them that are not timed")->capture_default_str();
  app.add_option("-d,--datatype", words.type, "all, or one of " + type_names())->capture_default_str();
  app.add_option("-o,--op", words.op, "all, or one of " + op_names())->capture_default_str();
  app.add_option("-r,--root", options.root, "Root of bcast, reduce, gather and scatter")->capture_default_str();
  app.add_option("-c,--check", words.check, "1: compare every element of the result, 0: do not")->capture_default_str();
  app.add_flag("--in-place", options.in_place, "Input and output share a buffer (MPI_IN_PLACE)");
  app.add_flag("--api", options.api, "Through gpucoll's C API instead of MPI: stream, call, synchronize");
  app.add_flag("--pipelined", options.pipelined,
               "With --api: all timed calls of a size back to back on the stream, instead of each until it is done");
  app.add_flag("--registered", options.registered,
               "With --api: buffers are registered with the communicator (gpucollCommRegister)");
  app.add_option("--baseline", words.baseline,
                 "Measured beside it in the same run: none, nccl (libnccl, found at run time), host (the same MPI call "
                 "on host memory)")
      ->capture_default_str();
  app.add_option("--json", options.json, "Also write the results to this file as JSON");
  app.add_option("--csv", options.csv, "Also write the results to this file as CSV");
}

Status read_sizes(const Words& words, Options& options) {
  GC_TRY_AS(int64_t min, parse_size(words.min_bytes.c_str()));
  GC_TRY_AS(int64_t max, parse_size(words.max_bytes.c_str()));
  if (min > max)
    return bad(
        fmt::format("the smallest size (-b {}) is larger than the largest (-e {})", words.min_bytes, words.max_bytes));
  options.min_bytes = static_cast<size_t>(min);
  options.max_bytes = static_cast<size_t>(max);
  return {};
}

Status read_types(const Words& words, Options& options) {
  if (words.type == "all") {
    for (int i = 0; i < kTypes; ++i) options.types.push_back(static_cast<Type>(i));
    return {};
  }
  const TypeInfo* type = find_type(words.type);
  if (!type) return bad(fmt::format("there is no type '{}'; there are all, {}", words.type, type_names()));
  options.types.push_back(type->type);
  return {};
}

Status read_ops(const Words& words, Options& options) {
  if (!reduces(options.collective)) {
    options.ops.push_back(Op::sum);
    return {};
  }
  Op op = Op::sum;
  if (words.op != "all" && !find_op(words.op, &op))
    return bad(fmt::format("there is no operation '{}'; there are all, {}", words.op, op_names()));
  for (int i = 0; i < kOps; ++i)
    if (words.op == "all" || op == static_cast<Op>(i)) options.ops.push_back(static_cast<Op>(i));
  bool any = std::any_of(options.types.begin(), options.types.end(), [&](Type type) {
    return std::any_of(options.ops.begin(), options.ops.end(), [type](Op o) { return fits(type, o); });
  });
  if (!any) return bad(fmt::format("MPI does not define the operation {} for the type {}", words.op, words.type));
  return {};
}

Status read_baseline(const Words& words, Options& options) {
  if (words.baseline == "none")
    options.baseline = BaselineChoice::none;
  else if (words.baseline == "nccl")
    options.baseline = BaselineChoice::nccl;
  else if (words.baseline == "host")
    options.baseline = BaselineChoice::host;
  else
    return bad(fmt::format("there is no baseline '{}'; there are none, nccl, host", words.baseline));
  return {};
}

// What only one of the two entrances can do.
Status read_entry(const Options& options) {
  const char* what = name(options.collective);
  const bool pairwise = is_pairwise(options.collective);
  if (options.pipelined && !options.api) return bad("--pipelined needs --api: MPI calls return when they are done");
  if (options.registered && !options.api) return bad("--registered needs --api: MPI has no such call");
  if (pairwise && !options.api)
    return bad(fmt::format("{} needs --api: MPI's own point-to-point does not take device memory", what));
  if (options.api && is_scan(options.collective)) return bad(fmt::format("the C API has no {}", what));
  if (options.in_place && (pairwise || (options.api && options.collective == Collective::alltoall)))
    return bad(fmt::format("{} has no in-place form{}", what, pairwise ? "" : " in the C API"));
  return {};
}

Status interpret(const Words& words, Options& options) {
  if (!find_collective(words.collective, &options.collective))
    return bad(fmt::format("there is no collective '{}'; there are {}", words.collective, collective_names()));
  GC_TRY(read_entry(options));
  GC_TRY(read_sizes(words, options));
  GC_TRY(read_types(words, options));
  GC_TRY(read_ops(words, options));
  GC_TRY(read_baseline(words, options));
  if (!(options.factor > 1) || options.factor > 1e6)
    return bad(fmt::format("the step factor (-f {}) is not above 1 and at most 1000000", options.factor));
  if (options.iterations < 1 || options.iterations > 1000000)
    return bad(fmt::format("the number of timed calls (-n {}) is not from 1 to 1000000", options.iterations));
  if (options.warmup < 0 || options.warmup > 1000000)
    return bad(fmt::format("the number of warm-up calls (-w {}) is not from 0 to 1000000", options.warmup));
  if (words.check != 0 && words.check != 1) return bad(fmt::format("-c {} is neither 0 nor 1", words.check));
  options.check = words.check == 1;
  return {};
}

// The sizes from the smallest to the largest; after 0 comes 1, so that factors lead on.
std::vector<size_t> sizes(const Options& options) {
  std::vector<size_t> list;
  for (double size = static_cast<double>(options.min_bytes); size <= static_cast<double>(options.max_bytes);
       size = size < 1 ? 1 : size * options.factor)
    list.push_back(static_cast<size_t>(size));
  return list;
}

void plan_sizes(const Options& options, Call call, std::vector<Call>* calls) {
  bool first = true;
  size_t last = 0;
  for (size_t bytes : sizes(options)) {
    call.count = count_for(call, bytes);
    if (!first && call.count == last) continue;
    calls->push_back(call);
    last = call.count;
    first = false;
  }
}

}  // namespace

Result<Options> parse_options(int argc, char** argv) {
  Options options;
  Words words;
  CLI::App app(
      "Times and checks a collective on device memory. Run under mpirun with --mca coll gpucoll; "
      "with --api the component is not needed.",
      "gpucoll-perf");
  app.get_formatter()->column_width(34);
  declare(app, options, words);
  GC_TRY_AS(options.text, tools::read_command_line(app, argc, argv));
  if (!options.text.empty()) return options;
  GC_TRY(interpret(words, options));
  return options;
}

Result<std::vector<Call>> plan(const Options& options, int rank, int ranks) {
  if (options.root < 0 || options.root >= ranks)
    return bad(fmt::format("the root (-r {}) is none of the ranks 0 to {}", options.root, ranks - 1));
  std::vector<Call> calls;
  for (Type type : options.types) {
    for (Op op : options.ops) {
      if (reduces(options.collective) && !fits(type, op)) continue;
      Call call{options.collective, type, op, 0, options.root, options.in_place, rank, ranks, options.api};
      plan_sizes(options, call, &calls);
    }
  }
  if (options.collective == Collective::pair && ranks < 2) return bad("pair needs two ranks or more");
  const bool by_mpi = !options.api || options.baseline == BaselineChoice::host;
  for (const Call& call : calls)
    if (by_mpi && call.count > INT_MAX)
      return bad(fmt::format("{} of {} elements is more than an MPI call can count; take a smaller -e or a wider -d",
                             format_size(static_cast<int64_t>(options.max_bytes)), info(call.type).name));
  return calls;
}

}  // namespace gpucoll::perf
