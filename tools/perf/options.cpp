#include "perf/options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <climits>
#include <optional>
#include <sstream>

#include "base/params.h"
#include "common/command_line.h"

namespace gpucoll::perf {
namespace {

// The arguments as they were written.
struct Words {
  std::string collective, type = "float", op = "sum", baseline = "none", overlap = "none";
  std::string min_bytes = "8", max_bytes = "64M";
  std::optional<int> iterations, window;
  std::string memory, shapes;
  bool type_given = false, baseline_given = false, sizes_given = false;
  int check = 1;
};

Status bad(const std::string& sentence) { return Status(Code::invalid_argument, sentence); }

void declare(CLI::App& app, Options& options, Words& words) {
  app.set_version_flag("--version", std::string("gpucoll-perf ") + library_version());
  app.add_option("collective", words.collective, "One of " + collective_names())->required();
  app.add_option("-b,--minbytes", words.min_bytes, "Smallest size, such as 8 or 64K")->capture_default_str();
  app.add_option("-e,--maxbytes", words.max_bytes, "Largest size")->capture_default_str();
  app.add_option("-f,--stepfactor", options.factor, "Each size is this times the one before")->capture_default_str();
  app.add_option("-n,--iters", words.iterations,
                 "Timed calls of each size; 20 unless given, of latency 200, 1000 with --latency");
  app.add_option("-w,--warmup_iters", options.warmup, "Calls before them that are not timed")->capture_default_str();
  app.add_option("-d,--datatype", words.type, "all, or one of " + type_names())->capture_default_str();
  app.add_option("-o,--op", words.op, "all, or one of " + op_names())->capture_default_str();
  app.add_option("-r,--root", options.root, "Root of bcast, reduce, gather(v) and scatter(v)")->capture_default_str();
  app.add_option("-c,--check", words.check, "1: compare every element of the result, 0: do not")->capture_default_str();
  app.add_flag("--in-place", options.in_place, "Input and output share a buffer (MPI_IN_PLACE)");
  app.add_flag("--api", options.api, "Through gpucoll's C API instead of MPI: stream, call, synchronize");
  app.add_flag("--nonblocking", options.nonblocking, "By MPI's nonblocking calls: MPI_Iallreduce, MPI_Wait, and so on");
  app.add_flag("--persistent", options.persistent,
               "By starts of MPI's persistent calls: MPI_Start, MPI_Wait; they are made beforehand");
  app.add_flag("--pipelined", options.pipelined,
               "With --api: all timed calls of a size back to back on the stream, instead of each until it is done");
  app.add_flag("--registered", options.registered,
               "With --api: buffers are registered with the communicator (gpucollCommRegister)");
  app.add_option("--baseline", words.baseline,
                 "Measured beside it in the same run: none, nccl (libnccl, found at run time), host (the same MPI call "
                 "on host memory), staged (messages through page-locked host memory, copied by the program), "
                 "contiguous (with --type-shape)")
      ->capture_default_str();
  app.add_flag("--latency", options.latency, "Show how the times of single calls are distributed: p50, p90, p99");
  app.add_option(
         "--overlap", words.overlap,
         "Also compute while the call is under way, as long as it takes alone: none, host (the calling thread), "
         "kernel (of --overlap-blocks blocks on a GPU). Shown is how much of the call is hidden behind it")
      ->capture_default_str();
  app.add_option("--overlap-blocks", options.overlap_blocks, "Blocks of that kernel")->capture_default_str();
  app.add_option("--repeat", options.repeat,
                 "Measure each size so many times; shown are the median of these medians, the least and the most")
      ->capture_default_str();
  app.add_option("--compare", options.compare,
                 "Compare with a file written by --json; ends with status 3 where something has become slower");
  app.add_option("--tolerance", options.tolerance, "Percent that --compare lets a time grow")->capture_default_str();
  app.add_option("--json", options.json, "Also write the results to this file as JSON");
  app.add_option("--csv", options.csv, "Also write the results to this file as CSV");
}

// Options that point-to-point tests alone have.
void declare_messages(CLI::App& app, Words& words) {
  app.add_option("--window", words.window,
                 "Of bandwidth and bibw: messages under way at once, each way; 64 unless given");
  app.add_option(
      "--memory", words.memory,
      "Of latency, bandwidth and bibw: kinds of memory of the ranks that begin and of their partners, such as "
      "device,host. There are device (both, unless given), host, pinned (page-locked)");
  app.add_option(
      "--type-shape", words.shapes,
      "Of latency, bandwidth and bibw: messages of derived types, beside contiguous ones of as many bytes; a list of "
      "contiguous, vector:COUNT:BLOCK:STRIDE, face:N:x (or y, z: a plane of a grid of N^3 elements, x runs fastest), "
      "indexed:N, struct:N. Elements are doubles, unless -d is given");
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

bool has_shape(const Options& options) {
  return std::any_of(options.shapes.begin(), options.shapes.end(), [](const auto& shape) { return shape != nullptr; });
}

Status read_types(const Words& words, Options& options) {
  if (options.collective == Collective::barrier) {
    options.types = {Type::byte};  // of none
    return {};
  }
  if (has_shape(options) && !words.type_given) {
    options.types = {Type::float64};
    return {};
  }
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

bool both_on_device(const Options& options) {
  return options.begins == MemoryKind::device && options.answers == MemoryKind::device;
}

bool any_on_device(const Options& options) {
  return options.begins == MemoryKind::device || options.answers == MemoryKind::device;
}

Status read_baseline(const Words& words, Options& options) {
  if (words.baseline == "none")
    options.baseline = BaselineChoice::none;
  else if (words.baseline == "nccl")
    options.baseline = BaselineChoice::nccl;
  else if (words.baseline == "host")
    options.baseline = BaselineChoice::host;
  else if (words.baseline == "staged")
    options.baseline = BaselineChoice::staged;
  else if (words.baseline == "contiguous")
    options.baseline = BaselineChoice::contiguous;
  else
    return bad(
        fmt::format("there is no baseline '{}'; there are none, nccl, host, staged, contiguous", words.baseline));
  if (options.baseline == BaselineChoice::staged && !is_message_test(options.collective))
    return bad("--baseline staged is for latency, bandwidth and bibw: take --baseline host");
  if (options.baseline == BaselineChoice::nccl && !both_on_device(options))
    return bad("--baseline nccl needs device memory on both sides: leave out --memory, or take --baseline host");
  if (has_shape(options) && !words.baseline_given) options.baseline = BaselineChoice::contiguous;
  if (options.baseline == BaselineChoice::contiguous && !has_shape(options))
    return bad("--baseline contiguous is for messages with gaps: add --type-shape");
  if (options.baseline == BaselineChoice::staged && has_shape(options))
    return bad("--baseline staged copies contiguous messages: leave out --type-shape, or take --baseline contiguous");
  if (options.baseline == BaselineChoice::staged && !any_on_device(options))
    return bad("--baseline staged has nothing to copy from a device: take --baseline host");
  return {};
}

Status read_overlap(const Words& words, Options& options) {
  if (words.overlap == "none")
    options.overlap = OverlapChoice::none;
  else if (words.overlap == "host")
    options.overlap = OverlapChoice::host;
  else if (words.overlap == "kernel")
    options.overlap = OverlapChoice::kernel;
  else
    return bad(fmt::format("there is no computing '{}' to overlap with; there are none, host, kernel", words.overlap));
  if (options.overlap == OverlapChoice::none) return {};
  if (is_pairwise(options.collective) && !options.api)
    return bad(fmt::format("{} leaves no time to compute in: leave out --overlap", name(options.collective)));
  if (options.pipelined || options.latency)
    return bad("--overlap measures single calls and shows its own columns: leave out --pipelined and --latency");
  options.nonblocking = !options.api && !options.persistent;  // a blocking call leaves nothing to do beside it
  return {};
}

Status read_memory(const std::string& text, Options& options) {
  if (text.empty()) return {};
  const size_t comma = text.find(',');
  const std::string begins = text.substr(0, comma), answers = comma == text.npos ? "" : text.substr(comma + 1);
  if (find_memory_kind(begins, &options.begins) && find_memory_kind(answers, &options.answers)) return {};
  return bad(fmt::format("--memory takes two of device, host and pinned, such as device,host, not '{}'", text));
}

Status read_shapes(const Words& words, Options& options) {
  if (words.shapes.empty()) return {};
  options.shapes.clear();
  std::istringstream list(words.shapes);
  for (std::string text; std::getline(list, text, ',');) {
    if (text == "contiguous") {
      options.shapes.push_back(nullptr);
      continue;
    }
    GC_TRY_AS(auto shape, parse_type_shape(text));
    options.shapes.push_back(std::move(shape));
  }
  const bool any_contiguous = std::count(options.shapes.begin(), options.shapes.end(), nullptr) > 0;
  if (words.sizes_given && !any_contiguous)
    return bad("-b, -e and -f are for contiguous messages, and --type-shape says its own sizes: leave them out");
  return {};
}

// Checks the options that point-to-point tests alone have, and those that they leave no choice of.
Status read_message_test(const Words& words, Options& options) {
  const char* what = name(options.collective);
  if (words.window && (options.collective == Collective::latency || !is_message_test(options.collective)))
    return bad(fmt::format("--window is for bandwidth and bibw: leave it out with {}", what));
  options.window = words.window.value_or(64);
  if (!is_message_test(options.collective)) {
    if (!words.memory.empty())
      return bad(fmt::format("--memory is for latency, bandwidth and bibw: {} is on devices", what));
    if (!words.shapes.empty())
      return bad(fmt::format("--type-shape is for latency, bandwidth and bibw: leave it out with {}", what));
    return {};
  }
  GC_TRY(read_memory(words.memory, options));
  GC_TRY(read_shapes(words, options));
  if (options.api) return bad(fmt::format("{} is a test of MPI's messages: leave out --api, or take pair", what));
  return {};
}

// What only one of the two entrances can do.
Status read_entry(const Options& options) {
  const char* what = name(options.collective);
  const bool pairwise = is_pairwise(options.collective);
  if (options.pipelined && !options.api) return bad("--pipelined needs --api: MPI calls return when they are done");
  if (options.registered && !options.api) return bad("--registered needs --api: MPI has no such call");
  if (options.nonblocking && options.api) return bad("--nonblocking is for MPI: the C API's calls never wait");
  if (options.persistent && (options.api || options.nonblocking))
    return bad("--persistent is a way of its own: leave out --api and --nonblocking");
  if (options.pipelined && options.latency)
    return bad("--pipelined sees no single calls, so --latency has nothing to show");
  if (pairwise && (options.nonblocking || options.persistent))
    return bad(fmt::format("{} says itself which calls it makes: leave out --nonblocking and --persistent", what));
  if (options.api && !in_api(options.collective)) return bad(fmt::format("the C API has no {}", what));
  const bool never = pairwise || options.collective == Collective::barrier;
  if (options.in_place && (never || (options.api && even(options.collective) == Collective::alltoall)))
    return bad(fmt::format("{} has no in-place form{}", what, never ? "" : " in the C API"));
  return {};
}

Status within(const char* what, int value, int least, int most) {
  if (value >= least && value <= most) return {};
  return bad(fmt::format("{} {} is not from {} to {}", what, value, least, most));
}

Status read_numbers(const Words& words, Options& options) {
  constexpr int kMost = 1000000;
  options.iterations = words.iterations.value_or(options.latency                             ? 1000
                                                 : options.collective == Collective::latency ? 200
                                                                                             : 20);
  options.check = words.check == 1;
  if (!(options.factor > 1) || options.factor > 1e6)
    return bad(fmt::format("the step factor (-f {}) is not above 1 and at most 1000000", options.factor));
  if (!(options.tolerance >= 0)) return bad(fmt::format("--tolerance {} is not 0 or more", options.tolerance));
  GC_TRY(within("the number of timed calls, -n", options.iterations, 1, kMost));
  GC_TRY(within("the number of warm-up calls, -w", options.warmup, 0, kMost));
  GC_TRY(within("--window", options.window, 1, kMost));
  GC_TRY(within("--repeat", options.repeat, 1, kMost));
  GC_TRY(within("--overlap-blocks", options.overlap_blocks, 1, kMost));
  return within("-c", words.check, 0, 1);
}

Status interpret(const Words& words, Options& options) {
  if (!find_collective(words.collective, &options.collective))
    return bad(fmt::format("there is no collective '{}'; there are {}", words.collective, collective_names()));
  GC_TRY(read_message_test(words, options));
  GC_TRY(read_entry(options));
  GC_TRY(read_sizes(words, options));
  GC_TRY(read_types(words, options));
  GC_TRY(read_ops(words, options));
  GC_TRY(read_baseline(words, options));
  GC_TRY(read_overlap(words, options));
  return read_numbers(words, options);
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
  if (call.shape) {
    call.count = call.shape->elements;
    calls->push_back(call);
    return;
  }
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
      "Times and checks a collective on device memory, or (latency, bandwidth, bibw) MPI's messages between the ranks "
      "i "
      "and i + n/2 of n ranks. Run under mpirun with --mca coll gpucoll; "
      "with --api the component is not needed.",
      "gpucoll-perf");
  app.get_formatter()->column_width(34);
  declare(app, options, words);
  declare_messages(app, words);
  GC_TRY_AS(options.text, tools::read_command_line(app, argc, argv));
  words.type_given = app.count("-d") > 0;
  words.baseline_given = app.count("--baseline") > 0;
  words.sizes_given = app.count("-b") + app.count("-e") + app.count("-f") > 0;
  if (!options.text.empty()) return options;
  GC_TRY(interpret(words, options));
  return options;
}

std::string memory_text(const Options& options) {
  return fmt::format("{},{}", name(options.begins), name(options.answers));
}

Result<std::vector<Call>> plan(const Options& options, int rank, int ranks) {
  if (options.root < 0 || options.root >= ranks)
    return bad(fmt::format("the root (-r {}) is none of the ranks 0 to {}", options.root, ranks - 1));
  std::vector<Call> calls;
  for (Type type : options.types) {
    for (Op op : options.ops) {
      if (reduces(options.collective) && !fits(type, op)) continue;
      Call call;
      call.collective = options.collective;
      call.type = type;
      call.op = op;
      call.root = options.root;
      call.in_place = options.in_place;
      call.rank = rank;
      call.ranks = ranks;
      call.api = options.api;
      if (options.collective == Collective::bandwidth || options.collective == Collective::bibw)
        call.window = options.window;
      for (const auto& shape : options.shapes) {
        call.shape = shape;
        plan_sizes(options, call, &calls);
      }
    }
  }
  if (options.collective == Collective::pair && ranks < 2) return bad("pair needs two ranks or more");
  if (is_message_test(options.collective) && ranks % 2)
    return bad(fmt::format("{} needs an even number of ranks: ranks i and i + {}/2 are a pair",
                           name(options.collective), ranks));
  const bool by_mpi = !options.api || options.baseline == BaselineChoice::host;
  for (const Call& call : calls)
    if (by_mpi && call.count > INT_MAX)
      return bad(fmt::format("{} of {} elements is more than an MPI call can count; take a smaller -e or a wider -d",
                             format_size(static_cast<int64_t>(options.max_bytes)), info(call.type).name));
  return calls;
}

}  // namespace gpucoll::perf
