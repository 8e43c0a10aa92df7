// The emulated devices: as many as the parameter emu_devices says, in every process the same.
#include <memory>
#include <vector>

#include "base/params.h"
#include "gpu/emu/device.h"

namespace gpucoll::gpu {
namespace {

thread_local int chosen_device = 0;

class EmuPlatform final : public Platform {
 public:
  EmuPlatform() {
    for (int i = 0; i < static_cast<int>(params().emu_devices); ++i)
      devices_.push_back(std::make_unique<emu::EmuDevice>(i, memory_, streams_));
  }
  const char* name() const override { return "emu"; }
  Result<int> device_count() override { return static_cast<int>(devices_.size()); }
  int current_device() override { return chosen_device; }
  Status choose_device(int index) override {
    GC_TRY(open(index).status());
    chosen_device = index;
    return {};
  }
  Result<Device*> open(int index) override {
    if (index >= 0 && static_cast<size_t>(index) < devices_.size())
      return static_cast<Device*>(devices_[static_cast<size_t>(index)].get());
    return Status::error(Code::invalid_argument,
                         "there is no emulated device number %d: the parameter emu_devices says %zu, counted from 0",
                         index, devices_.size());
  }
  PointerInfo classify(const void* address) override { return memory_.classify(address); }
  bool is_device(const void* address) noexcept override { return memory_.is_user(address); }

 private:
  emu::Memory memory_;
  emu::Streams streams_;
  std::vector<std::unique_ptr<emu::EmuDevice>> devices_;
};

}  // namespace

// Never destroyed: threads of the pool may still be inside a kernel while the process is exiting.
Platform& emu_platform() {
  static EmuPlatform* const platform = new EmuPlatform;
  return *platform;
}

}  // namespace gpucoll::gpu
