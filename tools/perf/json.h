// The parts of the JSON that gpucoll-perf writes and reads again: docs/formats/perf.md.
//
// Thread safety: pure functions.
#pragma once
#include <nlohmann/json.hpp>

#include "perf/figures.h"
#include "perf/heading.h"
#include "perf/options.h"

namespace gpucoll::perf {

// What does not change from row to row.
nlohmann::ordered_json heading_json(const Options& options, const Heading& heading);
// What tells a row from the others.
nlohmann::ordered_json identity_json(const Call& call);
nlohmann::ordered_json row_json(const Row& row, const Figures& figures, const Options& options);

}  // namespace gpucoll::perf
