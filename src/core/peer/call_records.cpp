#include "core/peer/call_records.h"

#include <algorithm>
#include <ctime>

#include "base/monotonic.h"
#include "base/mutant.h"
#include "core/peer/call_page.h"
#include "proto/reduction.h"

namespace gpucoll::core {
namespace {

using proto::CallsPage;

// Two odd numbers without a pattern; what differs in any bit makes another hash.
uint64_t mix(uint64_t hash, const Call& call) {
  constexpr uint64_t kFirst = 0x9fb21c651e98df25, kSecond = 0xd6e8feb86659fd93;
  hash = (hash ^ call.count) * kFirst;
  hash = (hash ^ hash >> 32 ^ call.what) * kSecond;
  return hash ^ hash >> 29;
}

std::string name_in(std::span<const char* const> names, uint64_t number) {
  return number < names.size() ? names[number] : std::to_string(number);
}

constexpr const char* kFunctions[] = {"a barrier",   "a broadcast",     "an allgather", "an allreduce",
                                      "a reduce",    "a reducescatter", "a scan",       "an exscan",
                                      "an alltoall", "a gather",        "a scatter"};
constexpr const char* kTypes[] = {"int8",      "uint8",       "int32",         "uint32",      "int64",      "uint64",
                                  "float16",   "float32",     "float64",       "bfloat16",    "int16",      "uint16",
                                  "complex64", "complex128",  "float_int",     "double_int",  "long_int",   "int_int",
                                  "short_int", "float_float", "double_double", "float8_e4m3", "float8_e5m2"};
constexpr const char* kOps[] = {"sum",  "prod", "max",  "min",    "band",   "bor", "bxor",
                                "land", "lor",  "lxor", "maxloc", "minloc", "avg", "pre_mul_sum"};
static_assert(std::size(kFunctions) == proto::kFunctions);
static_assert(std::size(kTypes) == proto::kDataTypes && std::size(kOps) == proto::kRedOps);

}  // namespace

std::string describe(const Call& call) {
  const uint64_t type = call.what >> 8 & 255, op = call.what >> 16 & 255;
  const auto root = static_cast<int32_t>(call.what >> 32);
  std::string text = name_in(kFunctions, call.what & 255);
  if (type != kNoType) text += " of " + std::to_string(call.count) + " " + name_in(kTypes, type);
  if (op != kNoOp) text += " by " + name_in(kOps, op);
  if (root >= 0) text += " with root " + std::to_string(root);
  return text;
}

void CallRecords::publish(std::span<const Call> calls) noexcept {
  CallsPage& page = peers_.calls_page(peers_.rank());
  for (const Call& call : calls) {
    hash_ = mix(hash_, call);
    ++last_;
    write_record(page, {last_, hash_, call.count, call.what});
  }
}

Status CallRecords::compare() {
  std::lock_guard lock(mutex_);
  agreed_.resize(static_cast<size_t>(peers_.size()));
  if (gc_mutant(144) != 0) return {};
  for (int r = 0; r < peers_.size(); ++r)
    if (r != peers_.rank()) GC_TRY(compare_with(r));
  for (int r = 0; r < peers_.size(); ++r)
    if (r != peers_.rank()) GC_TRY(look_for_end(r));
  return {};
}

bool CallRecords::have_come() const noexcept {
  const uint64_t mine = last_call(peers_.calls_page(peers_.rank()));
  for (int r = 0; r < peers_.size(); ++r)
    if (peers_.remote(r) && last_call(peers_.calls_page(r)) < mine && !peers_.gone(r)) return false;
  return true;
}

// A rank whose call ends with the data of a peer that has made another one must learn of it before its program goes.
// The peer's watchdog tells of its calls, and a peer that settles as well tells at once.
void CallRecords::await(void (*idle)(), int64_t since_ns, const std::function<bool()>& has_failed) const noexcept {
  constexpr int64_t kPatienceNs = 500'000'000;  // some looks of a watchdog
  constexpr timespec kNap = {0, 50'000};
  if (!peers_.on_several_nodes() || gc_mutant(615)) return;
  peers_.publish();
  while (!have_come() && !has_failed() && monotonic_ns() - since_ns < kPatienceNs) {
    if (idle) idle();
    nanosleep(&kNap, nullptr);
  }
}

// A rank that is closing calls nothing more, so this rank's call would wait for ever. A fault tells more by itself.
// No page has the calls of graphs.
Status CallRecords::look_for_end(int peer) const {
  if (!peers_.closing(peer) || peers_.fault(peer) || gc_mutant(494)) return {};
  if (peers_.has_launched_graphs(peer) && !gc_mutant(495)) return {};
  const CallsPage& mine = peers_.calls_page(peers_.rank());
  const uint64_t next = last_call(peers_.calls_page(peer)) + 1;
  if (last_call(mine) < next) return {};
  const auto own = read_record(mine, next);
  return Status::error(
             Code::remote,
             "%s has finalised or destroyed the communicator before collective call %llu of it, which rank %d "
             "has made%s%s",
             peers_.name(peer).c_str(), static_cast<unsigned long long>(next), peers_.number(peers_.rank()),
             own ? ": " : "", own ? describe({own->count, own->what}).c_str() : "")
      .blaming();
}

// By the latest call that both have made, if both remember it: hashes are of all before as well.
Status CallRecords::compare_with(int peer) {
  const CallsPage &mine = peers_.calls_page(peers_.rank()), &theirs = peers_.calls_page(peer);
  uint64_t& agreed = agreed_[static_cast<size_t>(peer)];
  const uint64_t last = std::min(last_call(mine), last_call(theirs));
  if (last == agreed) return {};
  const auto own = read_record(mine, last), other = read_record(theirs, last);
  if (!own || !other) return {};
  if (own->hash != other->hash) return difference(peer, agreed + 1, last);
  agreed = last;
  return {};
}

Status CallRecords::difference(int peer, uint64_t first, uint64_t last) const {
  constexpr char kAdvice[] =
      ": all ranks must make the same collective calls in the same order, with the same count, datatype, op and root";
  for (uint64_t number = first; number <= last; ++number) {
    const auto own = read_record(peers_.calls_page(peers_.rank()), number),
               other = read_record(peers_.calls_page(peer), number);
    if (!own || !other || (own->count == other->count && own->what == other->what)) continue;
    return Status::error(Code::invalid_usage,
                         "rank %d calls %s, but %s calls %s (its collective call %llu of the "
                         "communicator)%s",
                         peers_.rank(), describe({own->count, own->what}).c_str(), peers_.name(peer).c_str(),
                         describe({other->count, other->what}).c_str(), static_cast<unsigned long long>(number),
                         kAdvice);
  }
  return Status::error(Code::invalid_usage,
                       "rank %d and %s have made different collective calls, before their call "
                       "%llu of the communicator%s",
                       peers_.rank(), peers_.name(peer).c_str(), static_cast<unsigned long long>(last), kAdvice);
}

}  // namespace gpucoll::core
