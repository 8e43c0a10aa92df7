// The receiving end of a link over verbs (verbs.cpp).
// Thread safety, ownership: as VerbsEnd.
#pragma once
#include <vector>

#include "net/verbs/end.h"

namespace gpucoll::net {

class VerbsReceiver final : public VerbsEnd {
 public:
  using VerbsEnd::VerbsEnd;
  bool sends() const override { return false; }

  Status prepare() {
    heads_.resize(static_cast<size_t>(shape_.lanes));
    return allocate(&lanes_, true);
  }

 private:
  Result<StepProgress> move_steps() override;
  Result<bool> tell_head(int lane);
  Status try_out(Rail& rail) override;
  Status on_sent(uint64_t) override { return {}; }
  Status on_received(Rail& rail, const Completion& completion) override;
  Status on_data(int lane, const Completion& completion);
  Status on_given_up(uint32_t rails);
  Status go_on_without(const Rail& rail) override;
  Status move(int lane);

  std::vector<ReceivingLane> lanes_;
  std::vector<uint64_t> heads_;  // as told last
};

}  // namespace gpucoll::net
