#include "core/plan/tuning_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <optional>
#include <sstream>
#include <string>

#include "base/params.h"
#include "base/unique_fd.h"
#include "core/plan/tuner.h"

namespace gpucoll::core {
namespace {

constexpr const char* kHeading = "gpucoll-tuning 1";

std::vector<std::string> words_of(const std::string& line) {
  std::istringstream in(line.substr(0, line.find('#')));
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

// The whole word as a number.
template <class T>
std::optional<T> number(const std::string& word) {
  T value{};
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc() || end != word.data() + word.size()) return std::nullopt;
  return value;
}

// The enumerator of that name among the first `count`.
template <class Enum>
std::optional<Enum> named(const std::string& word, int count) {
  for (int i = 0; i < count; ++i)
    if (word == name(static_cast<Enum>(i))) return static_cast<Enum>(i);
  return std::nullopt;
}

class Parser {
 public:
  Result<TuningFile> parse(const std::string& text);

 private:
  Status line(const std::vector<std::string>& words);
  Status section(const std::vector<std::string>& words);
  Status limit(const std::vector<std::string>& words);
  Status point(const std::vector<std::string>& words);
  Status bad(const std::string& what) const {
    return Status::error(Code::invalid_argument, "line %d: %s", number_, what.c_str());
  }

