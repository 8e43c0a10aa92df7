#include "perf/earlier.h"

#include <fmt/format.h>

#include <fstream>

#include "perf/json.h"

namespace gpucoll::perf {
namespace {

using Json = nlohmann::ordered_json;

Status bad(const std::string& path, const std::string& what) {
  return Status(Code::invalid_argument, fmt::format("--compare {}: {}", path, what));
}

bool is_row(const Json& row) {
  return row.is_object() && row.contains("bytes") && row.contains("count") && row.contains("type") &&
         row.contains("op") && row.contains("median_us") && row["median_us"].is_number();
}

std::optional<uint64_t> bits_of(const Json& row) {
  const auto bits = row.find("bits");
  if (bits == row.end() || !bits->is_string()) return std::nullopt;
  return std::strtoull(bits->get<std::string>().c_str(), nullptr, 16);
}

}  // namespace

Result<Earlier> Earlier::load(const std::string& path) {
  std::ifstream file(path);
  if (!file) return bad(path, "cannot be read");
  Json json = Json::parse(file, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded() || !json.is_object()) return bad(path, "is not JSON");
  if (json.value("tool", Json()) != "gpucoll-perf" || !json.contains("results") || !json["results"].is_array())
    return bad(path, "is not from gpucoll-perf --json");
  for (const Json& row : json["results"])
    if (!is_row(row)) return bad(path, "has a result without bytes, count, type, op or median_us");
  return Earlier(path, std::move(json));
}

Status Earlier::require_same_work(const Json& heading) const {
  for (const char* key : {"collective", "ranks", "device", "api", "nonblocking", "persistent", "pipelined",
                          "registered", "in_place", "overlap", "window", "memory"}) {
    // Files of before it was there.
    if (!file_.contains(key)) continue;
    if (file_[key] != heading[key])
      return bad(path_, fmt::format("is of other work: its {} is {}, here it is {}", key, file_[key].dump(),
                                    heading[key].dump()));
  }
  return {};
}

std::optional<Was> Earlier::find(const Call& call) const {
  const Json wanted = identity_json(call);
  for (const Json& row : file_["results"]) {
    bool same = true;
    for (const auto& [key, value] : wanted.items()) same &= row.value(key, Json()) == value;
    if (same) return Was{row["median_us"], bits_of(row)};
  }
  return std::nullopt;
}

}  // namespace gpucoll::perf
