// The RDMA devices that this process may use, and which of them are near to a GPU.
// Thread safety: any function from any thread. Ownership: devices stay open until the process ends.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "net/verbs/device.h"

namespace gpucoll::net {

class VerbsDevices {
 public:
  // Returns those of the devices with an active port that the parameter verbs_device names; where it names none, the
  // fastest ones of those that it does not leave out. There is at least one. Opens them at the first call. Errors:
  // unsupported, saying what there is instead; invalid_argument, where a parameter makes no sense.
  static Result<const VerbsDevices*> instance();
  // Opens them once more, for tests.
  static Result<std::unique_ptr<VerbsDevices>> open_wanted(const VerbsLibrary& library);

  const std::vector<std::unique_ptr<VerbsDevice>>& all() const noexcept { return all_; }
  // Returns the devices that no other one is nearer to a GPU than, at most so many, by the GPU's directory in sysfs
  // (topo/pci.h). Where there are more, GPUs begin with different ones.
  std::vector<VerbsDevice*> nearest(const std::string& gpu, size_t most) const;

 private:
  std::vector<std::unique_ptr<VerbsDevice>> all_;
};

}  // namespace gpucoll::net
