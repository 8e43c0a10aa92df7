#include "coll/all_reduce.h"

#include "coll/kernels.h"

namespace gpucoll::coll {
namespace {

struct TypeFacts {
  const char* name;
  size_t bytes, alignment;
};
// In the order of gpucollDataType_t.
constexpr TypeFacts kTypes[] = {
    {"int8", 1, 1},          {"uint8", 1, 1},     {"int32", 4, 4},     {"uint32", 4, 4},      {"int64", 8, 8},
    {"uint64", 8, 8},        {"float16", 2, 2},   {"float32", 4, 4},   {"float64", 8, 8},     {"bfloat16", 2, 2},
    {"int16", 2, 2},         {"uint16", 2, 2},    {"complex64", 8, 4}, {"complex128", 16, 8}, {"float_int", 8, 4},
    {"double_int", 16, 8},   {"long_int", 16, 8}, {"int_int", 8, 4},   {"short_int", 8, 4},   {"float_float", 8, 4},
    {"double_double", 16, 8}};
static_assert(sizeof kTypes / sizeof kTypes[0] == gpucollNumTypes);
constexpr const char* kOps[] = {"sum",  "prod", "max", "min",  "band",   "bor",
                                "bxor", "land", "lor", "lxor", "maxloc", "minloc"};
static_assert(sizeof kOps / sizeof kOps[0] == gpucollNumOps);

bool known(gpucollDataType_t type) { return static_cast<unsigned>(type) < gpucollNumTypes; }
bool known(gpucollRedOp_t op) { return static_cast<unsigned>(op) < gpucollNumOps; }

const gpu::Kernel* kernel_of(gpucollDataType_t type, gpucollRedOp_t op, Algorithm algorithm) {
  return all_reduce_kernel(static_cast<proto::DataType>(type), static_cast<proto::RedOp>(op), algorithm);
}

Status check_buffer(const gpu::Device& device, const char* which, const void* buffer, size_t bytes, size_t alignment) {
  if (!buffer) return Status::error(Code::invalid_argument, "%s is NULL", which);
  if (reinterpret_cast<uintptr_t>(buffer) % alignment)
    return Status::error(Code::invalid_argument, "%s %p is not aligned to the %zu bytes that its type needs", which,
                         buffer, alignment);
  GC_TRY_AS(gpu::Platform * platform, gpu::platform());
  gpu::PointerInfo info = platform->classify(buffer);
  if (info.kind == gpu::MemoryKind::host)
    return Status::error(Code::invalid_argument,
                         "%s %p is host memory: gpucollAllReduce takes device memory (gpucollMalloc, cudaMalloc)",
                         which, buffer);
  bool on_device = info.kind == gpu::MemoryKind::device;
  if (on_device && info.device != device.index())
    return Status::error(Code::invalid_argument, "%s %p lies on device %d, but the communicator works on device %d",
                         which, buffer, info.device, device.index());
  size_t offset = static_cast<size_t>(static_cast<const char*>(buffer) - static_cast<const char*>(info.base));
  if (on_device && info.bytes && offset + bytes > info.bytes)
    return Status::error(Code::invalid_argument,
                         "%s %p: %zu bytes are needed from there, but its allocation ends after %zu", which, buffer,
                         bytes, info.bytes - offset);
  return {};
}

}  // namespace

size_t type_size(gpucollDataType_t type) noexcept { return known(type) ? kTypes[type].bytes : 0; }
const char* type_name(gpucollDataType_t type) noexcept { return known(type) ? kTypes[type].name : "no type"; }
const char* op_name(gpucollRedOp_t op) noexcept { return known(op) ? kOps[op] : "no operation"; }
bool has_reduction(gpucollDataType_t type, gpucollRedOp_t op) noexcept {
  return known(type) && known(op) && kernel_of(type, op, Algorithm::ring) != nullptr;
}

Result<core::Task> make_task(const gpu::Device& device, const AllReduceCall& call) {
  if (!known(call.type)) return Status::error(Code::invalid_argument, "%d is no gpucollDataType_t", call.type);
  if (!known(call.op)) return Status::error(Code::invalid_argument, "%d is no gpucollRedOp_t", call.op);
  if (!has_reduction(call.type, call.op))
    return Status::error(Code::invalid_argument, "the operation %s has no meaning for the type %s", op_name(call.op),
                         type_name(call.type));
  size_t element = type_size(call.type);
  if (call.count > SIZE_MAX / element)
    return Status::error(Code::invalid_argument, "count %zu is larger than any memory", call.count);
  size_t bytes = call.count * element;
  if (bytes > 0) {
    GC_TRY(check_buffer(device, "sendbuff", call.send, bytes, kTypes[call.type].alignment));
    if (call.recv != call.send) GC_TRY(check_buffer(device, "recvbuff", call.recv, bytes, kTypes[call.type].alignment));
  }
  auto send = reinterpret_cast<uintptr_t>(call.send), recv = reinterpret_cast<uintptr_t>(call.recv);
  if (send != recv && send < recv + bytes && recv < send + bytes)
    return Status::error(
        Code::invalid_argument,
        "sendbuff and recvbuff overlap without being the same: pass the same pointer to work in place");
  return core::Task{kernel_of(call.type, call.op, Algorithm::ring),
                    kernel_of(call.type, call.op, Algorithm::one_shot),
                    device.kernel_address(call.send),
                    device.kernel_address(call.recv),
                    call.count,
                    static_cast<uint32_t>(element),
                    call.stream};
}

}  // namespace gpucoll::coll
