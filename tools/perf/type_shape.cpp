#include "perf/type_shape.h"

#include <fmt/format.h>

#include <charconv>
#include <climits>
#include <optional>

namespace gpucoll::perf {
namespace {

using Kind = TypeShape::Kind;
using Part = TypeShape::Part;

size_t as_size(int n) { return static_cast<size_t>(n); }

Status bad(const std::string& text, const std::string& what) {
  return Status(Code::invalid_argument, fmt::format("--type-shape {}: {}", text, what));
}

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> words(1);
  for (const char c : text) {
    if (c == ':')
      words.emplace_back();
    else
      words.back() += c;
  }
  return words;
}

// Returns a number from 1 on.
std::optional<int> number(const std::string& word) {
  int value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc() || end != word.data() + word.size() || value < 1) return std::nullopt;
  return value;
}

struct Form {
  const char* name;
  Kind kind;
  size_t numbers;
};
constexpr Form kForms[] = {
    {"vector", Kind::vector, 3}, {"face", Kind::face, 1}, {"indexed", Kind::indexed, 1}, {"struct", Kind::structs, 1}};

const Form* find_form(const std::vector<std::string>& words) {
  for (const Form& form : kForms)
    if (words[0] == form.name && words.size() == 1 + form.numbers + (form.kind == Kind::face)) return &form;
  return nullptr;
}

// Elements of the buffer, or as many as there may be, and more.
double room(const TypeShape& shape) {
  const double n = shape.numbers[0];
  switch (shape.kind) {
    case Kind::vector: return (n - 1) * shape.numbers[2] + shape.numbers[1];
    case Kind::face: return n * n * n;
    default: return 7 * n;
  }
}

// Adds the distance between neighbours across the face.
Status read_axis(const std::string& axis, TypeShape& shape) {
  const int n = shape.numbers[0];
  if (axis != "x" && axis != "y" && axis != "z") return bad(shape.text, "a face is across x, y or z");
  shape.numbers.push_back(axis == "x" ? 1 : axis == "y" ? n : n * n);
  return {};
}

// Fills in what follows from the parts.
void measure(TypeShape& shape) {
  const std::vector<Part> parts = parts_of(shape);
  shape.extent = parts.back().offset + parts.back().elements;
  if (shape.kind == Kind::face) shape.extent = static_cast<size_t>(room(shape));
  shape.data.assign(shape.extent, false);
  for (const Part& part : parts) {
    shape.elements += part.elements;
    for (size_t i = 0; i < part.elements; ++i) shape.data[part.offset + i] = true;
  }
}

std::vector<Part> face_parts(size_t n, size_t across) {
  std::vector<Part> parts;
  // Across z all elements lie together, across y those of a row, across x each is alone.
  if (across == n * n) return {{0, n * n}};
  for (size_t z = 0; z < n; ++z) {
    if (across == n) parts.push_back({z * n * n, n});
    for (size_t y = 0; across == 1 && y < n; ++y) parts.push_back({(z * n + y) * n, 1});
  }
  return parts;
}

}  // namespace

Result<std::shared_ptr<const TypeShape>> parse_type_shape(const std::string& text) {
  const std::vector<std::string> words = split(text);
  const Form* form = find_form(words);
  if (!form)
    return bad(text,
               "is no shape; there are contiguous, vector:COUNT:BLOCK:STRIDE, face:N:x (or y, z), indexed:N, struct:N");
  TypeShape shape;
  shape.text = text;
  shape.kind = form->kind;
  for (size_t i = 1; i <= form->numbers; ++i) {
    const std::optional<int> value = number(words[i]);
    if (!value) return bad(text, fmt::format("'{}' is no number from 1 on", words[i]));
    shape.numbers.push_back(*value);
  }
  if (room(shape) > INT_MAX) return bad(text, "has more than 2147483647 elements; take smaller numbers");
  if (shape.kind == Kind::vector && shape.numbers[2] < shape.numbers[1])
    return bad(text, "blocks overlap; take a stride of at least the block");
  if (shape.kind == Kind::face) GC_TRY(read_axis(words[2], shape));
  measure(shape);
  return std::shared_ptr<const TypeShape>(std::make_shared<TypeShape>(std::move(shape)));
}

std::vector<Part> parts_of(const TypeShape& shape) {
  const size_t n = as_size(shape.numbers[0]);
  if (shape.kind == Kind::face) return face_parts(n, as_size(shape.numbers[1]));
  std::vector<Part> parts;
  size_t end = 0;
  for (size_t i = 0; i < n; ++i) {
    switch (shape.kind) {
      case Kind::vector: parts.push_back({i * as_size(shape.numbers[2]), as_size(shape.numbers[1])}); break;
      case Kind::indexed:
        parts.push_back({end + 1 + i % 3, 1 + i % 4});
        end = parts.back().offset + parts.back().elements;
        break;
      default: parts.push_back({4 * i, 1}); parts.push_back({4 * i + 2, 2});
    }
  }
  return parts;
}

}  // namespace gpucoll::perf
