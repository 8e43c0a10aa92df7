// Any text as a tuning file, and its first line as a size.
#include <string>

#include "base/params.h"
#include "core/plan/tuning_file.h"

using namespace gpucoll;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  const std::string text(reinterpret_cast<const char*>(data), bytes);
  auto file = core::parse_tuning(text);
  if (!file && file.status().what()[0] == 0) __builtin_trap();  // an error says what
  parse_size(text.substr(0, text.find('\n')).c_str()).status().ignore();
  return 0;
}
