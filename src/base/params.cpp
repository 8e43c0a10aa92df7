#include "base/params.h"

#include <unistd.h>

#include <atomic>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "base/environment.h"
#include "base/log.h"

namespace gpucoll {
namespace {

// The types of params.def, as members of ParamInfo: type, takes_auto, takes_off.
#define GC_TYPE_Int ParamType::integer, false, false
#define GC_TYPE_OffInt ParamType::integer, false, true
#define GC_TYPE_AutoInt ParamType::integer, true, false
#define GC_TYPE_AutoOffInt ParamType::integer, true, true
#define GC_TYPE_Size ParamType::size, false, false
#define GC_TYPE_AutoSize ParamType::size, true, false
#define GC_TYPE_AutoOffSize ParamType::size, true, true
#define GC_TYPE_Bool ParamType::boolean, false, false
#define GC_TYPE_CHOICE ParamType::choice, false, false
#define GC_TYPE_TEXT ParamType::text, false, false

const ParamInfo kTable[] = {
#define GC_PARAM(name, type, def, lo, hi, scope, level, help) \
  {#name, GC_TYPE_##type, ParamScope::scope, ParamLevel::level, def, lo, hi, "", help, &Params::name, nullptr},
#define GC_PARAM_CHOICE(name, choices, scope, level, help) \
  {#name, GC_TYPE_CHOICE, ParamScope::scope, ParamLevel::level, 0, 0, 0, choices, help, &Params::name, nullptr},
#define GC_PARAM_TEXT(name, level, help) \
  {#name, GC_TYPE_TEXT, ParamScope::local, ParamLevel::level, 0, 0, 0, "", help, nullptr, &Params::name},
#define GC_PARAM_RENAMED(old, name)
#include "base/params.def"
#undef GC_PARAM
#undef GC_PARAM_CHOICE
#undef GC_PARAM_TEXT
#undef GC_PARAM_RENAMED
};
constexpr size_t kCount = sizeof kTable / sizeof kTable[0];

constexpr struct OldName {
  const char *old, *name;
} kOldNames[] = {
#define GC_PARAM(name, type, def, lo, hi, scope, level, help)
#define GC_PARAM_CHOICE(name, choices, scope, level, help)
#define GC_PARAM_TEXT(name, level, help)
#define GC_PARAM_RENAMED(old, name) {#old, #name},
#include "base/params.def"
#undef GC_PARAM
#undef GC_PARAM_CHOICE
#undef GC_PARAM_TEXT
#undef GC_PARAM_RENAMED
};

constexpr char kPrefix[] = "GPUCOLL_";

std::string variable_of(const char* name) {
  std::string variable = kPrefix;
  for (const char* p = name; *p; ++p) variable += static_cast<char>(std::toupper(static_cast<unsigned char>(*p)));
  return variable;
}

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

std::optional<int64_t> parse_integer(const char* text) {
  char* end = nullptr;
  errno = 0;
  long long value = std::strtoll(text, &end, 10);
  if (errno || end == text || *end) return std::nullopt;
  return value;
}

std::optional<int64_t> parse_boolean(const char* text) {
  for (const char* yes : {"1", "true", "yes", "on", "enabled"})
    if (!strcasecmp(text, yes)) return 1;
  for (const char* no : {"0", "false", "no", "off", "disabled"})
    if (!strcasecmp(text, no)) return 0;
  return std::nullopt;
}

// Returns the value that `text` is of an integer, size or boolean; nothing where it is none that is accepted.
std::optional<int64_t> parse_number(const ParamInfo& info, const char* text) {
  if (info.takes_auto && !strcasecmp(text, "auto")) return kAuto;
  if (info.takes_off && !strcasecmp(text, "off")) return kOff;
  std::optional<int64_t> value;
  if (info.type == ParamType::boolean) value = parse_boolean(text);
  if (info.type == ParamType::integer) value = parse_integer(text);
  if (info.type == ParamType::size)
    if (const Result<int64_t> size = parse_size(text)) value = *size;
  return value && *value >= info.minimum && *value <= info.maximum ? value : std::nullopt;
}

std::string range_text(const ParamInfo& info) {
  return param_text(info, info.minimum) + " to " + param_text(info, info.maximum);
}

// Says what an integer, size or boolean accepts, worded to follow "is not".
std::string wanted_text(const ParamInfo& info) {
  if (info.type == ParamType::boolean) return "true or false";
  const std::string number = info.type == ParamType::size ? "a size (such as 65536 or 64M)" : "a whole number";
  const char* const words = info.takes_auto && info.takes_off ? "auto, off or "
                            : info.takes_auto                 ? "auto or "
                            : info.takes_off                  ? "off or "
                                                              : "";
  return words + number + " from " + range_text(info);
}

Result<int64_t> parse_value(const ParamInfo& info, const char* text) {
  if (info.type != ParamType::choice) {
    if (const auto value = parse_number(info, text)) return *value;
    return Status::error(Code::invalid_argument, "parameter %s: '%s' is not %s", info.name, text,
                         wanted_text(info).c_str());
  }
  const int64_t index = choice_index(info.choices, text);
  if (index >= 0) return index;
  return Status::error(Code::invalid_argument, "parameter %s: '%s' is none of %s", info.name, text, info.choices);
}

// Fails as a parameter was set by its old name.
Status renamed(const OldName& names) {
  return Status::error(Code::invalid_argument, "the parameter %s is named %s now: set %s or --mca coll_gpucoll_%s",
                       names.old, names.name, variable_of(names.name).c_str(), names.name);
}

Status Store::set(size_t index, const char* text, const char* from) {
  const ParamInfo& info = kTable[index];
  if (info.type == ParamType::text) {
    values.*info.text = text;
    source[index] = from;
    return {};
  }
  GC_TRY_AS(const int64_t value, parse_value(info, text));
  values.*info.member = value;
  source[index] = from;
  if (info.member == &Params::verbose) log::set_verbosity(static_cast<int>(value));
  return {};
}

// Those that are no parameters but mean something to the build or the tests.
bool is_for_others(const std::string& name) {
  for (const char* begin : {"TEST_", "BENCH", "KERNEL_SUBSET", "DEBIAN13"})
    if (name.compare(sizeof kPrefix - 1, std::strlen(begin), begin) == 0) return true;
  return false;
}

bool is_parameter(const std::string& name) {
  for (const ParamInfo& info : kTable)
    if (name == variable_of(info)) return true;
  for (const OldName& names : kOldNames)
    if (name == variable_of(names.old)) return true;  // setting it is an error, which says more than a warning
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
  for (const OldName& names : kOldNames) {
    const std::string name = variable_of(names.old);
    const char* text = std::getenv(name.c_str());
    if (text && *text && first.ok())
      first = Status::error(Code::invalid_argument, "environment variable %s: %s", name.c_str(), renamed(names).what());
  }
  return first;
}

}  // namespace

std::string variable_of(const ParamInfo& info) { return variable_of(info.name); }

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

const Params& detail::filled_params() noexcept { return store().values; }
const Status& params_status() noexcept { return store().status; }

Status set_param(const char* name, const char* text, const char* source) {
  for (size_t i = 0; i < kCount; ++i)
    if (!std::strcmp(kTable[i].name, name)) return store().set(i, text, source);
  for (const OldName& names : kOldNames)
    if (!std::strcmp(names.old, name)) return renamed(names);
  return Status::error(Code::invalid_argument, "there is no parameter '%s'; gpucoll-info lists them", name);
}

void warn_of_unknown_variables(bool tells) {
  static std::atomic<bool> told{false};
  if (told.exchange(true) || !tells) return;
  for (char** variable = environ; variable && *variable; ++variable) {
    const char* const end = std::strchr(*variable, '=');
    if (!end || std::strncmp(*variable, kPrefix, sizeof kPrefix - 1) != 0) continue;
    const std::string name(*variable, static_cast<size_t>(end - *variable));
    if (!is_parameter(name) && !is_for_others(name))
      log::write(log::Level::warn, "%s is ignored: there is no such parameter; gpucoll-info lists them", name.c_str());
  }
}

const char* old_param_name(size_t index) noexcept {
  return index < sizeof kOldNames / sizeof kOldNames[0] ? kOldNames[index].old : nullptr;
}

Status read_params_from_environment() { return store().read_environment(); }

std::string accepted_text(const ParamInfo& info) {
  if (info.type == ParamType::boolean) return "true, false";
  if (info.type == ParamType::text) return "any text";
  if (info.type != ParamType::choice)
    return (info.takes_auto ? "auto, " : "") + std::string(info.takes_off ? "off, " : "") + range_text(info);
  std::string text;
  for (const char* p = info.choices; *p; ++p) text += *p == '|' ? std::string(", ") : std::string(1, *p);
  return text;
}

std::string param_text(const ParamInfo& info) {
  return info.type == ParamType::text ? params().*info.text : param_text(info, params().*info.member);
}

std::string param_text(const ParamInfo& info, int64_t value) {
  if (info.takes_auto && value == kAuto) return "auto";
  if (info.takes_off && value == kOff) return "off";
  if (info.type == ParamType::choice) return choice_word(info.choices, value);
  if (info.type == ParamType::size) return format_size(value);
  if (info.type == ParamType::boolean) return value ? "true" : "false";
  return std::to_string(value);
}

bool is_param_set(const char* name) noexcept {
  for (const ParamInfo& info : kTable)
    if (!std::strcmp(info.name, name)) return std::strcmp(param_source(info), "default") != 0;
  return false;
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
