// The one way text leaves the library: a sink, stderr by default, Open MPI's output stream inside the component.
//
// Levels: error is always written; warn, info and debug from verbose >= 0, 1, 2. Nothing is logged on a hot path.
// Thread safety: write() may be called from any thread; set_sink() before the first thread is started.
#pragma once
#include <cstdarg>
#include <string>
#include <vector>

namespace gpucoll::log {

enum class Level : int { error = -1, warn = 0, info = 1, debug = 2 };

// Receives one line without its newline.
using Sink = void (*)(Level level, const char* line);

void set_sink(Sink sink) noexcept;
void set_verbosity(int verbosity) noexcept;
// "rank 3" or "": put before each line once it is known.
void set_identity(const char* identity) noexcept;
bool enabled(Level level) noexcept;
void write(Level level, const char* format, ...) noexcept __attribute__((format(printf, 2, 3)));

// Keeps the lines that its thread writes until it goes. Declare it before a lock: then nobody waits for the lock while
// a line is on its way out. Inside of another one it does nothing.
class Later {
 public:
  Later() noexcept;
  ~Later();
  Later(const Later&) = delete;
  Later& operator=(const Later&) = delete;

 private:
  struct Line {
    Level level;
    std::string text;
  };
  friend void write(Level level, const char* format, ...) noexcept;
  bool keep(Level level, const char* line) noexcept;

  const bool is_outer_;
  std::vector<Line> lines_;
};

}  // namespace gpucoll::log