  TuningFile file_;
  int number_ = 0;
  bool heading_ = false;
};

Result<TuningFile> Parser::parse(const std::string& text) {
  std::istringstream in(text);
  for (std::string one; std::getline(in, one);) {
    ++number_;
    const auto words = words_of(one);
    if (!words.empty()) GC_TRY(line(words));
  }
  file_.hash = 1469598103934665603ull;
  if (!heading_) return bad("the file ends before its heading '" + std::string(kHeading) + "'");
  for (unsigned char c : text) file_.hash = (file_.hash ^ c) * 1099511628211ull;  // FNV-1a
  return std::move(file_);
}

Status Parser::line(const std::vector<std::string>& words) {
  if (!heading_) {
    heading_ = words.size() == 2 && words[0] + " " + words[1] == kHeading;
    return heading_ ? Status() : bad("this is not the heading '" + std::string(kHeading) + "'");
  }
  if (words[0] == "device") return section(words);
  return words[0] == "limit" ? limit(words) : point(words);
}

Status Parser::section(const std::vector<std::string>& words) {
  if (words.size() != 4 || words[2] != "ranks") return bad("a section begins with 'device KIND ranks N'");
  TuningTable table;
  if (words[1] != "cuda" && words[1] != "emu") return bad("'" + words[1] + "' is neither cuda nor emu");
  table.emulated = words[1] == "emu";
  table.n_ranks = number<int>(words[3]).value_or(0);
  if (table.n_ranks < 1) return bad("'" + words[3] + "' is no number of ranks");
  for (const TuningTable& other : file_.tables)
    if (other.emulated == table.emulated && other.n_ranks == table.n_ranks)
      return bad("there is a section for " + words[1] + " and " + words[3] + " ranks already");
  file_.tables.push_back(std::move(table));
  return {};
}

Status Parser::limit(const std::vector<std::string>& words) {
  if (file_.tables.empty()) return bad("a limit before the first section");
  if (words.size() != 3) return bad("a limit is 'limit PARAMETER BYTES'");
  const auto which = named<Limit>(words[1], kLimits);
  if (!which) return bad("there is no limit '" + words[1] + "'");
  const auto bytes = number<uint64_t>(words[2]);
  if (!bytes || *bytes == 0) return bad("'" + words[2] + "' is no number of bytes above 0");
  file_.tables.back().limit(*which) = *bytes;
  return {};
}

Status Parser::point(const std::vector<std::string>& words) {
  if (file_.tables.empty()) return bad("a time before the first section");
  if (words.size() != 5) return bad("a time is 'FUNCTION ALGORITHM PROTOCOL BYTES MICROSECONDS'");
  const auto function = named<Function>(words[0], proto::kFunctions);
  if (!function) return bad("there is no function '" + words[0] + "'");
  const auto algorithm = named<Algorithm>(words[1], proto::kAlgorithms);
  if (!algorithm) return bad("there is no algorithm '" + words[1] + "'");
  const auto protocol = named<Protocol>(words[2], proto::kProtocols);
  if (!protocol) return bad("there is no protocol '" + words[2] + "'");
  const auto bytes = number<uint64_t>(words[3]);
  if (!bytes) return bad("'" + words[3] + "' is no number of bytes");
  const auto us = number<double>(words[4]);
  if (!us || !std::isfinite(*us) || *us <= 0) return bad("'" + words[4] + "' is no number of microseconds");
  auto& points = file_.tables.back()
                     .points[static_cast<int>(*function)][static_cast<int>(*algorithm)][static_cast<int>(*protocol)];
  if (!points.empty() && points.back().bytes >= *bytes) return bad("the bytes of a path do not ascend");
  points.push_back({*bytes, *us});
  return {};
}

void format_path(std::string* text, Function f, Algorithm a, Protocol p, const TuningTable::Points& points) {
  char numbers[64];
  for (const TuningPoint& point : points) {
    std::snprintf(numbers, sizeof numbers, "%llu %.2f", static_cast<unsigned long long>(point.bytes), point.us);
    *text += std::string(name(f)) + " " + name(a) + " " + name(p) + " " + numbers + "\n";
  }
}

void format_table(std::string* text, const TuningTable& table) {
  *text +=
      std::string("device ") + (table.emulated ? "emu" : "cuda") + " ranks " + std::to_string(table.n_ranks) + "\n";
  for (int i = 0; i < kLimits; ++i)
    if (table.limits[i])
      *text += std::string("limit ") + name(static_cast<Limit>(i)) + " " + std::to_string(table.limits[i]) + "\n";
  for (int f = 0; f < proto::kFunctions; ++f)
    for (int a = 0; a < proto::kAlgorithms; ++a)
      for (int p = 0; p < proto::kProtocols; ++p)
        format_path(text, static_cast<Function>(f), static_cast<Algorithm>(a), static_cast<Protocol>(p),
                    table.points[f][a][p]);
}

// Not waiting for what a FIFO's other end, or a device, may write one day.
Result<std::string> text_of(const std::string& path) {
  constexpr off_t kMost = off_t{16} << 20;
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  struct stat info {};
  if (!fd || fstat(fd.get(), &info))
    return Status::error(Code::system, "tuning file %s: %s", path.c_str(), std::strerror(errno));
  if (!S_ISREG(info.st_mode) || info.st_size > kMost)
    return Status::error(
        Code::invalid_argument,
        "tuning file %s: it is no regular file of at most 16 MiB: name one that gpucoll-tune has written",
        path.c_str());
  std::string text(static_cast<size_t>(info.st_size), '\0');
  for (size_t done = 0; done < text.size();) {
    const ssize_t more = read(fd.get(), text.data() + done, text.size() - done);
    if (more < 0 && errno == EINTR) continue;
    if (more < 0) return Status::error(Code::system, "tuning file %s: %s", path.c_str(), std::strerror(errno));
    if (more == 0) text.resize(done);  // somebody has cut it meanwhile
    done += static_cast<size_t>(more);
  }
  return text;
}

const Result<TuningFile>& file_of_process() {
  static const auto* file = new Result<TuningFile>(params().tuning_file.empty() ? Result<TuningFile>(TuningFile{})
                                                                                : read_tuning(params().tuning_file));
  return *file;
}

}  // namespace

const char* name(Limit limit) {
  switch (limit) {
    case Limit::zero_copy_bytes: return "zero_copy_bytes";
    case Limit::copy_engine_bytes: return "copy_engine_bytes";
    case Limit::copy_exchange_bytes: return "copy_exchange_bytes";
    case Limit::copy_reduction_bytes: return "copy_reduction_bytes";
  }
  return "?";
}

double TuningTable::us(Function function, Algorithm algorithm, Protocol protocol, uint64_t bytes) const {
  const Points& path = points[static_cast<int>(function)][static_cast<int>(algorithm)][static_cast<int>(protocol)];
  if (path.empty()) return -1;
  const auto above = std::lower_bound(path.begin(), path.end(), bytes,
                                      [](const TuningPoint& point, uint64_t wanted) { return point.bytes < wanted; });
  if (above == path.begin()) return above->us;
  const TuningPoint& below = above[-1];
  if (above == path.end())
    return below.us * static_cast<double>(bytes) / static_cast<double>(std::max<uint64_t>(below.bytes, 1));
  const double part = static_cast<double>(bytes - below.bytes) / static_cast<double>(above->bytes - below.bytes);
  return below.us + part * (above->us - below.us);
}

Result<TuningFile> parse_tuning(const std::string& text) { return Parser().parse(text); }

Result<TuningFile> read_tuning(const std::string& path) {
  GC_TRY_AS(const std::string text, text_of(path));
  auto file = parse_tuning(text);
  if (!file) return Status::error(file.status().code(), "tuning file %s: %s", path.c_str(), file.status().what());
  return file;
}

std::string format_tuning(const std::vector<TuningTable>& tables, const std::string& comment) {
  std::string text = std::string(kHeading) + "\n";
  if (!comment.empty()) text += "# " + comment + "\n";
  for (const TuningTable& table : tables) format_table(&text, table);
  return text;
}

Result<const TuningTable*> tuning_table(bool emulated, int n_ranks) {
  const auto& file = file_of_process();
  if (!file) return Status::error(file.status().code(), "%s", file.status().what());
  for (const TuningTable& table : file->tables)
    if (table.emulated == emulated && table.n_ranks == n_ranks) return &table;
  return static_cast<const TuningTable*>(nullptr);
}

uint64_t tuning_hash() noexcept {
  const auto& file = file_of_process();
  return file ? file->hash : 0;
}

}  // namespace gpucoll::core
