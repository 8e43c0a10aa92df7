#include "coll/match/board_line.h"

#include <cstring>
#include <string>

#include "base/hash.h"
#include "task/types.h"

namespace gpucoll::coll {
namespace {

constexpr uint32_t kNone = ~uint32_t{0};
constexpr int32_t kBesideRoot = -2;  // says nothing of the call

template <class T>
uint32_t digest_of(const T* values, int n) {
  uint64_t hash = 0;
  for (int i = 0; i < n; ++i) hash = hash_combine(hash, static_cast<uint64_t>(values[i]));
  return static_cast<uint32_t>(hash ^ hash >> 32);
}

// Bytes that go to or come from one rank, where that is the same for all.
size_t bytes_of_one(const gc_call& call, bool at_root, int n_ranks) {
  const auto n = static_cast<size_t>(n_ranks);
  switch (call.function) {
    case GC_FUNCTION_bcast: return call.recv.bytes;
    case GC_FUNCTION_allgather:
    case GC_FUNCTION_alltoall: return call.recv.bytes / n;
    case GC_FUNCTION_gather: return at_root ? call.recv.bytes / n : call.send.bytes;
    case GC_FUNCTION_scatter: return at_root ? call.send.bytes / n : call.recv.bytes;
    default: return 0;
  }
}

bool same_call(const gc_board_line& a, const gc_board_line& b) {
  if (a.root == kBesideRoot || b.root == kBesideRoot) return true;
  return a.count == b.count && a.type == b.type && a.op == b.op && a.root == b.root && a.digest == b.digest;
}

// Where there is no root, each rank's length is that of what it sends and of the room that it has.
bool is_truncated(uint32_t function, const std::vector<gc_board_line>& lines) {
  const uint32_t plain = function & ~uint32_t{GC_PERSISTENT};
  const bool to_root = plain == GC_FUNCTION_gather || plain == GC_FUNCTION_reduce;
  const gc_board_line* first = nullptr;
  bool truncated = false;
  for (const gc_board_line& line : lines) {
    if (line.root == kBesideRoot) continue;
    if (line.root >= static_cast<int>(lines.size())) return false;
    if (!first) first = line.root < 0 ? &line : &lines[static_cast<size_t>(line.root)];
    gc_board_line as_long = line;
    as_long.count = first->count;
    if (!same_call(*first, as_long)) return false;
    truncated |= first->root < 0 ? line.count != first->count
                 : to_root       ? line.count > first->count
                                 : line.count < first->count;
  }
  return truncated;
}

// "4 x int32, sum", "16 bytes, root 2"
std::string describe(const gc_board_line& line) {
  std::string text;
  if (line.type != kNone)
    text = std::to_string(line.count) + " x " + type_name(static_cast<gpucollDataType_t>(line.type)) + ", " +
           op_name(static_cast<gpucollRedOp_t>(line.op));
  else if (line.count)
    text = std::to_string(line.count) + " bytes";
  if (line.root >= 0) text += (text.empty() ? "root " : ", root ") + std::to_string(line.root);
  return text;
}

}  // namespace

gc_board_line line_of(const gc_call& call, int rank, int n_ranks, const gpu::Device& device) {
  gc_board_line line = {};
  line.root = call.root;
  line.type = line.op = kNone;
  if (!call.sources) line.count = bytes_of_one(call, rank == call.root, n_ranks);
  if (call.reduces) {
    line.type = static_cast<uint32_t>(call.type);
    line.op = static_cast<uint32_t>(call.op);
    line.count =
        call.sources ? call.elements : input_of(call).bytes / type_size(static_cast<gpucollDataType_t>(call.type));
  }
  if (call.recvcounts && !call.sources) line.digest = digest_of(call.recvcounts, n_ranks);
  if (call.function == GC_FUNCTION_allgatherv && !call.sources) line.digest = digest_of(call.recv.block_bytes, n_ranks);
  std::memcpy(line.device, device.identity().uuid, sizeof line.device);
  line.flags = device.shares_between_processes() ? GC_DEVICE_SHARES : 0;
  return line;
}

Status check_same_call(uint32_t function, const std::vector<gc_board_line>& lines, int rank, const char* communicator) {
  const gc_board_line& mine = lines[static_cast<size_t>(rank)];
  for (size_t r = 0; r < lines.size(); ++r) {
    if (same_call(mine, lines[r])) continue;
    std::string here = describe(mine), there = describe(lines[r]);
    if (here == there) there = "other counts for some ranks";
    const Code code = is_truncated(function, lines) ? Code::truncated : Code::invalid_usage;
    return Status::error(code, "on %s rank %d calls it with %s, but rank %zu with %s", communicator, rank, here.c_str(),
                         r, there.c_str());
  }
  return {};
}

}  // namespace gpucoll::coll
