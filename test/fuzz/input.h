// Takes a fuzzer's bytes apart.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace gpucoll_test {

class Input {
 public:
  Input(const uint8_t* data, size_t bytes) : at_(data), left_(bytes) {}
  size_t left() const { return left_; }
  const uint8_t* at() const { return at_; }
  // Returns the next value; where too few bytes are left, its last ones are 0.
  template <class T>
  T take() {
    T value = {};
    const size_t n = std::min(left_, sizeof value);
    std::memcpy(&value, at_, n);
    skip(n);
    return value;
  }
  // REQUIRES: n <= left().
  void skip(size_t n) {
    at_ += n;
    left_ -= n;
  }

 private:
  const uint8_t* at_;
  size_t left_;
};

}  // namespace gpucoll_test
