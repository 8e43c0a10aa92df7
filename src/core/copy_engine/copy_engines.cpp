#include "core/copy_engine/copy_engines.h"

#include <utility>

namespace gpucoll::core {

void CopyEngines::carry_reductions(std::vector<void*> landing) {
  reduction_.emplace(CopyReductionContext{context_.device, context_.fault, context_.peers, pages_}, std::move(landing));
  watched_.store(&*reduction_, std::memory_order_release);
}

Result<CopyEngines::Taken> CopyEngines::take(const TaskQueue& queue, const CommProperties& shape) {
  Taken taken = {&queue, nullptr, {}};
  ops_.clear();
  if (reduction_) {
    GC_TRY_AS(const bool reduces, reduction_->begin(queue, shape, &taken.steps));
    if (reduces) ops_.add(*reduction_);
  }
  if (!queue.sends.empty() || !queue.recvs.empty()) {
    GC_TRY_AS(const bool moves, messages_.begin(queue, &rest_));
    if (moves) {
      ops_.add(messages_);
      taken.rest = &rest_;
    }
  }
  if (!ops_.empty()) taken.ops = &ops_;
  return taken;
}

uint64_t CopyEngines::groups_begun() const noexcept {
  const CopyReduction* const reduction = watched();
  return messages_.groups_begun() + (reduction ? reduction->groups() : 0);
}

uint64_t CopyEngines::groups_passed() const noexcept {
  const CopyReduction* const reduction = watched();
  return messages_.passed() + (reduction ? reduction->passed() : 0);
}

std::string CopyEngines::waiting_for() {
  std::string message = messages_.waiting_for();
  if (const CopyReduction* const reduction = watched(); reduction && message.empty())
    message = reduction->waiting_for();
  return message;
}

void CopyEngines::give_up() noexcept {
  if (CopyReduction* const reduction = watched()) reduction->give_up();
  messages_.release_if_kept_out();
}

}  // namespace gpucoll::core
