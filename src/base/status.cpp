#include "base/status.h"

#include <atomic>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>
#include <system_error>
#include <vector>

#include "base/log.h"
#include "base/system_limits.h"

namespace gpucoll {
namespace {

std::string format_va(const char* format, va_list args) {
  va_list again;
  va_copy(again, args);
  int length = std::vsnprintf(nullptr, 0, format, args);
  std::string text(length > 0 ? static_cast<size_t>(length) : 0, '\0');
  if (length > 0) std::vsnprintf(text.data(), text.size() + 1, format, again);
  va_end(again);
  return text;
}

// REQUIRES: an exception is being handled.
Code describe_exception(char* text, size_t bytes) noexcept {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    std::snprintf(text, bytes, "no host memory left");
    return Code::out_of_memory;
  } catch (const std::system_error& e) {
    if (e.code() != std::errc::resource_unavailable_try_again) {
      std::snprintf(text, bytes, "unexpected exception: %s", e.what());
      return Code::internal;
    }
    std::snprintf(text, bytes,
                  "no thread can be started: %s; raise `ulimit -u`, the number of processes and threads "
                  "of a user, or the container's limit of processes (pids.max)",
                  e.code().message().c_str());
    return Code::system;
  } catch (const std::exception& e) {
    std::snprintf(text, bytes, "unexpected exception: %s", e.what());
  } catch (...) {
    std::snprintf(text, bytes, "unexpected exception of an unknown type");
  }
  return Code::internal;
}

// A fixed buffer: reporting "out of memory" must not allocate.
thread_local char last_error_text[1024];

void remember(const char* text) noexcept { std::snprintf(last_error_text, sizeof last_error_text, "%s", text); }

}  // namespace

const char* describe(Code code) noexcept {
  switch (code) {
#define GC_ERROR(name, c_name, value, mpi_class, text) \
  case Code::name:                                     \
    return text;
#include "base/errors.def"
#undef GC_ERROR
  }
  return "unknown error code";
}

Status::Status(Code code, std::string what) : rep_(new Rep{code, std::move(what)}) {}

Status::Status(const Status& other) : rep_(other.rep_ ? new Rep(*other.rep_) : nullptr) {}

Status& Status::operator=(const Status& other) {
  if (this != &other) rep_.reset(other.rep_ ? new Rep(*other.rep_) : nullptr);
  return *this;
}

Status Status::error(Code code, const char* format, ...) {
  va_list args;
  va_start(args, format);
  std::string text = format_va(format, args);
  va_end(args);
  return Status(code, std::move(text));
}

Status Status::system(int errnum, const char* format, ...) {
  va_list args;
  va_start(args, format);
  std::string text = format_va(format, args);
  va_end(args);
  text += ": ";
  text += std::strerror(errnum);
  text += limit_advice(errnum);
  return Status(errnum == ENOMEM ? Code::out_of_memory : Code::system, std::move(text));
}

Code guarded_report(const char* where, const Status& status) noexcept {
  remember(status.what());
  if (!status.told()) log::write(log::Level::error, "%s: %s", where, status.what());
  return status.code();
}

Code guarded_exception(const char* where) noexcept {
  char text[512];
  Code code = describe_exception(text, sizeof text);
  remember(text);
  log::write(log::Level::error, "%s: %s", where, text);
  return code;
}

// A child may end with many destructors of its program: they are told once.
Code guarded_refusal(const char* where) noexcept {
  static std::atomic<bool> told{false};
  constexpr const char* kText =
      "this process was forked by one that uses gpucoll: it has neither its parent's threads nor its devices, and must "
      "exec before it uses gpucoll";
  remember(kText);
  if (!told.exchange(true)) log::write(log::Level::info, "%s: %s", where, kText);
  return Code::invalid_usage;
}

Status contained_exception() noexcept {
  char text[512];
  Code code = describe_exception(text, sizeof text);
  return Status(code, text);
}

const char* last_error() noexcept { return last_error_text; }

}  // namespace gpucoll
