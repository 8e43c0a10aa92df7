#include "net/bootstrap/spare.h"

#include <fcntl.h>

#include <mutex>

#include "base/mutant.h"
#include "base/unique_fd.h"
#include "net/bootstrap/of_this_process.h"

namespace gpucoll::net {
namespace {

struct Kept {
  std::mutex mutex;
  int users = 0;
  bool spent = false;
  UniqueFd fd;

  void take() {
    if (users && !fd && (!spent || gc_mutant(640))) fd = UniqueFd(open("/dev/null", O_RDONLY | O_CLOEXEC));
  }
};

Kept& kept() { return of_this_process<Kept>(); }

}  // namespace

Spare::Spare() {
  std::lock_guard lock(kept().mutex);
  ++kept().users;
  kept().take();
}

Spare::~Spare() {
  std::lock_guard lock(kept().mutex);
  if (--kept().users == 0) kept().fd.reset();
}

Spare::Spent::~Spent() {
  if (!spent_) return;
  std::lock_guard lock(kept().mutex);
  kept().spent = false;
  kept().take();
}

Spare::Spent Spare::spend() noexcept {
  std::lock_guard lock(kept().mutex);
  if (!kept().fd) return {};
  kept().fd.reset();
  kept().spent = true;
  return Spent(true);
}

void Spare::restore() noexcept {
  std::lock_guard lock(kept().mutex);
  kept().take();
}

}  // namespace gpucoll::net
