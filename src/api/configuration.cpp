#include "api/configuration.h"

#include <cstddef>
#include <cstring>
#include <string>
#include <utility>

#include "base/params.h"

namespace gpucoll::coll {
namespace {

constexpr size_t kLongestName = 127;
constexpr int kNoLimit = 255;  // no kernel has many more blocks

bool is_set(int field) { return field != GPUCOLL_CONFIG_UNDEF_INT; }

// Copies as much as the program's header knew.
Result<gpucollConfig_t> as_of_now(const gpucollConfig_t& config) {
  constexpr size_t kFirstVersion = offsetof(gpucollConfig_t, splitShare) + 2 * sizeof(int);
  gpucollConfig_t now = GPUCOLL_CONFIG_INITIALIZER;
  if (config.magic != now.magic || config.size < kFirstVersion || config.size > sizeof now ||
      config.version > GPUCOLL_VERSION_CODE)
    return Status::error(
        Code::invalid_argument,
        "the configuration was not initialised with GPUCOLL_CONFIG_INITIALIZER, or by a newer version");
  const size_t known = config.size == kFirstVersion ? kFirstVersion - sizeof(int) : config.size;  // the rest is padding
  std::memcpy(&now, &config, known);
  return now;
}

Status check_blocks(const gpucollConfig_t& config) {
  for (const int blocks : {config.minCTAs, config.maxCTAs})
    if (is_set(blocks) && blocks < 1)
      return Status::error(Code::invalid_argument, "%s is %d: it must be 1 or more",
                           blocks == config.minCTAs ? "minCTAs" : "maxCTAs", blocks);
  return {};
}

}  // namespace

bool& waits_without_end() noexcept {
  thread_local bool without_end = false;
  return without_end;
}

Configuration configuration_of_parameters() {
  Configuration configuration = {params().split_share != 0, true, {}};
  configuration.options.waits_without_end = waits_without_end();
  configuration.options.stream_ordered = true;
  return configuration;
}

Configuration configuration_of(const core::CommShare& share) {
  return {share.shares(), !share.progress(), share.communicator()->options()};
}

Result<Configuration> read_configuration(const gpucollConfig_t* config, Configuration otherwise) {
  if (!config) return otherwise;
  GC_TRY_AS(const gpucollConfig_t now, as_of_now(*config));
  if (is_set(now.splitShare) && now.splitShare != 0 && now.splitShare != 1)
    return Status::error(Code::invalid_argument, "splitShare is %d: it must be 0 or 1", now.splitShare);
  if (is_set(now.blocking) && now.blocking != 0 && now.blocking != 1)
    return Status::error(Code::invalid_argument, "blocking is %d: it must be 0 or 1", now.blocking);
  GC_TRY(check_blocks(now));
  Configuration read = std::move(otherwise);
  if (is_set(now.splitShare)) read.shares = now.splitShare == 1;
  if (is_set(now.blocking)) read.blocks = now.blocking == 1;
  if (is_set(now.minCTAs)) read.options.min_blocks = now.minCTAs > 1 ? now.minCTAs : 0;
  if (is_set(now.maxCTAs)) read.options.max_blocks = now.maxCTAs < kNoLimit ? now.maxCTAs : 0;
  if (read.options.max_blocks && read.options.min_blocks > read.options.max_blocks) {
    if (is_set(now.minCTAs) && is_set(now.maxCTAs))
      return Status::error(Code::invalid_argument, "minCTAs is %d, which is more than maxCTAs, %d", now.minCTAs,
                           now.maxCTAs);
    // One of them is inherited, and the one that is set counts.
    (is_set(now.minCTAs) ? read.options.max_blocks : read.options.min_blocks) = 0;
  }
  if (now.commName) read.options.name = std::string(now.commName, strnlen(now.commName, kLongestName));
  return read;
}

}  // namespace gpucoll::coll
