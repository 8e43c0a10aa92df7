#include "base/params.h"

#include <unistd.h>

#include <atomic>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/environment.h"
#include "base/log.h"

namespace gpucoll {
namespace {

constexpr ParamType type_of_Int = ParamType::integer;
constexpr ParamType type_of_Size = ParamType::size;
constexpr ParamType type_of_Bool = ParamType::boolean;

const ParamInfo kTable[] = {
#define GC_PARAM(name, type, def, lo, hi, scope, level, help) \
  {#name, type_of_##type, ParamScope::scope, ParamLevel::level, def, lo, hi, "", help, &Params::name, nullptr},
#define GC_PARAM_CHOICE(name, choices, scope, level, help) \
  {#name, ParamType::choice, ParamScope::scope, ParamLevel::level, 0, 0, 0, choices, help, &Params::name, nullptr},
#define GC_PARAM_TEXT(name, level, help) \
  {#name, ParamType::text, ParamScope::local, ParamLevel::level, 0, 0, 0, "", help, nullptr, &Params::name},
#include "base/params.def"
#undef GC_PARAM
#undef GC_PARAM_CHOICE
#undef GC_PARAM_TEXT
};
constexpr size_t kCount = sizeof kTable / sizeof kTable[0];

struct Store {
  Params values;
  const char* source[kCount];
  Status status;
  Store() {
    for (auto& s : source) s = "default";
    status = read_environment();
  }
  Status read_environment();
  Status set(size_t index, const char* text, const char* from);
};

Store& store() {
  static Store* s = new Store;  // never destroyed: other threads may still read it at exit
  return *s;
}

// Index of `word` in "a|b|c", or -1.
int64_t choice_index(const char* choices, const char* word) {
  size_t length = std::strlen(word);
  int64_t index = 0;
  for (const char* p = choices;; ++index) {
    const char* end = std::strchr(p, '|');
    size_t n = end ? static_cast<size_t>(end - p) : std::strlen(p);
    if (n == length && std::strncmp(p, word, n) == 0) return index;
    if (!end) return -1;
    p = end + 1;
  }
}

std::string choice_word(const char* choices, int64_t index) {
  const char* p = choices;
  while (index-- > 0) p = std::strchr(p, '|') + 1;
  const char* end = std::strchr(p, '|');
  return end ? std::string(p, end) : std::string(p);
}

Result<int64_t> parse_integer(const char* text) {
  char* end = nullptr;
  errno = 0;
  long long value = std::strtoll(text, &end, 10);
  if (errno || end == text || *end) return Status::error(Code::invalid_argument, "'%s' is not a whole number", text);
  return static_cast<int64_t>(value);
}

Result<int64_t> parse_boolean(const char* text) {
  for (const char* yes : {"1", "true", "yes", "on", "enabled"})
    if (!strcasecmp(text, yes)) return int64_t{1};
  for (const char* no : {"0", "false", "no", "off", "disabled"})
    if (!strcasecmp(text, no)) return int64_t{0};
  return Status::error(Code::invalid_argument, "'%s' is neither true nor false", text);
}

Result<int64_t> parse_value(const ParamInfo& info, const char* text) {
  switch (info.type) {
    case ParamType::integer: return parse_integer(text);
    case ParamType::size: return parse_size(text);
    case ParamType::boolean: return parse_boolean(text);
    case ParamType::choice:
    case ParamType::text: break;
  }
  int64_t index = choice_index(info.choices, text);
  if (index < 0) return Status::error(Code::invalid_argument, "'%s' is none of %s", text, info.choices);
  return index;
}

Status Store::set(size_t index, const char* text, const char* from) {
  const ParamInfo& info = kTable[index];
  if (info.type == ParamType::text) {
    values.*info.text = text;
    source[index] = from;
    return {};
  }
  auto value = parse_value(info, text);
  if (!value) return Status::error(Code::invalid_argument, "parameter %s: %s", info.name, value.status().what());
  if (info.type != ParamType::choice && (*value < info.minimum || *value > info.maximum))
    return Status::error(Code::invalid_argument, "parameter %s: %s is outside of %lld to %lld", info.name, text,
                         static_cast<long long>(info.minimum), static_cast<long long>(info.maximum));
  values.*info.member = *value;
  source[index] = from;
  if (info.member == &Params::verbose) log::set_verbosity(static_cast<int>(*value));
  return {};
}

constexpr char kPrefix[] = "GPUCOLL_";

// Those that are no parameters but mean something to the build or the tests.
bool is_for_others(const std::string& name) {
  for (const char* begin : {"TEST_", "BENCH", "KERNEL_SUBSET", "DEBIAN13"})
    if (name.compare(sizeof kPrefix - 1, std::strlen(begin), begin) == 0) return true;
  return false;
}

bool is_parameter(const std::string& name) {
  for (const ParamInfo& info : kTable)
    if (name == variable_of(info)) return true;
  return false;
}

Status Store::read_environment() {
  Status first;
  for (size_t i = 0; i < kCount; ++i) {
    const std::string name = variable_of(kTable[i]);
    const char* text = std::getenv(name.c_str());
    if (!text || !*text) continue;
    Status status = set(i, text, "environment");
    if (!status && first.ok())
      first = Status::error(Code::invalid_argument, "environment variable %s: %s; correct it or unset it", name.c_str(),
                            status.what());
  }
  return first;
}

}  // namespace

std::string variable_of(const ParamInfo& info) {
  std::string name = kPrefix;
  for (const char* p = info.name; *p; ++p) name += static_cast<char>(std::toupper(static_cast<unsigned char>(*p)));
  return name;
}

const ParamInfo* param_table(size_t* count) noexcept {
  *count = kCount;
  return kTable;
}

const char* level_name(ParamLevel level) noexcept {
  switch (level) {
    case ParamLevel::user: return "user";
    case ParamLevel::tuning: return "tuning";
    case ParamLevel::developer: break;
  }
  return "developer";
}

const Params& params() noexcept { return store().values; }
const Status& params_status() noexcept { return store().status; }

Status set_param(const char* name, const char* text, const char* source) {
  for (size_t i = 0; i < kCount; ++i)
    if (!std::strcmp(kTable[i].name, name)) return store().set(i, text, source);
  return Status::error(Code::invalid_argument, "there is no parameter '%s'; gpucoll-info lists them", name);
}

void warn_of_unknown_variables() {
  static std::atomic<bool> told{false};
  if (told.exchange(true)) return;
  for (char** variable = environ; variable && *variable; ++variable) {
    const char* const end = std::strchr(*variable, '=');
    if (!end || std::strncmp(*variable, kPrefix, sizeof kPrefix - 1) != 0) continue;
    const std::string name(*variable, static_cast<size_t>(end - *variable));
    if (!is_parameter(name) && !is_for_others(name))
      log::write(log::Level::warn, "%s is ignored: there is no such parameter; gpucoll-info lists them", name.c_str());
  }
}

Status read_params_from_environment() { return store().read_environment(); }

std::string param_text(const ParamInfo& info) {
  return info.type == ParamType::text ? params().*info.text : param_text(info, params().*info.member);
}

std::string param_text(const ParamInfo& info, int64_t value) {
  if (info.type == ParamType::choice) return choice_word(info.choices, value);
  if (info.type == ParamType::size) return format_size(value);
  if (info.type == ParamType::boolean) return value ? "true" : "false";
  return std::to_string(value);
}

const char* param_source(const ParamInfo& info) { return store().source[&info - kTable]; }

const char* library_version() noexcept { return GPUCOLL_VERSION_STRING; }

Result<int64_t> parse_size(const char* text) {
  char* end = nullptr;
  errno = 0;
  long long value = std::strtoll(text, &end, 10);
  if (errno || end == text)
    return Status::error(Code::invalid_argument, "'%s' is not a size such as 65536 or 64M", text);
  int shift = 0;
  switch (std::toupper(static_cast<unsigned char>(*end))) {
    case 'K': shift = 10; break;
    case 'M': shift = 20; break;
    case 'G': shift = 30; break;
    default: break;
  }
  if (shift) ++end;
  if (*end == 'i') ++end;
  if (*end == 'B' || *end == 'b') ++end;
  if (*end || value < 0 || value > (INT64_MAX >> shift))
    return Status::error(Code::invalid_argument, "'%s' is not a size such as 65536 or 64M", text);
  return static_cast<int64_t>(value << shift);
}

std::string format_size(int64_t bytes) {
  const char* suffix[] = {"", "K", "M", "G"};
  int unit = 0;
  while (unit < 3 && bytes && bytes % 1024 == 0) bytes /= 1024, ++unit;
  return std::to_string(bytes) + suffix[unit];
}

}  // namespace gpucoll
