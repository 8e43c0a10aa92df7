// One descriptor that the process keeps back, to be able to tell others that no other one is left: by it, it accepts
// somebody who knocks, or reaches somebody who waits.
//
// It is kept as long as there is a Spare: while ranks meet, and for good once this process listens for other nodes.
// Thread safety: any thread.
#pragma once
#include <utility>

namespace gpucoll::net {

class Spare {
 public:
  // The first one takes the descriptor, as far as there is one; the last one gives it back.
  Spare();
  ~Spare();
  Spare(const Spare&) = delete;
  Spare& operator=(const Spare&) = delete;

  // Says who has given the descriptor up for something of its own, and takes the descriptor back at its end. Nobody
  // else takes it meanwhile. Destroy it after what it was given up for.
  class Spent {
   public:
    Spent() noexcept = default;
    Spent(Spent&& other) noexcept : spent_(std::exchange(other.spent_, false)) {}
    // Leaves to `other` what this one has, as that may still be in use.
    Spent& operator=(Spent&& other) noexcept {
      std::swap(spent_, other.spent_);
      return *this;
    }
    ~Spent();
    explicit operator bool() const noexcept { return spent_; }

   private:
    friend class Spare;
    explicit Spent(bool spent) noexcept : spent_(spent) {}
    bool spent_ = false;
  };
  // Gives the descriptor up; empty where there is none.
  static Spent spend() noexcept;
  // Takes the descriptor where there was none to take, unless somebody has spent it.
  static void restore() noexcept;
};

}  // namespace gpucoll::net
