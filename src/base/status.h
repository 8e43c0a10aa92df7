// Status and Result<T>: how every fallible function of gpucoll answers.
//
// A Status is one pointer: null means success, so the happy path costs a compare. A failed Status owns a code
// and one sentence that says who, what and what to do. gpucoll does not throw; exceptions of the standard
// library (bad_alloc) are caught at the C boundary by guarded().
//
// Outputs are set only on success. The sentence is written once, where the failure is first decided.
// Thread safety: a value type; no sharing.
#pragma once
#include <cstdarg>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/fork.h"

namespace gpucoll {

enum class Cause : uint8_t;  // causes.h

enum class Code : int {
#define GC_ERROR(name, c_name, value, mpi_class, text) name = value,
#include "base/errors.def"
#undef GC_ERROR
};

// One general sentence about a code; never null.
const char* describe(Code code) noexcept;
// Returns the code for a message about whose length its two ranks do not agree.
constexpr Code wrong_length(uint64_t sent, uint64_t room) noexcept {
  return sent > room ? Code::truncated : Code::invalid_usage;
}

class [[nodiscard]] Status {
 public:
  Status() noexcept = default;
  Status(Code code, std::string what);
  // printf-style; REQUIRES: code != Code::ok.
  static Status error(Code code, const char* format, ...) __attribute__((format(printf, 2, 3)));
  // A failed system call: appends the text of `errnum`, and what to raise where a limit was met.
  static Status system(int errnum, const char* format, ...) __attribute__((format(printf, 2, 3)));

  Status(Status&&) noexcept = default;
  Status& operator=(Status&&) noexcept = default;
  Status(const Status& other);
  Status& operator=(const Status& other);

  explicit operator bool() const noexcept { return rep_ == nullptr; }
  bool ok() const noexcept { return rep_ == nullptr; }
  Code code() const noexcept { return rep_ ? rep_->code : Code::ok; }
  const char* what() const noexcept { return rep_ ? rep_->what.c_str() : ""; }
  // Marks the sentence as logged already: guarded() then returns the code without logging it again.
  void mark_told() noexcept {
    if (rep_) rep_->told = true;
  }
  bool told() const noexcept { return rep_ && rep_->told; }
  // Marks the sentence as one about the rank that is at fault: who gives up because of it passes it on as it is.
  Status blaming() && noexcept {
    if (rep_) rep_->blames = true;
    return std::move(*this);
  }
  bool blames() const noexcept { return rep_ && rep_->blames; }
  // Says which cause of slow calls (causes.h) it is, where it only keeps a call from the fast way.
  Status because(Cause cause) && noexcept {
    if (rep_) rep_->cause = static_cast<uint8_t>(cause) + 1;
    return std::move(*this);
  }
  // Returns that, or `otherwise`.
  Cause cause(Cause otherwise) const noexcept {
    return rep_ && rep_->cause ? static_cast<Cause>(rep_->cause - 1) : otherwise;
  }
  // For a best-effort clean-up whose failure changes nothing.
  void ignore() const noexcept {}

 private:
  struct Rep {
    Code code;
    std::string what;
    bool told = false;
    bool blames = false;
    uint8_t cause = 0;  // 0: none, else its number and 1
  };
  std::unique_ptr<Rep> rep_;
};
static_assert(sizeof(Status) == sizeof(void*));

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}
  Result(Status status) : status_(std::move(status)) {}  // REQUIRES: !status.ok()

  explicit operator bool() const noexcept { return value_.has_value(); }
  bool ok() const noexcept { return value_.has_value(); }
  T& operator*() & { return *value_; }
  const T& operator*() const& { return *value_; }
  T&& operator*() && { return *std::move(value_); }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }
  const Status& status() const& noexcept { return status_; }
  Status status() && noexcept { return std::move(status_); }

 private:
  std::optional<T> value_;
  Status status_;
};

// GC_TRY(f());            returns f's Status where it failed
// GC_TRY_AS(int x, g());  x is g's value, or returns its Status
#define GC_TRY(...)                                                    \
  do {                                                                 \
    if (::gpucoll::Status gc_s_ = (__VA_ARGS__); !gc_s_) return gc_s_; \
  } while (0)
#define GC_CONCAT_(a, b) a##b
#define GC_CONCAT(a, b) GC_CONCAT_(a, b)
#define GC_TRY_AS(lhs, ...) GC_TRY_AS_(GC_CONCAT(gc_r_, __COUNTER__), lhs, __VA_ARGS__)
#define GC_TRY_AS_(tmp, lhs, ...)           \
  auto tmp = (__VA_ARGS__);                 \
  if (!tmp) return std::move(tmp).status(); \
  lhs = *std::move(tmp)

// The one place where C++ meets C: runs `body` (returning Status), catches everything, logs a failure once
// under the name of the entry point, keeps its sentence for last_error(), and gives the code's value. Refuses all in a
// forked child.
Code guarded_report(const char* where, const Status& status) noexcept;
Code guarded_exception(const char* where) noexcept;
Code guarded_refusal(const char* where) noexcept;
template <class Body>
Code guarded(const char* where, Body&& body) noexcept {
  if (is_forked_child()) return guarded_refusal(where);
  try {
    Status status = body();
    return status ? Code::ok : guarded_report(where, status);
  } catch (...) {
    return guarded_exception(where);
  }
}
// Local work between two exchanges with other ranks: what it throws (no memory, no thread) becomes a Status, so that
// this rank can still tell the others instead of leaving them to wait.
Status contained_exception() noexcept;
template <class Body>
auto contained(Body&& body) noexcept -> decltype(body()) {
  try {
    return body();
  } catch (...) {
    return contained_exception();
  }
}
// The sentence of the last failure reported on this thread through guarded(), or "".
const char* last_error() noexcept;

}  // namespace gpucoll
