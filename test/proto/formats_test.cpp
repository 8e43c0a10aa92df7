// The documents under docs/formats say what the headers say.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include "proto/format/connection.h"
#include "proto/format/mesh.h"

namespace gpucoll {
namespace {

std::string document(const char* name) {
  const char* const directory = std::getenv("GC_FORMAT_DOCS");
  EXPECT_NE(directory, nullptr) << "GC_FORMAT_DOCS must name docs/formats";
  std::ifstream file(std::string(directory == nullptr ? "" : directory) + "/" + name);
  EXPECT_TRUE(file) << name;
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(Formats, ConnectionDocumentHasTheFieldsOfTheHeader) {
  const std::string text = document("connection.md");
#define GC_EXPECT_ROW(structure, field, offset, bytes)                                                  \
  EXPECT_NE(text.find("| " #structure " | " #field " | " #offset " | " #bytes " |"), std::string::npos) \
      << #structure "::" #field;
  GC_CONNECTION_FIELDS(GC_EXPECT_ROW)
#undef GC_EXPECT_ROW
  const std::string slots =
      "| " + std::to_string(proto::ReceiveBlock::kSlotsOffset) + " | 8 × `slot_bytes` | the slots";
  EXPECT_NE(text.find(slots), std::string::npos);
  EXPECT_NE(text.find("`kSteps` = " + std::to_string(proto::kSteps)), std::string::npos);
}

TEST(Formats, MeshDocumentHasTheConstantsOfTheHeader) {
  const std::string text = document("mesh.md");
  const auto has = [&](const std::string& name, size_t value) {
    EXPECT_NE(text.find("| `" + name + "` | " + std::to_string(value) + " |"), std::string::npos) << name;
  };
  has("kMeshChannels", proto::kMeshChannels);
  has("kMeshLines", proto::kMeshLines);
  has("kMeshLineBytes", proto::kMeshLineBytes);
  has("kMeshLineData", proto::kMeshLineData);
  has("kMeshChannelData", proto::kMeshChannelData);
  has("kMeshMaxRanks", proto::kMeshMaxRanks);
}

}  // namespace
}  // namespace gpucoll
