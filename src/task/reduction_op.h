// Operations that a program has made for one communicator: pre-multiplied sums.
//
// Their numbers lie above those of the built-in ones and are given once in a process, so that an operation of another
// communicator, or one destroyed before, is not taken for one of this.
// Thread safety: as the communicator's: one caller at a time. Ownership: a scalar in device memory stays the program's.
#pragma once
#include <cstdint>
#include <map>

#include "base/status.h"
#include "gpu/device.h"
#include "gpucoll/gpucoll.h"

namespace gpucoll::coll {

// The fields of proto::CollectiveItem.
struct Scalar {
  uint64_t argument = 0, argument_high = 0;
  bool in_memory = false;
};

struct PreMulSum {
  gpucollDataType_t type;
  Scalar scalar;
};

class ReductionOps {
 public:
  // Errors: invalid_argument, where the scalar is not where `residence` says, or type has no such operation.
  Result<gpucollRedOp_t> create_pre_mul_sum(const gpu::Device& device, const void* scalar, gpucollDataType_t type,
                                            gpucollScalarResidence_t residence);
  Status destroy(gpucollRedOp_t op);
  // Null for what was not made here.
  const PreMulSum* find(gpucollRedOp_t op) const;
  void clear() { made_.clear(); }

 private:
  std::map<int, PreMulSum> made_;
};

}  // namespace gpucoll::coll
