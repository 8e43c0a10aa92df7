// Starts a thread of the library's own: the application's signal handlers belong on its own threads, so signals are
// blocked on this one; only faults stay where they happen.
//
// Thread safety: any thread; the caller's own signal mask is as before afterwards. Errors: std::system_error where the
// process can start no more threads.
#pragma once
#include <pthread.h>
#include <signal.h>

#include <thread>
#include <utility>

namespace gpucoll {

template <class Function>
std::thread service_thread(Function&& function) {
  struct BlockedSignals {  // the new thread inherits the mask
    BlockedSignals() {
      sigset_t set;
      sigfillset(&set);
      for (int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT}) sigdelset(&set, fault);
      pthread_sigmask(SIG_SETMASK, &set, &before);
    }
    ~BlockedSignals() { pthread_sigmask(SIG_SETMASK, &before, nullptr); }
    sigset_t before;
  } blocked;
  return std::thread(std::forward<Function>(function));
}

}  // namespace gpucoll
