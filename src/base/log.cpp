#include "base/log.h"

#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <new>

namespace gpucoll::log {
namespace {

void to_stderr(Level, const char* line) { std::fprintf(stderr, "%s\n", line); }

std::atomic<Sink> the_sink{to_stderr};
std::atomic<int> the_verbosity{0};
char the_identity[64];
thread_local Later* this_threads_lines = nullptr;

}  // namespace

Later::Later() noexcept : is_outer_(!this_threads_lines) {
  if (is_outer_) this_threads_lines = this;
}

Later::~Later() {
  if (!is_outer_) return;
  this_threads_lines = nullptr;
  for (const Line& line : lines_) the_sink.load(std::memory_order_relaxed)(line.level, line.text.c_str());
}

// Returns whether there was memory for it.
bool Later::keep(Level level, const char* line) noexcept {
  try {
    lines_.push_back({level, line});
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

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
  if (this_threads_lines && this_threads_lines->keep(level, line)) return;
  the_sink.load(std::memory_order_relaxed)(level, line);
}

}  // namespace gpucoll::log
