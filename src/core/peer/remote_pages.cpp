#include "core/peer/remote_pages.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <thread>
#include <utility>

#include "base/log.h"
#include "base/monotonic.h"
#include "base/mutant.h"
#include "base/params.h"
#include "core/peer/call_page.h"
#include "core/peer/heart.h"
#include "core/peer/letter.h"
#include "net/tcp/endpoint.h"
#include "topo/node.h"

namespace gpucoll::core {
namespace {

using net::Endpoint;
using net::Token;
using proto::CallRecord;
using proto::CallsPage;
using proto::ControlPage;
using proto::NetworkAddress;
using proto::RemoteKind;
using proto::RemoteLetter;
using proto::WireupSlot;

// The channel between two ranks: by the listener's token and the number of the rank that dials.
Token channel_token(const NetworkAddress& listener, int dialer) {
  return {listener.token[0], listener.token[1] ^ static_cast<uint64_t>(dialer + 1)};
}

// A channel keeps so many bytes for a rank that does not read.
constexpr size_t kMostBacklog = 64 << 10;

// Reads what is to be told of a page. The words that say that the rank has failed or is through come before the rest,
// so that these are not told too early.
ControlPage state_of(const ControlPage& page) {
  ControlPage state = {};
  state.closing = __atomic_load_n(&page.closing, __ATOMIC_ACQUIRE);
  state.left = __atomic_load_n(&page.left, __ATOMIC_ACQUIRE);
  state.fault = __atomic_load_n(&page.fault, __ATOMIC_ACQUIRE);
  state.magic = page.magic;
  state.rank = page.rank;
  state.entered = __atomic_load_n(&page.entered, __ATOMIC_ACQUIRE);
  state.begun = __atomic_load_n(&page.begun, __ATOMIC_RELAXED);
  state.held = __atomic_load_n(&page.held, __ATOMIC_RELAXED);
  state.pulse.beat_ns = __atomic_load_n(&page.pulse.beat_ns, __ATOMIC_RELAXED);
  if (state.fault != 0) std::memcpy(state.fault_text, page.fault_text, sizeof state.fault_text);
  return state;
}

template <class T>
void copy_word(T* to, const T& from) {
  __atomic_store_n(to, from, __ATOMIC_RELAXED);
}

}  // namespace

// The copy of a remote rank's page, and the channel to that rank.
class RemotePages::Copy final : public net::ChannelListener {
 public:
  Copy(int reader, int size, uint8_t* page) : reader_(reader), size_(size), page_(page) {}
  ~Copy() override { channel_->retire(); }

  const std::shared_ptr<net::Channel>& channel() const { return channel_; }
  uint64_t calls_told = 0;  // the last call that this rank has told the other one of
  void put(RemoteKind kind, const void* payload, size_t bytes) {
    channel_->put(static_cast<uint32_t>(kind), payload, bytes);
  }

  // Stores that the other rank has shown now that it runs, or that its heart does not beat.
  void hear(bool beats) noexcept {
    auto& page = *reinterpret_cast<ControlPage*>(page_);
    copy_word(&page.pulse.beat_ns, beats ? static_cast<uint64_t>(monotonic_ns()) : 0);
  }

  bool on_message(const net::MessageReader::Message& message) noexcept override {
    switch (static_cast<RemoteKind>(message.kind)) {
      case RemoteKind::kState: return message.bytes == sizeof(ControlPage) && take_state(message.payload);
      case RemoteKind::kLetter: return message.bytes == sizeof(RemoteLetter) && take_letter(message.payload);
      case RemoteKind::kCalls: return message.bytes % sizeof(CallRecord) == 0 && take_calls(message);
    }
    return false;
  }

