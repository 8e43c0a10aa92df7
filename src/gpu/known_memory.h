// Keeps what the device runtime has said of the memory at an address. As long as it says the same, the memory has not
// been freed, and whatever was found out by that answer is still so.
//
// Drivers need not give an id of its own to each piece of a pool: so the whole answer is compared.
// Thread safety: a value type.
#pragma once
#include "gpu/device.h"

namespace gpucoll::gpu {

// Returns whether two answers are equal.
inline bool are_same(const PointerInfo& a, const PointerInfo& b) noexcept {
  return a.buffer_id == b.buffer_id && a.base == b.base && a.bytes == b.bytes && a.kind == b.kind &&
         a.device == b.device && a.exportable == b.exportable && a.shares_block == b.shares_block;
}

// Asks about nothing until it is given an address.
class KnownMemory {
 public:
  KnownMemory() = default;
  KnownMemory(Platform& platform, const void* address)
      : platform_(&platform), address_(address), info_(platform.classify(address)) {}

  // Asks again, and returns whether the answer is the same.
  bool is_same() const { return !platform_ || are_same(platform_->classify(address_), info_); }

 private:
  Platform* platform_ = nullptr;  // null: there is nothing to ask
  const void* address_ = nullptr;
  PointerInfo info_;
};

}  // namespace gpucoll::gpu
