// Functions of libraries that are loaded when they are wanted, by name.
//
// Thread safety: any thread.
#pragma once
#include <dlfcn.h>

namespace gpucoll::perf {

// False where the library has none; then *function is null.
template <class F>
bool find_function(void* library, const char* symbol, F* function) {
  *function = reinterpret_cast<F>(dlsym(library, symbol));
  return *function != nullptr;
}

}  // namespace gpucoll::perf
