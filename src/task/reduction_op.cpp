#include "task/reduction_op.h"

#include <atomic>
#include <cstring>

#include "task/buffer_check.h"
#include "task/collective_task.h"
#include "task/types.h"

namespace gpucoll::coll {
namespace {

// Above the built-in operations; begins anew, long before it would overflow an enumerator.
int next_number() {
  constexpr uint32_t kNumbers = uint32_t{gpucollMaxRedOp} - gpucollNumOps;
  static std::atomic<uint32_t> given{0};
  return static_cast<int>(gpucollNumOps + given.fetch_add(1, std::memory_order_relaxed) % kNumbers);
}

Result<Scalar> scalar_of(const gpu::Device& device, const void* scalar, gpucollDataType_t type,
                         gpucollScalarResidence_t residence) {
  if (!scalar) return Status::error(Code::invalid_argument, "scalar is NULL");
  if (residence == gpucollScalarDevice) {
    GC_TRY(check_buffer(device, "scalar", scalar, type_size(type), type));
    return Scalar{reinterpret_cast<uint64_t>(device.kernel_address(scalar)), 0, true};
  }
  if (residence != gpucollScalarHostImmediate)
    return Status::error(Code::invalid_argument, "residence %d is no gpucollScalarResidence_t",
                         static_cast<int>(residence));
  // The host may read managed memory.
  if (gpu::is_device_pointer(scalar) && device.classify_kernel(scalar).kind != gpu::MemoryKind::managed)
    return Status::error(Code::invalid_argument,
                         "scalar %p is device memory, but residence says that it is in host memory", scalar);
  uint64_t bits[2] = {0, 0};
  std::memcpy(bits, scalar, type_size(type));
  return Scalar{bits[0], bits[1], false};
}

}  // namespace

Result<gpucollRedOp_t> ReductionOps::create_pre_mul_sum(const gpu::Device& device, const void* scalar,
                                                        gpucollDataType_t type, gpucollScalarResidence_t residence) {
  if (!known(type)) return Status::error(Code::invalid_argument, "datatype %d is no gpucollDataType_t", type);
  if (!has_pre_mul_sum(type)) return no_kernel("a pre-multiplied sum", type, proto::RedOp::pre_mul_sum);
  GC_TRY_AS(Scalar made, scalar_of(device, scalar, type, residence));
  int number = next_number();
  while (made_.contains(number)) number = next_number();
  made_.emplace(number, PreMulSum{type, made});
  return static_cast<gpucollRedOp_t>(number);
}

Status ReductionOps::destroy(gpucollRedOp_t op) {
  if (made_.erase(static_cast<int>(op)) == 1) return {};
  return Status::error(Code::invalid_argument, "op %d was not made for this communicator, or was destroyed before",
                       static_cast<int>(op));
}

const PreMulSum* ReductionOps::find(gpucollRedOp_t op) const {
  const auto found = made_.find(static_cast<int>(op));
  return found == made_.end() ? nullptr : &found->second;
}

}  // namespace gpucoll::coll
