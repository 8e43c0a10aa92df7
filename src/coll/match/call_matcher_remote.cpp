// Connects this process with those of other nodes, and tells them what this rank stores on its board.
#include <cstddef>
#include <cstring>

#include "coll/match/call_matcher.h"

namespace gpucoll::coll {

Status CallMatcher::connect_remotes(int* rank) {
  std::vector<RemoteBoards::Wanted> wanted;
  std::vector<int> ranks;
  for (int r = 0; r < description_.size; ++r) {
    if (!remote(r)) continue;
    wanted.push_back({remote(r), peers_[static_cast<size_t>(r)]->address});
    ranks.push_back(r);
  }
  if (wanted.empty()) return {};
  asked_ = std::make_unique<std::atomic<uint64_t>[]>(static_cast<size_t>(description_.size) * GC_ORDERS);
  size_t failed = 0;
  if (Status made = RemoteBoards::instance().connect(wanted, description_.calls->progress, &failed); !made) {
    *rank = ranks[failed];
    // `unsupported` is for what nobody can mend: that there is no family of addresses in common can be.
    const Code code = made.code() == Code::unsupported ? Code::remote : made.code();
    return Status::error(code,
                         "(%s) cannot be reached: %s; open the network between the hosts, or name another interface by "
                         "the parameter socket_ifname",
                         peers_[static_cast<size_t>(*rank)]->name().c_str(), made.what());
  }
  for (const RemoteBoards::Wanted& each : wanted) remotes_.push_back(each.process);
  return {};
}

void CallMatcher::tell(std::initializer_list<Piece> pieces) const noexcept {
  if (remotes_.empty()) return;
  uint8_t message[2048];
  size_t end = 0;
  const auto append = [&](const void* data, size_t bytes) {
    std::memcpy(message + end, data, bytes);
    end += bytes;
  };
  append(&key_, sizeof key_);
  for (const Piece& each : pieces) {
    const auto offset = static_cast<const uint8_t*>(each.at) - reinterpret_cast<const uint8_t*>(entry_);
    const proto::BoardPiece piece = {static_cast<uint32_t>(offset), static_cast<uint32_t>(each.bytes)};
    append(&piece, sizeof piece);
    append(each.at, each.bytes);
  }
  for (RemoteProcess* const process : remotes_) process->put(proto::BoardMessage::kStores, message, end);
}

// In the order in which a rank stores it.
void CallMatcher::tell_line(const CallId& place) const noexcept {
  if (remotes_.empty()) return;
  const gc_board_order& order = entry_->orders[place.order];
  const gc_board_line& line = order.lines[place.number % GC_BOARD_LINES];
  constexpr size_t kRest = offsetof(gc_board_line, count);
  tell({{order.batch_size, sizeof order.batch_size},
        {reinterpret_cast<const uint8_t*>(&line) + kRest, sizeof line - kRest},
        {&line.arrival, sizeof line.arrival}});
}

// `scheduled` after the steps, and `started` after the number.
void CallMatcher::tell_starts() const noexcept {
  const gc_board_starts& own = entry_->starts;
  tell({{own.schedule, sizeof own.schedule},
        {own.numbers, sizeof own.numbers},
        {&own.scheduled, sizeof own.scheduled},
        {&own.number, sizeof own.number},
        {own.started, sizeof own.started},
        {own.held, sizeof own.held},
        {&own.read, sizeof own.read}});
}

}  // namespace gpucoll::coll
