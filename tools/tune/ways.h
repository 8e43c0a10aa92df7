// The ways in which a function can run, how each of them is forced, and which limits follow from their times.
//
// Thread safety: force() as parameters have it; the rest are pure functions.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "core/plan/tuner.h"
#include "core/plan/tuning_file.h"
#include "tune/team.h"

namespace gpucoll::tune {

struct Way {
  enum class Kind {
    timed,  // an algorithm and protocol; of exchanges pairwise: as messages. The tuner compares their times
    limit,  // another way, that is taken from some size on
  };
  Kind kind;
  core::Algorithm algorithm;  // timed
  core::Protocol protocol;    // timed
  core::Limit limit;          // limit
};

// scans: whether there is something that runs scans.
bool can_be_measured(core::Function function, bool scans);
std::vector<Way> ways_of(core::Function function);
std::string name(const Way& way);
// Whether it can run so many bytes, which the tuner knows.
bool possible(const Way& way, core::Function function, uint64_t bytes, const core::CommProperties& shape);
// Lets the library take it, and tells by which of a rank's communicators.
Result<Engines> force(const Way& way, core::Function function);

// How long the way took, and the fastest of the others.
struct Rivals {
  uint64_t bytes;
  double way_us, others_us;
};
// From how many bytes on the way is faster, at all larger sizes as well; one more than the largest size measured where
// it never is. Nothing for no sizes. REQUIRES: ascending bytes.
std::optional<uint64_t> limit_of(const std::vector<Rivals>& sizes);

}  // namespace gpucoll::tune
