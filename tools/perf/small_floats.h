// Numbers of 16 bits: they compute as float and round to the nearest, ties to even, when they are stored.
//
// Thread safety: values. Apart from those of the library, which they are to check.
#pragma once
#include <cstdint>
#include <cstring>

namespace gpucoll::perf {

class Float16 {
 public:
  Float16() = default;
  explicit Float16(float value) : value_(static_cast<Storage>(value)) {}
  operator float() const { return static_cast<float>(value_); }

 private:
  __extension__ using Storage = _Float16;
  Storage value_;
};

class Bfloat16 {
 public:
  Bfloat16() = default;
  explicit Bfloat16(float value) {
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    const uint32_t odd = bits >> 16 & 1;
    upper_ = static_cast<uint16_t>(value == value ? (bits + 0x7fff + odd) >> 16 : 0x7fff);
  }
  operator float() const {
    const uint32_t bits = uint32_t{upper_} << 16;
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
  }

 private:
  uint16_t upper_;  // half of a float
};
static_assert(sizeof(Float16) == 2 && sizeof(Bfloat16) == 2);

}  // namespace gpucoll::perf
