#include "base/log.h"

#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstring>

namespace gpucoll::log {
namespace {

void to_stderr(Level, const char* line) { std::fprintf(stderr, "%s\n", line); }

std::atomic<Sink> the_sink{to_stderr};
std::atomic<int> the_verbosity{0};
char the_identity[64];

}  // namespace

void set_sink(Sink sink) noexcept { the_sink.store(sink ? sink : to_stderr, std::memory_order_relaxed); }

void set_verbosity(int verbosity) noexcept { the_verbosity.store(verbosity, std::memory_order_relaxed); }

void set_identity(const char* identity) noexcept {
  std::snprintf(the_identity, sizeof the_identity, "%s", identity ? identity : "");
}

bool enabled(Level level) noexcept {
  return static_cast<int>(level) <= the_verbosity.load(std::memory_order_relaxed) || level == Level::error;
}

void write(Level level, const char* format, ...) noexcept {
  if (!enabled(level)) return;
  char line[1400];
  char host[64] = "?";
  gethostname(host, sizeof host - 1);
  const char* kind = level == Level::error ? "error: " : level == Level::warn ? "warning: " : "";
  int used = std::snprintf(line, sizeof line, "gpucoll [%s:%d%s%s] %s", host, static_cast<int>(getpid()),
                           the_identity[0] ? " " : "", the_identity, kind);
  va_list args;
  va_start(args, format);
  std::vsnprintf(line + used, sizeof line - static_cast<size_t>(used), format, args);
  va_end(args);
  the_sink.load(std::memory_order_relaxed)(level, line);
}

}  // namespace gpucoll::log
