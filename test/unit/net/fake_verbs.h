// Tests control the library that stands for libibverbs (fake_verbs.cpp) by this, and learn from it.
#pragma once
#include <dlfcn.h>

#include <atomic>

struct FakeVerbs {
  static constexpr int kMostDevices = 6;
  // A message that nobody acknowledges is lost, has come, or comes late.
  enum Fault { lost, unacknowledged, late };
  std::atomic<int> devices{1};                 // that are there: fake_0, fake_1 ...
  const char* directories[kMostDevices] = {};  // of devices in sysfs; null: none
  std::atomic<int> speeds[kMostDevices] = {};  // of their ports, by verbs' table
  std::atomic<bool> infiniband[kMostDevices] = {};
  std::atomic<bool> few_gids[kMostDevices] = {};     // they have those of RoCE v1 alone, 0
  std::atomic<bool> silent[kMostDevices] = {};       // nobody answers what they send
  std::atomic<bool> full[kMostDevices] = {};         // they register no memory
  std::atomic<bool> keeps_pairs[kMostDevices] = {};  // they destroy no queue pair
  std::atomic<int> sends[kMostDevices] = {};         // that they have carried
  std::atomic<int> sends_until_fault[kMostDevices] = {-1, -1, -1, -1, -1, -1};
  std::atomic<Fault> fault[kMostDevices] = {};
  std::atomic<bool> holds_late{false};      // what is late comes only once this ends
  std::atomic<bool> active{true};           // their ports are
  std::atomic<bool> cut{false};             // nobody answers what is sent from now on
  std::atomic<bool> gone{false};            // queues cannot be polled any more
  std::atomic<bool> nothing_inline{false};  // messages always lie in registered memory
  std::atomic<bool> registers{true};        // there is memory left to be locked
  std::atomic<int> most_requests{4096};
  std::atomic<uint32_t> most_bytes{1u << 30};  // larger writes are lost on the way
  std::atomic<int> writes_until_fault{-1};     // then one is refused by the other side
  // The queue pair that was connected last has these.
  std::atomic<int> pkey_index{-1}, service_level{-1}, traffic_class{-1}, timeout{-1}, retries{-1};
  std::atomic<int> violations{0};  // what real devices punish by wrong data
};

// By dlsym(), with the name "fake_verbs".
using FakeVerbsFunction = FakeVerbs*();
// Returns null where the library cannot be opened; dlerror() says why.
inline FakeVerbs* open_fake_verbs(const char* path) {
  void* const library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  return library ? reinterpret_cast<FakeVerbsFunction*>(dlsym(library, "fake_verbs"))() : nullptr;
}
