#include "coll/traced_messages.h"

#include <atomic>

#include "base/hash.h"
#include "base/observe/trace.h"

namespace gpucoll::coll {
namespace {

using trace::Way;
using trace::What;

// Communicators are known by their contexts here, which are small numbers.
constexpr uint64_t kContexts = uint64_t{1} << 63;

constexpr size_t kNamed = 1024;
std::atomic<uint64_t> the_named[kNamed];  // contexts plus 1; 0: none

// Returns whether the trace has no name of this context. One that another has replaced is named again.
bool lacks_name(uint64_t context) noexcept {
  return the_named[hash_combine(0, context) % kNamed].exchange(context + 1, std::memory_order_relaxed) != context + 1;
}

trace::Fields fields_of(const gc_traced_message& message) noexcept {
  const Way way = !message.ok ? Way::failed : message.by_pml ? Way::staged : Way::on_device;
  return {.what = What::message,
          .way = way,
          .label = trace::label(message.receives ? "receive" : "send"),
          .peer = message.peer < 0 ? -1 : message.peer,
          .group = message.context | kContexts,
          .number = message.tag < 0 ? 0 : static_cast<uint64_t>(message.tag) + 1,
          .bytes = message.bytes};
}

gc_traced message_begun(const gc_traced_message* message) {
  if (!trace::on()) return {};
  const int64_t begin_ns = monotonic_ns();
  if (lacks_name(message->context))
    trace::name_group(message->context | kContexts, message->rank, message->size, message->name);
  trace::Fields fields = fields_of(*message);
  fields.way = Way::none;
  const trace::Ongoing ongoing = trace::begin_ongoing(begin_ns, fields);
  return {ongoing.record, ongoing.range};
}

void message_ended(gc_traced traced, const gc_traced_message* message) {
  if (!trace::on()) return;
  trace::end({.record = traced.record, .range = traced.range}, fields_of(*message));
}

}  // namespace

void trace_messages(gc_abi* table) noexcept {
  table->message_begun = message_begun;
  table->message_ended = message_ended;
}

}  // namespace gpucoll::coll
