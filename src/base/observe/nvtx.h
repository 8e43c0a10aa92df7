// Shows tools such as Nsight Systems what the library does, as ranges of NVTX (its header, of CUDA 12 or newer, has
// all that is needed) in the domain "gpucoll". Where no tool asks, nothing is loaded and nothing is called.
//
// Thread safety: any thread, after open(). A text is copied by the tool.
#pragma once
#include <cstdint>

namespace gpucoll::nvtx {

// Returns whether a tool wants ranges: it sets NVTX_INJECTION64_PATH for the program. Always false where gpucoll was
// built without NVTX's header. Loads the tool's library.
bool open() noexcept;
// Names a category, a number from 1 on, which ranges refer to.
void name_category(uint32_t category, const char* name) noexcept;

// Begin and end a range of the calling thread, inside those that it has begun before.
void push(uint32_t category, const char* text, uint64_t payload) noexcept;
void pop() noexcept;
// Begin and end a range that other threads may end, in any order.
uint64_t start(uint32_t category, const char* text, uint64_t payload) noexcept;
void end(uint64_t range) noexcept;
// Marks a moment.
void mark(uint32_t category, const char* text) noexcept;

}  // namespace gpucoll::nvtx
