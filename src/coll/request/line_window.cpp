#include "coll/request/line_window.h"

namespace gpucoll::coll {

bool LineWindow::is_free(uint64_t number) {
  uint64_t& needed = needed_[number % GC_BOARD_LINES];
  if (needed && needed <= decided_ && matcher_.undecided({GC_ORDER_NONBLOCKING, needed, GC_FUNCTION_none}) < 0)
    needed = 0;
  return needed == 0 || matcher_.failures().failed();
}

bool LineWindow::all_free() {
  for (uint64_t line = 0; line < GC_BOARD_LINES; ++line)
    if (!is_free(line)) return false;
  return true;
}

// The last reader of a line may read it between the two looks: then other lines count.
LineWindow::Reader LineWindow::reader() {
  for (uint64_t line = 0; line < GC_BOARD_LINES; ++line) {
    if (is_free(line)) continue;
    if (const Reader reader = reader_of(line); reader.rank >= 0) return reader;
  }
  return {-1, 0};
}

LineWindow::Reader LineWindow::reader_of(uint64_t number) const {
  const uint64_t needed = needed_[number % GC_BOARD_LINES];
  return {matcher_.undecided({GC_ORDER_NONBLOCKING, needed, GC_FUNCTION_none}), needed};
}

}  // namespace gpucoll::coll