 private:
  // Stores the text before the fault that it belongs to, and all before what says that the rank is through.
  bool take_state(const uint8_t* payload) noexcept {
    ControlPage state;
    std::memcpy(&state, payload, sizeof state);
    if (state.fault > static_cast<uint32_t>(Code::truncated)) return false;
    auto& page = *reinterpret_cast<ControlPage*>(page_);
    if (__atomic_load_n(&page.fault, __ATOMIC_RELAXED) == 0) {
      state.fault_text[sizeof state.fault_text - 1] = 0;
      std::memcpy(page.fault_text, state.fault_text, sizeof page.fault_text);
    }
    copy_word(&page.entered, state.entered);
    copy_word(&page.begun, state.begun);
    copy_word(&page.held, state.held);
    hear(state.pulse.beat_ns != 0);
    __atomic_store_n(&page.fault, state.fault, __ATOMIC_SEQ_CST);  // partners: as for the page itself
    __atomic_store_n(&page.left, state.left, __ATOMIC_RELEASE);
    __atomic_store_n(&page.closing, state.closing, __ATOMIC_RELEASE);
    return true;
  }

  bool take_letter(const uint8_t* payload) noexcept {
    RemoteLetter letter;
    std::memcpy(&letter, payload, sizeof letter);
    if (letter.lane < 0 || letter.lane >= proto::kLanes) return false;
    auto& slot = *reinterpret_cast<WireupSlot*>(page_ + proto::wireup_offset(reader_, letter.lane, letter.number));
    write_letter(slot, letter.number, letter.payload);
    return true;
  }

  bool take_calls(const net::MessageReader::Message& message) noexcept {
    auto& page = *reinterpret_cast<CallsPage*>(page_ + proto::calls_page_offset(size_));
    CallRecord record;
    for (size_t at = 0; at < message.bytes; at += sizeof record) {
      std::memcpy(&record, message.payload + at, sizeof record);
      write_record(page, record);
    }
    return true;
  }

