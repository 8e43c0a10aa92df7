// The C API: memory that other ranks may open. Each body is one call of guarded().
#include "api/handles.h"
#include "task/buffer_check.h"

using namespace gpucoll;
using namespace gpucoll::coll;

extern "C" {

gpucollResult_t gpucollCommRegister(gpucollComm_t comm, void* buff, size_t size, void** handle) {
  return to_c(guarded("gpucollCommRegister", [&]() -> Status {
    GC_TRY_AS(const Use communicator, checked(comm));
    if (!handle) return Status::error(Code::invalid_argument, "handle is NULL");
    if (size == 0) return Status::error(Code::invalid_argument, "size is 0: there is nothing to register");
    GC_TRY(check_buffer(communicator->device(), "buff", buff, size, gpucollInt8));
    *handle = comm->registrations.add(*communicator, communicator->device().kernel_address(buff));
    return {};
  }));
}

gpucollResult_t gpucollCommDeregister(gpucollComm_t comm, void* handle) {
  return to_c(guarded("gpucollCommDeregister", [&]() -> Status {
    GC_TRY_AS(const Use communicator, checked(comm));
    return comm->registrations.remove(*communicator, handle);
  }));
}

// On every platform, other processes can open memory from gpucollMalloc.
gpucollResult_t gpucollMemAlloc(void** ptr, size_t size) { return gpucollMalloc(ptr, size); }
gpucollResult_t gpucollMemFree(void* ptr) { return gpucollFree(ptr); }

}  // extern "C"
