// One lane of a connection over a network, as the host sees it: it takes from the slots what kernels have filled, and
// puts into the slots what has come.
//
// Errors are what only a peer that runs astray, or another program, can cause: Code::internal or Code::remote.
// Thread safety: one caller at a time, beside the kernels. Ownership: borrows the blocks.
#pragma once
#include <cstdint>

#include "base/status.h"
#include "proto/format/connection.h"
#include "proto/format/step_frame.h"

namespace gpucoll::net {

class SendingLane {
 public:
  SendingLane(uint8_t* receive_block, uint8_t* send_block, const proto::ConnectionShape& shape)
      : receive_(receive_block), send_(send_block), slot_bytes_(shape.simple) {}
  // Returns whether kernels have filled one more slice: its frame, without the lane's number, and where its data lie.
  Result<bool> next(proto::StepFrame* frame, const uint8_t** data);
  // The receiver has drained so many steps.
  Status drained(uint64_t head);
  // Hands out once more what lies behind a step, which the receiver has not got. Errors: remote, where it is no step
  // that the receiver can be at.
  Status go_back(uint64_t step);
  // Returns whether the receiver has drained all that kernels have filled.
  bool all_drained() const noexcept;

 private:
  uint8_t* receive_;
  uint8_t* send_;
  uint64_t slot_bytes_;
  uint64_t sent_ = 0, head_ = 0;  // steps
};

class ReceivingLane {
 public:
  ReceivingLane(uint8_t* receive_block, uint8_t* send_block, const proto::ConnectionShape& shape)
      : receive_(receive_block), send_(send_block), slot_bytes_(shape.simple) {}
  // Returns where the data of a frame belong. Errors: remote, where they belong nowhere.
  Result<uint8_t*> place(const proto::StepFrame& frame);
  // All data of the frame are there. REQUIRES: it is the one that place() was asked for last.
  void arrived(const proto::StepFrame& frame);
  // Returns how many steps have arrived.
  uint64_t tail() const noexcept { return tail_; }
  // Returns whether kernels have drained more steps since it was asked last, and how many in all.
  bool drained(uint64_t* head);

 private:
  uint8_t* receive_;
  uint8_t* send_;
  uint64_t slot_bytes_;
  uint64_t tail_ = 0, head_ = 0;  // steps
};

}  // namespace gpucoll::net
