// The parameters of gpucoll: one typed struct, filled from one table (params.def).
//
// A parameter `x` is `--mca coll_gpucoll_x V` under mpirun and `GPUCOLL_X=V` in the environment; an explicit
// MCA value wins. params() is filled from the environment at its first use; the component sets MCA values
// with set_param() before anything reads them.
// Thread safety: reading is free once filled; set_param() only during start-up.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/status.h"

namespace gpucoll {

enum class ParamType { integer, size, boolean, choice, text };
enum class ParamScope { local, equal };
enum class ParamLevel { user, tuning, developer };

// The values that stand for `auto` and `off`, in parameters whose type takes the word; other values of these
// parameters are never below 1.
inline constexpr int64_t kAuto = -1, kOff = 0;

struct Params {
#define GC_PARAM(name, type, def, lo, hi, scope, level, help) int64_t name = def;
#define GC_PARAM_CHOICE(name, choices, scope, level, help) int64_t name = 0;  // index into the choices
#define GC_PARAM_TEXT(name, level, help) std::string name;
#define GC_PARAM_RENAMED(old, name)
#include "base/params.def"
#undef GC_PARAM
#undef GC_PARAM_CHOICE
#undef GC_PARAM_TEXT
#undef GC_PARAM_RENAMED
};

// The choices, in the order of the table.
enum DeviceChoice : int64_t { kDeviceAuto, kDeviceCuda, kDeviceEmu };
enum TransportChoice : int64_t { kTransportAuto, kTransportP2p, kTransportShm, kTransportTcp, kTransportVerbs };
enum AlgorithmChoice : int64_t {
  kAlgorithmAuto,
  kAlgorithmRing,
  kAlgorithmTree,
  kAlgorithmOneShot,
  kAlgorithmAllPairs,
  kAlgorithmZeroCopy
};
enum ProtocolChoice : int64_t { kProtocolAuto, kProtocolSimple, kProtocolLl, kProtocolLl128 };
enum SocketFamilyChoice : int64_t { kSocketFamilyAuto, kSocketFamilyIpv4, kSocketFamilyIpv6 };
enum Ll128LinksChoice : int64_t { kLl128LinksNvlink, kLl128LinksAny };
enum FallbackChoice : int64_t { kFallbackAuto, kFallbackNone };

struct ParamInfo {
  const char* name;
  ParamType type;
  bool takes_auto, takes_off;  // besides the numbers from minimum to maximum
  ParamScope scope;
  ParamLevel level;
  int64_t default_value, minimum, maximum;
  const char* choices;  // "a|b|c" for ParamType::choice, else ""
  const char* help;
  int64_t Params::*member;    // null for ParamType::text
  std::string Params::*text;  // null for all others
};

// The table; `count` entries.
const ParamInfo* param_table(size_t* count) noexcept;
const char* level_name(ParamLevel level) noexcept;  // "user", "tuning" or "developer"
namespace detail {
const Params& filled_params() noexcept;
}
inline const Params& params() noexcept {
  static const Params& filled = detail::filled_params();
  return filled;
}
// Returns what a parameter says that takes `auto`; `automatic` where it is that. What is off gives 0.
template <class T>
constexpr T param_or(int64_t parameter, T automatic) {
  return parameter == kAuto ? automatic : static_cast<T>(parameter);
}

// Returns the index-th name that a parameter no longer has; null past the last one.
const char* old_param_name(size_t index) noexcept;

// Sets the parameter `name` from text. Errors: invalid_argument, saying what is accepted, or the new name of a
// parameter that is named otherwise now.
// `source` is one word for gpucoll-info, with static storage: "mca", "environment".
Status set_param(const char* name, const char* text, const char* source);
// Reads GPUCOLL_* again (tests). The first failure is returned, the other parameters are still read.
Status read_params_from_environment();
// Returns what went wrong when the environment was first read, or ok. The first operation that can report it raises
// it.
const Status& params_status() noexcept;

std::string accepted_text(const ParamInfo& info);              // "auto, off, 2 to 8M", "true, false", "any text"
std::string param_text(const ParamInfo& info);                 // today's value as a user would write it
std::string param_text(const ParamInfo& info, int64_t value);  // another one; not of ParamType::text
const char* param_source(const ParamInfo& info);               // "default", "environment" or "mca"
bool is_param_set(const char* name) noexcept;                  // by the user; false where there is no such parameter
const char* library_version() noexcept;                        // "0.1.0"

// "64M" -> 67108864; accepts K, M, G (powers of 1024) and an optional "iB"/"B". Errors: invalid_argument.
Result<int64_t> parse_size(const char* text);
std::string format_size(int64_t bytes);  // 67108864 -> "64M"; exact

}  // namespace gpucoll
