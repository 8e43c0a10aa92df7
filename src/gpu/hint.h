// Fills the pointer hint of device.h: the emulated device does when it reserves its address space, the choice of the
// platform when it learns that GPUs are out of the question.
//
// Thread safety: writers may race with readers of pointer_hint(); the order of the stores keeps what they see right.
#pragma once
#include <cstdint>

namespace gpucoll::gpu {

// REQUIRES: called once a process, lo < hi.
void set_device_range(uintptr_t lo, uintptr_t hi) noexcept;
// From now on only the range counts.
void rule_out_gpus() noexcept;

}  // namespace gpucoll::gpu
