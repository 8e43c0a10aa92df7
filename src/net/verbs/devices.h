// The RDMA devices that this process may use, and which of them are near to a GPU.
// Thread safety: any function from any thread. Ownership: devices stay open until the process ends.
#pragma once
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "net/verbs/device.h"

namespace gpucoll::net {

class VerbsDevices {
 public:
  // Returns those of the devices with an active port that the parameter verbs_device names; where it names none, the
  // fastest ones of one kind of network, of those that it does not leave out. There is at least one. Opens them at the
  // first call. Errors: unsupported, saying what there is instead; invalid_argument, where a parameter makes no sense.
  static Result<VerbsDevices*> instance();
  // Opens them once more, for tests.
  static Result<std::unique_ptr<VerbsDevices>> open_wanted(const VerbsLibrary& library);

  const std::vector<std::unique_ptr<VerbsDevice>>& all() const noexcept { return all_; }
  // A link has at most so many.
  static constexpr size_t kMost = 4;
  struct Nearest {
    std::vector<VerbsDevice*> devices;
    uint32_t first;  // GPUs with the same devices begin with different ones
  };
  // Returns the devices that no other one is nearer to a GPU than, in their order, by the GPU's directory in sysfs
  // (topo/pci.h). Where there are more than kMost, GPUs have different ones.
  const Nearest& nearest(const std::string& gpu);

 private:
  Nearest find_nearest(const std::string& gpu) const;

  std::vector<std::unique_ptr<VerbsDevice>> all_;
  std::mutex mutex_;  // guards what follows
  std::map<std::string, Nearest> nearest_;
};

}  // namespace gpucoll::net
