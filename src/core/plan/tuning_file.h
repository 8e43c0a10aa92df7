// Measured times of one machine: what gpucoll-tune writes, what corrects the tuner's predictions.
//
// docs/formats/tuning.md describes the file. Thread safety: tables do not change once read; tuning_table() may be
// called from any thread. Ownership: the process's file is read once and lives as long as the process.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "proto/format/plan.h"

namespace gpucoll::core {

// How long an operation of so many bytes took.
struct TuningPoint {
  uint64_t bytes;
  double us;
};

// The parameters that say from how many bytes on operations take other ways than kernels with slots
// (copy_engine_limits.h).
enum class Limit { zero_copy_bytes, copy_engine_bytes, copy_exchange_bytes, copy_reduction_bytes };
inline constexpr int kLimits = 4;
const char* name(Limit limit);  // of the parameter

// The times of one kind of device with one number of ranks.
struct TuningTable {
  using Points = std::vector<TuningPoint>;  // ascending bytes
  bool emulated = false;
  int n_ranks = 0;
  Points points[proto::kFunctions][proto::kAlgorithms][proto::kProtocols];
  uint64_t limits[kLimits] = {};  // what the parameters are where nobody sets them; 0: nothing was measured

  uint64_t& limit(Limit which) { return limits[static_cast<int>(which)]; }
  uint64_t limit(Limit which) const { return limits[static_cast<int>(which)]; }
  // Straight lines between the measured points, beyond them the same time (below) or bandwidth (above).
  // Negative where nothing was measured.
  double us(proto::Function function, proto::Algorithm algorithm, proto::Protocol protocol, uint64_t bytes) const;
};

struct TuningFile {
  std::vector<TuningTable> tables;
  uint64_t hash = 0;  // of the text: equal on all ranks, or their choices differ
};

// Errors: invalid_argument, with the number of the line and what is wrong there.
Result<TuningFile> parse_tuning(const std::string& text);
// Errors: also system, where the file cannot be read. Every sentence names the file.
Result<TuningFile> read_tuning(const std::string& path);
std::string format_tuning(const std::vector<TuningTable>& tables, const std::string& comment);

// Returns the table for such communicators of the file that the parameter tuning_file names, null where there is none
// or no file is named. The first call of this function or of tuning_hash() reads the file.
Result<const TuningTable*> tuning_table(bool emulated, int n_ranks);
// Its hash; 0 where there is no file, or a bad one.
uint64_t tuning_hash() noexcept;

}  // namespace gpucoll::core
