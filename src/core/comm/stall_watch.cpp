#include "core/comm/stall_watch.h"

#include "base/log.h"
#include "base/mutant.h"
#include "base/params.h"

namespace gpucoll::core {

Status StallWatch::look(uint64_t launched, CopyEngines* copies) {
  const uint64_t begun = copies ? copies->groups_begun() : 0, passed = copies ? copies->groups_passed() : 0;
  const uint64_t run = words_.done(), in_graphs = words_.ended_in_graphs();
  const uint32_t running = gc_mutant(142) != 0 ? 0 : words_.running_in_graphs();
  if (!goes_on(run + passed + in_graphs, launched + begun + in_graphs + running)) return {};
  const long long waited = std::chrono::duration_cast<std::chrono::seconds>(RunningClock::now() - since_).count();
  const auto is_over = [&](int64_t seconds) { return seconds && waited >= seconds; };
  const bool reports = !is_told_ && is_over(params().report_after), ends = is_over(peers_.timeout());
  if (!reports && !ends) return {};
  const std::string others = running != 0 ? waiting_in_graphs() : waiting_for(run + 1, copies);
  is_told_ = true;
  // Where nobody is missing, a stream may have other work first; but a rank may also have stopped, or its device hang.
  if (ends && !(others.empty() && gc_mutant(422))) return timed_out(waited, others);
  if (reports && !others.empty())
    log::write(log::Level::warn, "rank %d has waited %lld s (parameter report_after) %s", peers_.number(peers_.rank()),
               waited, others.c_str());
  return {};
}

bool StallWatch::goes_on(uint64_t done, uint64_t launched) noexcept {
  if (done < launched && done == done_ && since_ != RunningClock::time_point()) return true;
  done_ = done;
  since_ = done < launched ? RunningClock::now() : RunningClock::time_point();
  began_ = std::chrono::steady_clock::now();
  is_told_ = false;
  return false;
}

Status StallWatch::timed_out(long long waited_s, const std::string& others) const {
  GC_TRY(peers_.stopped(began_, waited_s));
  constexpr char kSentence[] = "rank %d has waited %lld s (parameter timeout) %s";
  const int self = peers_.number(peers_.rank());
  if (!others.empty()) return Status::error(Code::timed_out, kSentence, self, waited_s, others.c_str()).blaming();
  return Status::error(Code::timed_out, kSentence, self, waited_s,
                       "for all ranks, which have come as far: their calls may differ in count, datatype, op or root");
}

// Returns on whom this rank waits, as far as it is known.
std::string StallWatch::waiting_for(uint64_t launch, CopyEngines* copies) const {
  if (const std::string message = copies ? copies->waiting_for() : ""; !message.empty()) return "for " + message;
  const std::string missing = peers_.missing(launch);
  if (missing.empty()) return "";
  return "in its launch " + std::to_string(launch) + " of this communicator; fewer launches have been made by " +
         missing;
}

std::string StallWatch::waiting_in_graphs() const {
  const uint64_t begun = words_.begun_in_graphs();
  const std::string missing = peers_.missing_in_graphs(begun);
  if (missing.empty()) return "";
  return "in launch " + std::to_string(begun) + " of the graphs of this communicator; fewer have been begun by " +
         missing;
}

}  // namespace gpucoll::core
