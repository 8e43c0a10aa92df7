// The choice of the platform. CTest runs this once for each value of the parameter device, GPUs hidden.
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "base/params.h"
#include "gpu/device.h"

namespace gpucoll::gpu {
namespace {

// First: nothing has been chosen, and no device pointer can exist.
TEST(GpuPlatform, BeforeTheChoiceEveryPointerIsHostMemory) {
  const PointerHint& hint = pointer_hint();
  EXPECT_EQ(hint.device_lo, hint.device_hi);
  EXPECT_EQ(hint.device_hi != 0, hint.ask != 0);
  std::vector<int> host(10);
  EXPECT_FALSE(is_device_pointer(host.data()));
  EXPECT_FALSE(is_device_pointer(&hint));
  EXPECT_FALSE(is_device_pointer(nullptr));
  EXPECT_FALSE(is_device_pointer(reinterpret_cast<void*>(~uintptr_t{0})));
}

TEST(GpuPlatform, IsTheOneAskedForOrSaysWhyNot) {
  auto chosen = platform();
  if (params().device == kDeviceCuda) {
    ASSERT_FALSE(chosen);
    EXPECT_EQ(chosen.status().code(), Code::unsupported);
    EXPECT_GT(std::string(chosen.status().what()).size(), 20u);
    return;
  }
  ASSERT_TRUE(chosen) << chosen.status().what();
  EXPECT_STREQ((*chosen)->name(), "emu");
  EXPECT_EQ(*chosen, &emu_platform());
  EXPECT_EQ(pointer_hint().ask, 0);
  // Nothing has been allocated: by this, host buffers go on without a look.
  EXPECT_EQ(pointer_hint().device_hi, 0u);
}

TEST(GpuPlatform, DevicePointersAreToldFromHostPointers) {
  auto chosen = platform();
  if (!chosen) GTEST_SKIP() << chosen.status().what();
  Platform& platform = **chosen;
  ASSERT_TRUE(platform.device_count());
  EXPECT_EQ(platform.open(*platform.device_count()).status().code(), Code::invalid_argument);
  EXPECT_EQ(platform.choose_device(-1).code(), Code::invalid_argument);
  ASSERT_TRUE(platform.choose_device(0));
  Device& device = **platform.open(platform.current_device());
  auto memory = device.user_allocate(1000);
  ASSERT_TRUE(memory);
  auto* user = static_cast<char*>(*memory);
  EXPECT_TRUE(is_device_pointer(user));
  EXPECT_TRUE(is_device_pointer(user + 999));
  EXPECT_EQ(platform.classify(user).kind, MemoryKind::device);
  int host = 0;
  EXPECT_FALSE(is_device_pointer(&host));
  ASSERT_TRUE(device.user_release(user));
}

TEST(GpuPlatform, EachThreadChoosesItsDevice) {
  auto chosen = platform();
  if (!chosen) GTEST_SKIP() << chosen.status().what();
  Platform& platform = **chosen;
  ASSERT_EQ(*platform.device_count(), params().emu_devices);
  ASSERT_GE(*platform.device_count(), 3);
  ASSERT_TRUE(platform.choose_device(2));
  std::thread([&] {
    EXPECT_EQ(platform.current_device(), 0);
    ASSERT_TRUE(platform.choose_device(1));
    EXPECT_EQ(platform.current_device(), 1);
  }).join();
  EXPECT_EQ(platform.current_device(), 2);
  EXPECT_EQ(platform.choose_device(*platform.device_count()).code(), Code::invalid_argument);
  EXPECT_EQ(platform.current_device(), 2);
  for (int i = 0; i < *platform.device_count(); ++i) EXPECT_EQ((*platform.open(i))->index(), i);
  ASSERT_TRUE(platform.choose_device(0));
}

// The GPUs' side must answer also where there is no driver: never crash, never claim memory.
TEST(GpuPlatform, GpusThatAreNotThereKnowNoMemory) {
  Platform* cuda = cuda_platform();
  if (cuda == nullptr) GTEST_SKIP() << "built without CUDA";
  int host = 0;
  EXPECT_FALSE(cuda->is_device(&host));
  EXPECT_EQ(cuda->classify(&host).kind, MemoryKind::host);
  EXPECT_EQ(cuda->current_device(), 0);
  auto count = cuda->device_count();
  ASSERT_FALSE(count);
  EXPECT_EQ(count.status().code(), Code::unsupported);
  EXPECT_EQ(cuda->open(0).status().code(), Code::unsupported);
}

}  // namespace
}  // namespace gpucoll::gpu
