// Serves libgpucoll-mpi beyond the C API (abi/meeting.h). Each body is one call of guarded().
#include <algorithm>
#include <cstdio>
#include <memory>
#include <utility>
#include <vector>

#include "abi/meeting.h"
#include "api/configuration.h"
#include "api/handles.h"
#include "api/open_device.h"
#include "base/params.h"
#include "core/comm/communicator.h"
#include "core/comm/group.h"
#include "core/comm/reclaim.h"
#include "kernels/kernels.h"
#include "net/bootstrap/bootstrap.h"

using namespace gpucoll;
using namespace gpucoll::coll;

namespace {

// An allgather by a function of the program's.
class MeetingBootstrap final : public net::Bootstrap {
 public:
  explicit MeetingBootstrap(const gc_meeting& meeting) : meeting_(meeting) {}
  int rank() const override { return meeting_.rank; }
  int size() const override { return meeting_.size; }
  Status allgather(const void* mine, void* all, size_t bytes) override {
    char why[512] = "";
    const gpucollResult_t result =
        meeting_.allgather(meeting_.ctx, mine, all, bytes, params().timeout, why, sizeof why);
    if (result == gpucollSuccess) return {};
    broken_ = true;
    return Status(static_cast<Code>(result), why);
  }
  // Returns whether an allgather has failed: the ranks may be out of step.
  bool broken() const { return broken_; }

 private:
  const gc_meeting& meeting_;
  bool broken_ = false;
};

// A rank tells the others this before and after the communicator is made.
struct Verdict {
  int32_t code;
  char said[500];
};

// Returns the first rank's failure on all ranks.
Status agree(net::Bootstrap& bootstrap, const Status& mine) {
  Verdict verdict = {static_cast<int32_t>(mine.code()), ""};
  std::snprintf(verdict.said, sizeof verdict.said, "%s", mine.what());
  std::vector<Verdict> all(static_cast<size_t>(bootstrap.size()));
  GC_TRY(bootstrap.allgather(&verdict, all.data(), sizeof verdict));
  const auto failed = std::find_if(all.begin(), all.end(), [](const Verdict& of) { return of.code != 0; });
  if (failed == all.end()) return {};
  return Status::error(static_cast<Code>(failed->code), "rank %td: %s", failed - all.begin(), failed->said);
}

Result<gpu::Device*> prepare() {
  if (core::group_open())
    return Status::error(Code::invalid_usage,
                         "a group is open, in which the communicator of an MPI communicator cannot be made: call "
                         "gpucollCommFromMPI before gpucollGroupStart");
  return open_device({});
}

// Holds what this rank needs before the ranks meet.
struct Preparations {
  gpu::Device* device = nullptr;
  gpucollComm_t handle = nullptr;

  Status make(const gc_meeting& meeting) {
    if (meeting.before != gpucollSuccess) return Status(static_cast<Code>(meeting.before), meeting.said_before);
    GC_TRY_AS(device, prepare());
    core::drain_reclaimed(0, nullptr);
    handle = Handles::instance().take();
    return {};
  }
  void drop(const Status& why) {
    if (!handle) return;
    core::CommShare share = std::exchange(handle->share, {});
    if (core::Communicator* communicator = share.communicator()) {
      communicator->give_up(why);
      share.finish().ignore();  // its failure is `why`
    }
    Handles::instance().give_back(handle);
  }
};

Status create(const Preparations& with, MeetingBootstrap& bootstrap) {
  const Configuration configuration = configuration_of_parameters();
  GC_TRY_AS(auto made, core::Communicator::create(*with.device, {all_kernels(), move_kernel(), packing_kernel()},
                                                  bootstrap, {{}, {}, nullptr, configuration.options}));
  with.handle->share = core::CommShare(std::move(made), configuration.shares);
  return {};
}

Status meet(gpucollComm_t* comm, const gc_meeting& meeting) {
  MeetingBootstrap bootstrap(meeting);
  Preparations with;
  const Status mine = contained([&] { return with.make(meeting); });
  Status status = agree(bootstrap, mine);
  if (status) {
    status = contained([&] { return create(with, bootstrap); });
    // Its last steps may fail on one rank alone.
    if (!bootstrap.broken()) {
      Status all = agree(bootstrap, status);
      if (status) status = std::move(all);
    }
  }
  if (!status) {
    with.drop(status);
    return status;
  }
  with.handle->owned = true;
  *comm = with.handle;
  return {};
}

}  // namespace

extern "C" {

gpucollResult_t gpucoll_comm_meet(const char* where, gpucollComm_t* comm, const gc_meeting* meeting) {
  *comm = nullptr;
  return to_c(guarded(where, [&] { return core::fail_group(meet(comm, *meeting)); }));
}

gpucollResult_t gpucoll_refuse(const char* where, gpucollResult_t result, const char* sentence) {
  return to_c(guarded(where, [&] { return core::fail_group(Status(static_cast<Code>(result), sentence)); }));
}

int gpucoll_group_open(void) { return core::group_open(); }

}  // extern "C"
