// The documents under docs/formats say what the headers say.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include "proto/format/connection.h"

namespace gpucoll {
namespace {

TEST(Formats, ConnectionDocumentHasTheFieldsOfTheHeader) {
  const char* const directory = std::getenv("GC_FORMAT_DOCS");
  ASSERT_NE(directory, nullptr) << "GC_FORMAT_DOCS must name docs/formats";
  std::ifstream file(std::string(directory) + "/connection.md");
  ASSERT_TRUE(file) << directory;
  std::stringstream text;
  text << file.rdbuf();
#define GC_EXPECT_ROW(structure, field, offset, bytes)                                                        \
  EXPECT_NE(text.str().find("| " #structure " | " #field " | " #offset " | " #bytes " |"), std::string::npos) \
      << #structure "::" #field;
  GC_CONNECTION_FIELDS(GC_EXPECT_ROW)
#undef GC_EXPECT_ROW
  const std::string slots =
      "| " + std::to_string(proto::ReceiveBlock::kSlotsOffset) + " | 8 × `slot_bytes` | the slots";
  EXPECT_NE(text.str().find(slots), std::string::npos);
  EXPECT_NE(text.str().find("`kSteps` = " + std::to_string(proto::kSteps)), std::string::npos);
}

}  // namespace
}  // namespace gpucoll