  const int reader_, size_;
  uint8_t* const page_;
  std::shared_ptr<net::Channel> channel_ = std::make_shared<net::Channel>(this);
};

RemotePages::RemotePages(int rank, int size, uint8_t* own_page) : rank_(rank), size_(size), own_(own_page) {}
RemotePages::~RemotePages() = default;

Status RemotePages::listen() {
  copies_.resize(static_cast<size_t>(size_));
  GC_TRY_AS(mine_.at, Endpoint::instance().address());
  GC_TRY_AS(const Token token, net::random_token());
  mine_.token[0] = token.low;
  mine_.token[1] = token.high;
  return {};
}

Status RemotePages::exchange_addresses(net::Bootstrap& bootstrap) {
  std::snprintf(mine_.host, sizeof mine_.host, "%s", topo::host_name().c_str());
  addresses_.resize(static_cast<size_t>(size_));
  return bootstrap.allgather(&mine_, addresses_.data(), sizeof mine_);
}

void RemotePages::add(int rank, uint8_t* copy) {
  auto& kept = copies_[static_cast<size_t>(rank)];
  kept = std::make_unique<Copy>(rank_, size_, copy);
  if (rank < rank_) Endpoint::instance().serve(kept->channel(), channel_token(mine_, rank));
}

Status RemotePages::unreached(int rank, const Status& why) const {
  return Status::error(why.code(), "rank %d cannot reach rank %d on host %s: %s", rank_, rank, host(rank).c_str(),
                       why.what())
      .blaming();
}

Result<std::vector<RemotePages::Dialing>> RemotePages::begin_dialing() const {
  std::vector<Dialing> pending;
  for (int r = rank_ + 1; r < size_; ++r) {
    const NetworkAddress& address = addresses_[static_cast<size_t>(r)];
    if (!copy(r)) continue;
    auto dialed = net::dial_endpoint(address.at, channel_token(address, rank_), 0);
    if (!dialed) return unreached(r, dialed.status());
    pending.push_back({r, *std::move(dialed)});
  }
  return pending;
}

// Goes on with the connections that are not made yet, and returns whether all are.
Result<bool> RemotePages::advance(std::vector<Dialing>* pending) {
  for (size_t i = 0; i < pending->size();) {
    Dialing& dialing = (*pending)[i];
    auto socket = dialing.dialed.finish();
    if (!socket) return unreached(dialing.rank, socket.status());
    if (!*socket) {
      ++i;
      continue;
    }
    Endpoint::instance().serve(copy(dialing.rank)->channel(), *std::move(socket));
    pending->erase(pending->begin() + static_cast<std::ptrdiff_t>(i));
  }
  return pending->empty();
}

std::string RemotePages::unanswered(const Dialing& dialing, int64_t waited_s, const char* parameter) const {
  return net::unanswered("rank " + std::to_string(rank_), waited_s, parameter,
                         "rank " + std::to_string(dialing.rank) + " on host " + host(dialing.rank),
                         dialing.dialed.address(), dialing.dialed.taken());
}

// A rank that waits for those that dial it waits where all agree, and no longer than these.
Status RemotePages::connect(const Watch& watch, int64_t timeout_s) {
  constexpr int kLooksPerCheck = 64;
  constexpr std::chrono::milliseconds kHeadStart(500);  // before those who wait for this rank
  const auto listens = [](const NetworkAddress& address) { return address.at.anywhere(); };
  if (!std::all_of(addresses_.begin(), addresses_.end(), listens)) return {};
  GC_TRY_AS(std::vector<Dialing> pending, begin_dialing());
  const auto start = RunningClock::now();
  bool told = false;
  for (int looks = 1;; ++looks) {
    GC_TRY_AS(const bool all, advance(&pending));
    if (all) return {};
    std::this_thread::sleep_for(std::chrono::microseconds(200));
    if (looks % kLooksPerCheck != 0) continue;
    if (!gc_mutant(451)) GC_TRY(watch());
    const int64_t report_after = params().report_after;
    const auto waited = RunningClock::now() - start;
    if (report_after && waited > std::chrono::seconds(report_after) && !std::exchange(told, true))
      log::write(log::Level::warn, "%s", unanswered(pending[0], report_after, "report_after").c_str());
    if (timeout_s && waited > std::chrono::seconds(timeout_s) - kHeadStart)
      return Status::error(Code::timed_out, "%s", unanswered(pending[0], timeout_s, "timeout").c_str()).blaming();
  }
}

void RemotePages::hear_all() noexcept {
  for (const auto& kept : copies_)
    if (kept) kept->hear(true);
}

bool RemotePages::alive(int rank) const noexcept {
  const Copy* const kept = copy(rank);
  return !kept || !kept->channel()->ended();
}

std::string RemotePages::host(int rank) const {
  const NetworkAddress& address = addresses_[static_cast<size_t>(rank)];
  return std::string(address.host, strnlen(address.host, sizeof address.host));
}

void RemotePages::publish() noexcept {
  contained([&]() -> Status {
    std::lock_guard lock(mutex_);
    const ControlPage state = state_of(*reinterpret_cast<const ControlPage*>(own_));
    // A rank that is stopped for long reads nothing; once it goes on, the latest state is as good as all.
    const uint32_t news[] = {state.closing, state.left, state.fault};
    const bool has_news = std::memcmp(news, told_, sizeof told_) != 0;
    std::memcpy(told_, news, sizeof told_);
    for (const auto& kept : copies_)
      if (kept && (has_news || kept->channel()->backlog() <= kMostBacklog)) tell(*kept, state);
    return {};
  }).ignore();
}

// REQUIRES: the mutex.
void RemotePages::tell(Copy& kept, const ControlPage& state) {
  const auto& calls = *reinterpret_cast<const CallsPage*>(own_ + proto::calls_page_offset(size_));
  kept.calls_told = read_records(calls, kept.calls_told, &new_calls_);
  if (!new_calls_.empty()) kept.put(RemoteKind::kCalls, new_calls_.data(), new_calls_.size() * sizeof(CallRecord));
  kept.put(RemoteKind::kState, &state, sizeof state);
}

Status RemotePages::send_letter(int rank, int lane, uint64_t number) noexcept {
  const auto& slot = *reinterpret_cast<const WireupSlot*>(own_ + proto::wireup_offset(rank, lane, number));
  RemoteLetter letter = {lane, 0, number, {}};
  std::memcpy(letter.payload, slot.payload, sizeof letter.payload);
  return contained([&]() -> Status {
    copy(rank)->put(RemoteKind::kLetter, &letter, sizeof letter);
    return {};
  });
}

}  // namespace gpucoll::core
