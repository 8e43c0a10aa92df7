// The documents under docs/formats say what the headers say.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>
#include <string>

#include "proto/format/connection.h"
#include "proto/format/copy.h"
#include "proto/format/direct.h"
#include "proto/format/line_mesh.h"
#include "proto/format/mesh.h"
#include "proto/format/plan.h"
#include "proto/format/zero_copy.h"

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

void expect_constant(const std::string& text, const std::string& name, size_t value) {
  EXPECT_NE(text.find("| `" + name + "` | " + std::to_string(value) + " |"), std::string::npos) << name;
}

TEST(Formats, ConnectionDocumentHasTheFieldsOfTheHeader) {
  const std::string text = document("connection.md");
#define GC_EXPECT_ROW(structure, field, offset, bytes)                                                  \
  EXPECT_NE(text.find("| " #structure " | " #field " | " #offset " | " #bytes " |"), std::string::npos) \
      << #structure "::" #field;
  GC_CONNECTION_FIELDS(GC_EXPECT_ROW)
#undef GC_EXPECT_ROW
  using Block = proto::ReceiveBlock;
  const auto begins = [&](size_t offset, const std::string& bytes, const std::string& what) {
    EXPECT_NE(text.find("| " + std::to_string(offset) + " | " + bytes + " | " + what), std::string::npos) << what;
  };
  begins(Block::kTailOffset, std::to_string(sizeof(proto::StepCounter)), "`StepCounter` tail");
  begins(Block::kNotesOffset, std::to_string(sizeof(proto::StepNotes)), "`StepNotes`");
  begins(Block::kSlotsOffset, "8 × `simple`", "the slots of Simple");
  begins(proto::SendBlock::kHeadOffset, std::to_string(proto::SendBlock::kBytes), "`StepCounter` head");
  const auto at = [](size_t offset) { return "at offset " + std::to_string(offset) + " of it"; };
  EXPECT_NE(text.find("tail; " + at(Block::kDirectFromOffset - Block::kTailOffset) + ", 8 bytes"), std::string::npos);
  EXPECT_NE(text.find("head; " + at(proto::SendBlock::kGrantOffset) + ": `Grant`"), std::string::npos);
  EXPECT_NE(text.find("| `ll_offset` | 8 × `ll` |"), std::string::npos);
  EXPECT_NE(text.find("| `ll128_offset` | 8 × `ll128` |"), std::string::npos);
  EXPECT_NE(text.find("`kSteps` = " + std::to_string(proto::kSteps)), std::string::npos);
}

// What the document says a connection costs.
TEST(Formats, SlotsOfAConnectionFollowEachOther) {
  const proto::ConnectionShape shape = proto::connection_shape(4 << 20);
  EXPECT_EQ(shape.simple, 512u << 10);
  EXPECT_EQ(proto::ReceiveBlock::ll_offset(shape), 256 + (size_t{4} << 20));
  EXPECT_EQ(proto::ReceiveBlock::ll128_offset(shape) - proto::ReceiveBlock::ll_offset(shape), size_t{128} << 10);
  EXPECT_EQ(proto::ReceiveBlock::bytes(shape) - proto::ReceiveBlock::ll128_offset(shape), size_t{512} << 10);
}

// Of one slot, over several turns of the ring buffer across the wrap of 32 bits.
TEST(Formats, FlagsOfASlotDifferFromEachOtherAndFromFreshMemory) {
  for (uint64_t slot = 0; slot < proto::kSteps; ++slot) {
    std::set<uint32_t> flags = {0};
    const uint64_t first = (uint64_t{1} << 32) - 1600 + slot;
    for (uint64_t turn = 0; turn < 400; ++turn) {
      EXPECT_TRUE(flags.insert(proto::flag_of(first + turn * proto::kSteps)).second) << slot << " " << turn;
    }
  }
}

TEST(Formats, CopyDocumentHasTheFieldsOfTheHeader) {
  const std::string text = document("copy.md");
#define GC_EXPECT_ROW(structure, field, offset, bytes)                                                  \
  EXPECT_NE(text.find("| " #structure " | " #field " | " #offset " | " #bytes " |"), std::string::npos) \
      << #structure "::" #field;
  GC_COPY_FIELDS(GC_EXPECT_ROW)
#undef GC_EXPECT_ROW
  EXPECT_NE(text.find(std::to_string(sizeof(proto::CopyLane)) + " bytes of shared memory"), std::string::npos);
}

TEST(Formats, DirectDocumentHasTheFieldsOfTheHeader) {
  const std::string text = document("direct.md");
#define GC_EXPECT_ROW(structure, field, offset, bytes)                                                  \
  EXPECT_NE(text.find("| " #structure " | " #field " | " #offset " | " #bytes " |"), std::string::npos) \
      << #structure "::" #field;
  GC_DIRECT_FIELDS(GC_EXPECT_ROW)
#undef GC_EXPECT_ROW
}

TEST(Formats, ZeroCopyDocumentHasTheFieldsOfTheHeader) {
  const std::string text = document("zero_copy.md");
#define GC_EXPECT_ROW(structure, field, offset, bytes)                                                  \
  EXPECT_NE(text.find("| " #structure " | " #field " | " #offset " | " #bytes " |"), std::string::npos) \
      << #structure "::" #field;
  GC_ZERO_COPY_FIELDS(GC_EXPECT_ROW)
#undef GC_EXPECT_ROW
  expect_constant(text, "kMaxChannels", proto::kMaxChannels);
  expect_constant(text, "kZeroCopyRanks", proto::kZeroCopyRanks);
}

TEST(Formats, MeshDocumentHasTheConstantsOfTheHeader) {
  const std::string text = document("mesh.md");
  expect_constant(text, "kMeshChannels", proto::kMeshChannels);
  expect_constant(text, "kMeshLines", proto::kMeshLines);
  expect_constant(text, "kMeshLineBytes", proto::kMeshLineBytes);
  expect_constant(text, "kMeshLineData", proto::kMeshLineData);
  expect_constant(text, "kMeshChannelData", proto::kMeshChannelData);
  expect_constant(text, "kMeshMaxRanks", proto::kMeshMaxRanks);
  expect_constant(text, "kNetworkMeshLines", proto::kNetworkMeshLines);
  expect_constant(text, "kNetworkMeshData", proto::kNetworkMeshData);
  expect_constant(text, "kMeshPostBytes", proto::kMeshPostBytes);
}

TEST(Formats, LineMeshDocumentHasTheConstantsOfTheHeader) {
  const std::string text = document("line_mesh.md");
  expect_constant(text, "kMaxChannels", proto::kMaxChannels);
  expect_constant(text, "kLineAreas", proto::kLineAreas);
  expect_constant(text, "kLineAreaBytes", proto::kLineAreaBytes);
  expect_constant(text, "kMeshMaxRanks", proto::kMeshMaxRanks);
}

}  // namespace
}  // namespace gpucoll
