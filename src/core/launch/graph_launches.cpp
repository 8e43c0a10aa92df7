#include "core/launch/graph_launches.h"

#include <utility>

#include "base/log.h"

namespace gpucoll::core {

void GraphLaunches::attach(proto::ControlPage* page) noexcept {
  page_ = page;
  hold_.attach(page ? &page->held : nullptr);
}

void GraphLaunches::tell_begun(uint64_t begun) noexcept { __atomic_store_n(&page_->begun, begun, __ATOMIC_RELAXED); }

void GraphLaunches::look(int rank) noexcept {
  hold_.tell();
  const uint64_t begun = words_.begun_in_graphs();
  tell_begun(begun);  // for reports
  if (!has_ended_ || begun == begun_at_end_ || std::exchange(late_one_told_, true)) return;
  log::write(log::Level::error,
             "rank %d has launched a graph with operations of a communicator that it has destroyed or aborted: they "
             "moved nothing; launch graphs only while their communicators are there",
             rank);
}

void GraphLaunches::end() noexcept {
  if (!any() || !words_) return;
  __atomic_store_n(&words_->latch.abort, 1u, __ATOMIC_RELAXED);
  hold_.end();
}

void GraphLaunches::note_end() noexcept {
  begun_at_end_ = words_.begun_in_graphs();
  tell_begun(begun_at_end_);
  has_ended_ = true;
}

}  // namespace gpucoll::core
