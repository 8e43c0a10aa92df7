// One descriptor that the process keeps back while ranks meet: where no other is left, it serves to tell the others.
// Thread safety: any thread.
#pragma once

namespace gpucoll::net {

class Spare {
 public:
  // The first one takes the descriptor, as far as there is one; the last one gives it back.
  Spare();
  ~Spare();
  Spare(const Spare&) = delete;
  Spare& operator=(const Spare&) = delete;

  // Gives the descriptor back early; false where there is none.
  static bool spend() noexcept;
  // Takes it again where it was spent.
  static void restore() noexcept;
};

}  // namespace gpucoll::net
