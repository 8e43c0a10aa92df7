#include "net/mesh_lines.h"

#include "base/mutant.h"

namespace gpucoll::net {
namespace {

using proto::Pack;
using proto::StepFrame;
using proto::StepKind;

// Half of a pack: two words of 4 bytes of data, and 4 bytes of flag.
struct Line {
  uint64_t word[2];
};
static_assert(sizeof(Line) == proto::kMeshLineBytes);

size_t offset_of(const MeshMemory& memory, uint32_t flag) {
  return proto::mesh_offset(memory.n_ranks, 0, flag, memory.source, proto::kNetworkMeshLines);
}

}  // namespace

// Takes a pack if it is there.
bool SendingLines::take(const uint8_t* lines, uint32_t flag, Pack* to) {
  const auto* const line = reinterpret_cast<const Line*>(lines) + taken_;
  for (size_t half = 0; half < 2; ++half) {
    for (size_t i = 0; i < 2; ++i) {
      const uint64_t word = __atomic_load_n(&line[half * proto::kNetworkMeshPacks].word[i], __ATOMIC_RELAXED);
      if (word >> 32 != flag && !gc_mutant(605)) return false;
      to->word[half * 2 + i] = static_cast<uint32_t>(word);
    }
  }
  return true;
}

Result<bool> SendingLines::next(StepFrame* frame, const uint8_t** data) {
  const uint32_t flag = proto::next_mesh_flag(sent_);
  const auto* const at =
      reinterpret_cast<const uint64_t*>(image_.memory + proto::mesh_post_offset(image_.n_ranks, flag));
  // Relaxed: each word that this leads to tells of itself.
  const uint64_t post = __atomic_load_n(at, __ATOMIC_RELAXED);
  if (static_cast<uint32_t>(post) != flag) return false;
  const auto packs = static_cast<uint32_t>(post >> 32);
  if (packs > proto::kNetworkMeshPacks)
    return Status::error(Code::internal, "operation %u of a mesh has %u packs", flag, packs);
  std::vector<Pack>& to = data_[flag & 1];
  const uint8_t* const lines = image_.memory + offset_of(image_, flag);
  for (; taken_ < packs; ++taken_)
    if (!take(lines, flag, &to[taken_])) return false;
  *frame = {};
  frame->magic = proto::kStepMagic;
  frame->kind = StepKind::kPacks;
  frame->step = flag;
  frame->record = packs;
  *data = reinterpret_cast<const uint8_t*>(to.data());
  sent_ = flag;
  taken_ = 0;
  return true;
}

Result<uint8_t*> ReceivingLines::place(const StepFrame& frame) {
  if ((frame.step != proto::next_mesh_flag(came_) && !gc_mutant(606)) || frame.record > proto::kNetworkMeshPacks)
    return Status::error(Code::remote, "it sends %u packs of operation %llu of a mesh that is at %u", frame.record,
                         static_cast<unsigned long long>(frame.step), came_);
  return reinterpret_cast<uint8_t*>(data_.data());
}

void ReceivingLines::arrived(const StepFrame& frame) {
  const auto flag = static_cast<uint32_t>(frame.step);
  auto* const lines = reinterpret_cast<Line*>(buffer_.memory + offset_of(buffer_, flag));
  const uint64_t news = uint64_t{flag} << 32;
  for (uint32_t p = 0; p < frame.record; ++p)
    for (size_t half = 0; half < 2; ++half)
      for (size_t i = 0; i < 2; ++i)
        __atomic_store_n(&lines[half * proto::kNetworkMeshPacks + p].word[i], news | data_[p].word[half * 2 + i],
                         __ATOMIC_RELAXED);
  came_ = flag;
}

}  // namespace gpucoll::net
