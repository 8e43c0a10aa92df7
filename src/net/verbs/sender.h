// The sending end of a link over verbs (verbs.cpp).
// Thread safety, ownership: as VerbsEnd.
#pragma once
#include <vector>

#include "net/verbs/end.h"

namespace gpucoll::net {

class VerbsSender final : public VerbsEnd {
 public:
  using VerbsEnd::VerbsEnd;
  bool sends() const override { return true; }

  Status prepare() {
    passed_.resize(static_cast<size_t>(shape_.lanes));
    return allocate(&lanes_, false);
  }

 private:
  Result<StepProgress> move_steps() override;
  // How far a lane is, in steps.
  struct Passed {
    uint64_t posted = 0;
    uint64_t sent = 0;     // and acknowledged
    uint64_t head = 0;     // as the other side has told
    uint64_t drained = 0;  // both
    uint64_t again = 0;    // the notes of slices before it were perhaps lost
  };

  Result<bool> send_filled(int lane);
  Status send(int lane, const proto::StepFrame& frame, const uint8_t* data);
  Status post(Rail& rail, int lane, const proto::StepFrame& frame, const uint8_t* data);
  Status try_out(Rail& rail) override;
  Status on_sent(uint64_t id) override;
  Status on_received(Rail& rail, const Completion& completion) override;
  Status on_head(Passed& passed, uint32_t immediate);
  Status go_on(Rail& rail, int lane, uint32_t immediate);
  Status go_on_without(const Rail& rail) override;
  Status pass(int lane);

  std::vector<SendingLane> lanes_;
  std::vector<Passed> passed_;
};

}  // namespace gpucoll::net
