#include "coll/match/board_entries.h"

#include <cstddef>
#include <cstring>

#include "base/hash.h"

namespace gpucoll::coll {

core::BoardKey BoardEntries::make_key() const {
  uint64_t members = static_cast<uint64_t>(description_.size);
  for (int r = 0; r < description_.size; ++r)
    members = hash_combine(members, description_.calls->process_name(description_.ctx, r));
  uint64_t incarnation = MpiProcess::instance().incarnation(description_.context_id, members);
  uint64_t a = hash_combine(hash_combine(members, description_.context_id), incarnation);
  return {{a, hash_combine(a, 0x5bd1e995) | 1}};  // never 0: that marks a free entry
}

Status BoardEntries::open() {
  key_ = make_key();
  entry_ = MpiProcess::instance().board().claim(key_);
  if (entry_) return {};
  return Status::error(Code::out_of_memory,
                       "no room on the arrival board for communicator %s: free communicators that are no longer used",
                       description_.name);
}

BoardEntries::~BoardEntries() {
  if (!entry_) return;
  MpiProcess::instance().board().release(entry_);
  for (RemoteProcess* const process : remotes_) {
    process->put(proto::BoardMessage::kReleased, &key_, sizeof key_);
    process->forget(key_);
  }
}

// ---- the other ranks ----

Status BoardEntries::find_peers(int* rank) {
  const auto n = static_cast<size_t>(description_.size);
  peers_.assign(n, nullptr);
  peer_entries_.assign(n, nullptr);
  for (int r = 0; r < description_.size; ++r) {
    if (r == description_.rank) continue;
    *rank = r;
    GC_TRY_AS(peers_[static_cast<size_t>(r)],
              MpiProcess::instance().peer(description_.calls->peer(description_.ctx, r), description_.rank));
  }
  return connect_remotes(rank);
}

Status BoardEntries::connect_remotes(int* rank) {
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

const gc_board_entry* BoardEntries::look_anew(int rank) noexcept {
  const gc_board_entry* const entry = board_of(rank).find(key_);
  if (entry) __atomic_store_n(&peer_entries_[static_cast<size_t>(rank)], entry, __ATOMIC_RELAXED);
  return entry;
}

std::string BoardEntries::rank_name(int rank) const {
  const PeerProcess* peer = peers_[static_cast<size_t>(rank)];
  return "rank " + std::to_string(rank) + (peer ? " (" + peer->name() + ")" : "");
}

bool BoardEntries::has_left(int rank) const noexcept {
  const gc_board_entry& entry = of(rank);
  return __atomic_load_n(&entry.left, __ATOMIC_ACQUIRE) ||
         __atomic_load_n(&entry.key[1], __ATOMIC_ACQUIRE) != key_.word[1];
}

std::vector<core::Surroundings::Bystander> BoardEntries::bystanders() const {
  std::vector<core::Surroundings::Bystander> all;
  for (int r = 0; r < description_.size; ++r)
    if (const PeerProcess* const peer = peers_[static_cast<size_t>(r)])
      all.push_back({rank_name(r), &peer->board().pulse()});
  return all;
}

// ---- other nodes ----

void BoardEntries::send(std::initializer_list<Piece> pieces) const noexcept {
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

void BoardEntries::tell_line(const CallId& place) const noexcept {
  if (remotes_.empty()) return;
  const gc_board_order& order = entry_->orders[place.order];
  const gc_board_line& line = own_line(place);
  constexpr size_t kRest = offsetof(gc_board_line, count);
  tell({{order.batch_size, sizeof order.batch_size},
        {reinterpret_cast<const uint8_t*>(&line) + kRest, sizeof line - kRest},
        {&line.arrival, sizeof line.arrival}});
}

void BoardEntries::ask(int rank, const CallId& place) noexcept {
  std::atomic<uint64_t>& asked = asked_[static_cast<size_t>(rank) * GC_ORDERS + place.order];
  uint64_t last = asked.load(std::memory_order_relaxed);
  if (last < place.number && asked.compare_exchange_strong(last, place.number))
    remote(rank)->await(key_, place.order, place.number);
}

}  // namespace gpucoll::coll
