#include "base/observe/causes.h"

#include "base/mutant.h"
#include "base/observe/counters.h"
#include "base/observe/trace.h"

namespace gpucoll {
namespace {

constexpr CauseInfo kInfos[] = {
#define GC_CAUSE(name, instead, why, advice) {#name, instead, why, advice},
#include "base/observe/causes.def"
#undef GC_CAUSE
};

constexpr Counter kCounters[] = {
#define GC_CAUSE(name, instead, why, advice) Counter::slow_##name,
#include "base/observe/causes.def"
#undef GC_CAUSE
};

// Returns whether the cause has not been told at this level or a more urgent one.
bool is_first(ToldCauses& told, Cause cause, log::Level level) noexcept {
  const uint64_t bit = uint64_t{1} << static_cast<size_t>(cause);
  const bool is_new = !(told.at_all.fetch_or(bit, std::memory_order_relaxed) & bit);
  return level > log::Level::warn ? is_new : !(told.warnings.fetch_or(bit, std::memory_order_relaxed) & bit);
}

}  // namespace

const CauseInfo& cause_info(Cause cause) noexcept { return kInfos[static_cast<size_t>(cause)]; }

void tell_cause(ToldCauses& told, Cause cause, const char* what, const char* of, const char* detail, uint64_t group,
                log::Level level) noexcept {
  if (cause == Cause::none) return;
  const CauseInfo& info = cause_info(cause);
  count(kCounters[static_cast<size_t>(cause)]);
  if (trace::on())
    trace::add(monotonic_ns(), {.what = trace::What::slow, .label = trace::label(info.name), .group = group});
  if (!log::enabled(level) || (!is_first(told, cause, level) && !gc_mutant(114))) return;
  const bool more = *detail != 0;
  log::write(level, "%s on %s %s: %s%s%s%s; %s [%s, told once]", what, of, info.instead, info.why, more ? " (" : "",
             detail, more ? ")" : "", info.advice, info.name);
}

}  // namespace gpucoll
