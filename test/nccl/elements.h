// Elements of NCCL's types that hold small numbers.
#pragma once
#include <cstdint>
#include <cstring>
#include <vector>

#include "nccl/nccl_abi.h"

namespace gpucoll_test {

inline size_t bytes_of(ncclDataType_t type) {
  constexpr size_t kBytes[ncclNumTypes] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
  return kBytes[type];
}

template <class T>
void append(std::vector<char>* bytes, T value) {
  const auto* from = reinterpret_cast<const char*>(&value);
  bytes->insert(bytes->end(), from, from + sizeof value);
}

// Appends a value that the type holds exactly, and that is 0 or between 2^-6 and 2^15.
inline void append(std::vector<char>* bytes, ncclDataType_t type, double value) {
  uint32_t bits;
  const auto narrow = static_cast<float>(value);
  std::memcpy(&bits, &narrow, sizeof bits);
  // With fewer bits of exponent, its bias is smaller.
  const auto small = [&](int exponent_bits, int mantissa_bits) -> uint32_t {
    if (value == 0) return 0;
    const uint32_t bias = 127u - ((1u << (exponent_bits - 1)) - 1);
    return ((bits & 0x7fffffffu) - (bias << 23)) >> (23 - mantissa_bits) | (bits >> 31)
                                                                               << (exponent_bits + mantissa_bits);
  };
  switch (type) {
    case ncclInt8: return append(bytes, static_cast<int8_t>(value));
    case ncclUint8: return append(bytes, static_cast<uint8_t>(value));
    case ncclInt32: return append(bytes, static_cast<int32_t>(value));
    case ncclUint32: return append(bytes, static_cast<uint32_t>(value));
    case ncclInt64: return append(bytes, static_cast<int64_t>(value));
    case ncclUint64: return append(bytes, static_cast<uint64_t>(value));
    case ncclFloat16: return append(bytes, static_cast<uint16_t>(small(5, 10)));
    case ncclFloat32: return append(bytes, narrow);
    case ncclFloat64: return append(bytes, value);
    case ncclBfloat16: return append(bytes, static_cast<uint16_t>(bits >> 16));
    case ncclFloat8e4m3: return append(bytes, static_cast<uint8_t>(small(4, 3)));
    case ncclFloat8e5m2: return append(bytes, static_cast<uint8_t>(small(5, 2)));
    default: return;
  }
}

}  // namespace gpucoll_test
