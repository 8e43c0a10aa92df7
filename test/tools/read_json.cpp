// Reads what the tools write for other programs: the files of gpucoll-perf, and gpucoll-info --json.
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace {

int failures = 0;

void expect(bool condition, const std::string& what) {
  if (condition) return;
  ++failures;
  std::fprintf(stderr, "read_json: %s\n", what.c_str());
}

std::vector<std::string> split(const std::string& line) {
  std::vector<std::string> fields(1);
  for (char c : line) {
    if (c == ',')
      fields.emplace_back();
    else
      fields.back() += c;
  }
  return fields;
}

using Table = std::vector<std::vector<std::string>>;

Table read_csv(const char* path) {
  Table table;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) table.push_back(split(line));
  return table;
}

void expect_rows(const nlohmann::json& results, const Table& table) {
  expect(results.size() >= 3, "fewer than three results");
  expect(table.size() == results.size() + 1, "CSV and JSON differ in the number of rows");
  for (size_t i = 0; i < results.size() && i + 1 < table.size(); ++i) {
    const auto& csv = table[i + 1];
    expect(csv.size() == table[0].size(), "a CSV row has not as many fields as the heading");
    if (csv.size() != table[0].size()) continue;
    expect(csv[2] == std::to_string(results[i]["bytes"].get<size_t>()), "bytes differ between CSV and JSON");
    expect(csv[4] == results[i]["type"].get<std::string>(), "type differs between CSV and JSON");
    expect(results[i]["min_us"] <= results[i]["median_us"] && results[i]["median_us"] <= results[i]["max_us"],
           "times are not ordered");
    expect(results[i]["median_us"] <= results[i]["p90_us"] && results[i]["p90_us"] <= results[i]["p99_us"] &&
               results[i]["p99_us"] <= results[i]["max_us"],
           "percentiles are not ordered");
    expect(results[i]["runs_us"].size() == 3 && results[i]["baseline"]["runs_us"].size() == 3, "not three runs");
    expect(results[i]["ratio_least"] <= results[i]["ratio"] && results[i]["ratio"] <= results[i]["ratio_most"],
           "ratios are not ordered");
    const std::string bits = results[i]["bits"].get<std::string>();
    expect(bits.size() == 16 && csv[26] == bits, "bits differ between CSV and JSON");
    expect(results[i]["wrong"] == 0, "wrong elements");
    expect(results[i]["baseline"]["median_us"] > 0, "no baseline");
  }
}

void check_perf(const char* json_path, const char* csv_path) {
  std::ifstream file(json_path);
  nlohmann::json json = nlohmann::json::parse(file);
  expect(json["tool"] == "gpucoll-perf", "not from gpucoll-perf");
  expect(json["device"] == "emu", "not from the emulated device");
  expect(json["ranks"] == json["places"].size(), "not one place for each rank");
  expect(json["wrong"] == 0, "wrong elements in total");
  expect_rows(json["results"], read_csv(csv_path));
}

void check_info() {
  nlohmann::json json = nlohmann::json::parse(stdin);
  expect(json["platform"]["name"] == "emu", "not on the emulated device");
  expect(!json["devices"].empty(), "no emulated device");
  expect(json["devices"][0]["links"][0]["keeps_128_bytes_whole"] == true, "a device that tears its own lines");
  expect(json["gpus"].contains("count"), "nothing about GPUs");
  expect(!json["topology"].get<std::string>().empty(), "no topology");
  expect(!json["network"]["addresses"].empty(), "no address of this host");
  expect(json["transports"].size() >= 2, "fewer than two transports");
  for (const auto& transport : json["transports"])
    expect(transport["usable"] == true, transport["name"].get<std::string>() + " is not usable");
  bool set = false;
  for (const auto& p : json["parameters"])
    set |= p["name"] == "channels" && p["value"] == "3" && p["source"] == "environment" && p["level"] == "user";
  expect(set, "GPUCOLL_CHANNELS=3 is not shown");
}

}  // namespace

// read_json FILE.json FILE.csv: of gpucoll-perf; without arguments: gpucoll-info's on standard input.
int main(int argc, char** argv) {
  try {
    if (argc == 3)
      check_perf(argv[1], argv[2]);
    else
      check_info();
  } catch (const std::exception& error) {
    expect(false, error.what());
  }
  return failures ? 1 : 0;
}
