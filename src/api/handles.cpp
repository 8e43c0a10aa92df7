#include "api/handles.h"

namespace gpucoll::coll {

Status refusal(gpucollComm_t comm) {
  const uint8_t why = comm->refuses.load();
  if (why & core::Progress::kBusy)
    return Status::error(
        Code::invalid_usage,
        "something goes on in the background for the communicator: make no call on it but "
        "gpucollCommGetAsyncError and gpucollCommAbort until that gives no gpucollInProgress any more");
  if (Status failure = failure_of_making(comm); !failure) return failure;
  if (why & gpucollComm::kRevoked) return revoked_error();
  return Status::error(Code::invalid_usage, "the communicator is not ready before gpucollGroupEnd");
}

Status failure_of_making(gpucollComm_t comm) {
  if (!comm) return {};
  const Use use(comm);
  if (!use || !(comm->refuses.load() & core::Progress::kFailed)) return {};
  Status failure = comm->progress->failure();
  if (failure)
    failure = Status::error(Code::out_of_memory, "the communicator failed and no memory was left to say why");
  failure.mark_told();
  return failure;
}

}  // namespace gpucoll::coll
