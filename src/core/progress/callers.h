// Counts the callers that are inside an object, so that who ends it can wait until they have left.
// Thread safety: any thread.
#pragma once
#include <atomic>

namespace gpucoll::core {

class Callers {
 public:
  // Counts one caller as long as it lives.
  class Inside {
   public:
    explicit Inside(Callers& callers) noexcept : callers_(callers) {
      callers_.count_.fetch_add(1, std::memory_order_relaxed);
    }
    ~Inside() { callers_.count_.fetch_sub(1, std::memory_order_release); }  // partner: none()
    Inside(const Inside&) = delete;
    Inside& operator=(const Inside&) = delete;

   private:
    Callers& callers_;
  };
  bool none() const noexcept { return count_.load(std::memory_order_acquire) == 0; }

 private:
  std::atomic<int> count_{0};
};

}  // namespace gpucoll::core
