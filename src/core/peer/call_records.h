// Finds out when ranks call different collectives (docs/adr/0032). Each rank writes its calls on its page
// (proto/format/calls.h) before its kernels begin, and compare() compares them with the other ranks' pages.
//
// Thread safety: publish() by one caller at a time, compare() from any thread. Ownership: peers outlive it.
#pragma once
#include <cstdint>
#include <functional>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "core/peer/peers.h"
#include "proto/format/plan.h"

namespace gpucoll::core {

// One call, as the program makes it.
struct Call {
  uint64_t count;
  uint64_t what;
};
// These numbers stand for the type and the operation where a call has none.
inline constexpr uint8_t kNoType = 255, kNoOp = 255;
struct CallNames {
  proto::Function function;
  uint8_t type = kNoType, op = kNoOp;  // as proto::DataType and proto::RedOp number them
  int32_t root = -1;
};
constexpr Call call_of(uint64_t count, const CallNames& names) {
  return {count, static_cast<uint64_t>(names.function) | uint64_t{names.type} << 8 | uint64_t{names.op} << 16 |
                     uint64_t{static_cast<uint32_t>(names.root)} << 32};
}
// Returns a sentence's words for a call: "an allreduce of 100 float32 by sum".
std::string describe(const Call& call);

class CallRecords {
 public:
  explicit CallRecords(const Peers& peers) : peers_(peers) {}

  void publish(std::span<const Call> calls) noexcept;
  // Returns ok while no two ranks are known to have called differently. Errors: invalid_usage, which says who called
  // what; remote, where a rank has closed the communicator in order before a call that this rank has made.
  Status compare();
  // Returns whether all ranks of other nodes have told of as many calls as this rank has made, or make none any more:
  // their calls come here some time after they are made, and compare() compares what is here.
  bool have_come() const noexcept;
  // Waits a little, from since_ns on, until they have_come(), or the communicator has failed; calls idle() between
  // looks. since_ns: when this rank's launches have ended.
  void await(void (*idle)(), int64_t since_ns, const std::function<bool()>& has_failed) const noexcept;

 private:
  Status compare_with(int peer);
  Status look_for_end(int peer) const;
  Status difference(int peer, uint64_t first, uint64_t last) const;

  const Peers& peers_;
  uint64_t last_ = 0, hash_ = 0;  // publish()'s
  std::mutex mutex_;
  std::vector<uint64_t> agreed_;  // by rank: how many of its calls are known to be equal to this rank's
};

}  // namespace gpucoll::core
