#include "api/exchange.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "task/buffer_check.h"
#include "task/collective_task.h"
#include "task/types.h"

namespace gpucoll::coll {
namespace {

// A part that goes to or comes from one peer.
struct Part {
  int peer;
  size_t offset, bytes;
};

Result<Part> part_of(const Side& side, gpucollDataType_t type, int peer) {
  const auto i = static_cast<size_t>(peer);
  GC_TRY_AS(const size_t bytes, bytes_of(side.count_name, side.counts ? side.counts[i] : side.count, type));
  size_t offset = 0;
  if (side.displs) {
    GC_TRY_AS(offset, bytes_of(side.displs_name, side.displs[i], type));
  } else if (side.only == Side::kAllPeers) {
    GC_TRY_AS(offset, bytes_of(side.count_name, side.count, type, i));
  }
  if (offset > SIZE_MAX - bytes)
    return Status::error(Code::invalid_argument, "%s of peer %d and its displacement are larger than any memory",
                         side.count_name, peer);
  return Part{peer, offset, bytes};
}

Result<std::vector<Part>> parts_of(const Caller& caller, const Side& side, gpucollDataType_t type) {
  std::vector<Part> parts;
  if (side.only != Side::kNoPeer) parts.reserve(side.only == Side::kAllPeers ? static_cast<size_t>(caller.n_ranks) : 1);
  for (int peer = 0; peer < caller.n_ranks; ++peer) {
    if (side.only != Side::kAllPeers && side.only != peer) continue;
    GC_TRY_AS(const Part part, part_of(side, type, peer));
    parts.push_back(part);
  }
  size_t end = 0;
  for (const Part& part : parts)
    if (part.bytes) end = std::max(end, part.offset + part.bytes);
  GC_TRY(check_buffer(caller.device, side.name, side.buffer, end, type));
  return parts;
}

const char* at(const Side& side, const Part& part) { return static_cast<const char*>(side.buffer) + part.offset; }

const Part* own(const Caller& caller, const std::vector<Part>& parts) {
  for (const Part& part : parts)
    if (part.peer == caller.rank) return &part;
  return nullptr;
}

// The own part of both sides must be of one size; it falls away where it is in place.
Status settle_own_part(const Caller& caller, const ExchangeCall& call, std::vector<Part>* sends,
                       std::vector<Part>* recvs) {
  const Part *sent = own(caller, *sends), *received = own(caller, *recvs);
  if (!sent || !received) return {};
  if (sent->bytes != received->bytes)
    return Status::error(Code::invalid_argument, "%s says that this rank %d sends %zu bytes to itself, but %s says %zu",
                         call.send.count_name, caller.rank, sent->bytes, call.recv.count_name, received->bytes);
  if (!call.own_part_in_place || at(call.send, *sent) != at(call.recv, *received)) return {};
  std::erase_if(*sends, [&](const Part& part) { return part.peer == caller.rank; });
  std::erase_if(*recvs, [&](const Part& part) { return part.peer == caller.rank; });
  return {};
}

// In place, the same buffer is both sides.
Status check_overlap(const ExchangeCall& call, const std::vector<Part>& sends, const std::vector<Part>& recvs) {
  const bool in_place = call.function == core::Function::all_to_all && call.send.buffer == call.recv.buffer;
  std::vector<Range> ranges;
  ranges.reserve(sends.size() + recvs.size());
  if (!in_place)
    for (const Part& part : sends) ranges.push_back(range_of(at(call.send, part), part.bytes, false));
  for (const Part& part : recvs) ranges.push_back(range_of(at(call.recv, part), part.bytes, true));
  if (!overlap(std::move(ranges))) return {};
  return Status::error(Code::invalid_argument, "parts of %s overlap each other or parts of %s", call.recv.name,
                       call.send.name);
}

std::vector<core::Message> messages_of(const Caller& caller, const ExchangeCall& call, const std::vector<Part>& sends,
                                       const std::vector<Part>& recvs) {
  const bool all_with_all = call.send.only == Side::kAllPeers && call.recv.only == Side::kAllPeers;
  auto task = [&](const Side& side, const Part& part) {
    return core::SendRecvTask{part.bytes ? caller.device.kernel_address(at(side, part)) : nullptr, part.bytes,
                              call.stream, all_with_all};
  };
  std::vector<core::Message> messages;
  messages.reserve(sends.size() + recvs.size());
  for (const Part& part : sends) messages.push_back({true, part.peer, task(call.send, part)});
  for (const Part& part : recvs) messages.push_back({false, part.peer, task(call.recv, part)});
  return messages;
}

core::CollectiveTask task_of(const Caller& caller, const ExchangeCall& call, size_t bytes) {
  const auto address = [&](const Side& side) {
    const bool used = side.only != Side::kNoPeer;
    return used ? caller.device.kernel_address(side.buffer) : nullptr;
  };
  core::CollectiveTask task = moving_task(call.function);
  task.send = address(call.send);
  task.recv = address(call.recv);
  task.count = bytes;
  task.element_bytes = 1;
  task.root = static_cast<uint32_t>(call.root);
  task.stream = call.stream;
  return task;
}

}  // namespace

Status enqueue_exchange(const Caller& caller, const core::CommShare& share, const ExchangeCall& call,
                        core::Repeat* repeat) {
  GC_TRY(check_type(call.type));
  GC_TRY_AS(std::vector<Part> sends, parts_of(caller, call.send, call.type));
  GC_TRY_AS(std::vector<Part> recvs, parts_of(caller, call.recv, call.type));
  GC_TRY(settle_own_part(caller, call, &sends, &recvs));
  GC_TRY(check_overlap(call, sends, recvs));
  if (call.function != core::Function::send_recv) {
    GC_TRY_AS(const size_t bytes, bytes_of(call.send.count_name, call.send.count, call.type));
    const bool has_root = call.function != core::Function::all_to_all;
    const core::Call named = core::call_of(
        call.send.count, {call.function, static_cast<uint8_t>(call.type), core::kNoOp, has_root ? call.root : -1});
    return core::enqueue(share, task_of(caller, call, bytes), named, repeat);
  }
  return core::enqueue_messages(share, messages_of(caller, call, sends, recvs), repeat);
}

}  // namespace gpucoll::coll
