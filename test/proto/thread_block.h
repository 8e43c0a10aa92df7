// Runs protocol code as the emulated device does: every thread of every block on a thread of its own.
#pragma once
#include <memory>
#include <thread>
#include <vector>

#include "gpu/emu/thread_block.h"

namespace gpucoll::test {

// body(EmuBlock) on each of blocks x threads; returns when all have ended. `instance` lets several grids run side
// by side: body(instance, EmuBlock).
template <class Body>
void run_grids(int instances, int blocks, int threads, const Body& body) {
  std::vector<std::unique_ptr<gpu::emu::BlockMemory>> memory;
  std::vector<std::thread> running;
  for (int i = 0; i < instances; ++i) {
    for (int b = 0; b < blocks; ++b) {
      memory.push_back(std::make_unique<gpu::emu::BlockMemory>());
      for (int t = 0; t < threads; ++t) {
        running.emplace_back([=, &body, own = memory.back().get()] {
          body(i, gpu::EmuBlock{b, blocks, t, threads, own->barriers, own->shared});
        });
      }
    }
  }
  for (std::thread& thread : running) thread.join();
}

template <class Body>
void run_block(int threads, const Body& body) {
  if (threads > 1)
    return run_grids(1, 1, threads, [&](int, const gpu::EmuBlock& b) { body(gpu::emu::ThreadBlock(b)); });
  gpu::emu::BlockMemory memory;
  const gpu::EmuBlock alone{0, 1, 0, 1, memory.barriers, memory.shared};
  body(gpu::emu::ThreadBlock(alone));
}

}  // namespace gpucoll::test
