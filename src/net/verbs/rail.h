// One of the RDMA devices that a link goes over: a queue pair, and a key for the link's blocks.
//
// Thread safety: as LinkEnd. Ownership: owns the queue pair, borrows the device.
#pragma once
#include <memory>
#include <optional>
#include <utility>

#include "base/mutant.h"
#include "net/verbs/device.h"
#include "net/verbs/queue_pair.h"

namespace gpucoll::net {

struct Rail {
  Rail(VerbsDevice* nearest, MemoryRegion registered, std::unique_ptr<QueuePair> made)
      : device(nearest), region(std::move(registered)), pair(std::move(made)) {}

  // Expects the completions of the trial, which the caller sends.
  void begin_trial() {
    trial = Trial{};
    ++outstanding;
  }
  bool is_established() const { return !works() || !trial || (trial->sent && trial->received); }
  bool works() const { return pair != nullptr; }
  // Destroys the queue pair: from then on the device neither reads the link's memory nor writes what is still on its
  // way, and what has come by it and was not polled has not come. Errors: system, where the device keeps it.
  Status give_up() {
    if (gc_mutant(560)) (void)pair.release();
    Status destroyed = pair ? pair->destroy() : Status();
    if (!destroyed && !gc_mutant(566)) return destroyed;
    pair.reset();
    outstanding = 0;
    return {};
  }

  struct Trial {
    bool sent = false, received = false;
  };
  VerbsDevice* device;
  MemoryRegion region;
  std::unique_ptr<QueuePair> pair;  // goes before the region
  uint32_t key_there = 0;           // of the other side's blocks
  VerbsDevice::PeerName peer = {};
  int outstanding = 0;  // completions that are still to come of what this side has sent
  std::optional<Trial> trial;
};

}  // namespace gpucoll::net
