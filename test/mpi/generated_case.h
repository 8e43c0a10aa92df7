// What all cases of the generated test share: buffers with known bytes in blocks and between them, and a call in one of
// its three forms.
//
// Thread safety: none. Ownership: a Side owns its memory; a Case owns its request and frees a persistent one.
// Invariants: everything that other ranks must know of a case follows from its seed.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "generated_groups.h"
#include "generated_layouts.h"

namespace generated {

// What is wrong in this round, in words.
inline std::vector<std::string> g_notes;
inline void note(const std::string& text) { g_notes.push_back(text); }

inline std::string g_memory;  // "host" or "device" everywhere; empty: as drawn

// `n` bytes that follow from the seed.
inline Bytes stream(uint64_t seed, size_t n) {
  Bytes bytes(n + 8);
  for (size_t i = 0; i < n; i += 8) {
    const uint64_t word = mix(seed, i);
    std::memcpy(&bytes[i], &word, 8);
  }
  bytes.resize(n);
  return bytes;
}

// `count` elements of a type, `at` bytes from the pointer that MPI gets.
struct Block {
  int count;
  ptrdiff_t at;
  const Type* type;

  size_t bytes() const { return static_cast<size_t>(count) * static_cast<size_t>(type->shape.size()); }
  ptrdiff_t first() const { return at + type->shape.first(); }
  ptrdiff_t end() const { return at + (count - 1) * type->shape.extent() + type->shape.end(); }
};

// A buffer: its blocks, guard bytes around and between them, and what it must hold.
class Side {
 public:
  Side(Where where, std::vector<Block> blocks, uint64_t seed, int lead)
      : blocks_(std::move(blocks)),
        lo_(lowest()),
        hi_(highest()),
        memory_(where, size(lead)),
        where_(where),
        start_(kGuard - lo_ + lead),
        seed_(seed) {}

  void* pointer() const { return memory_.at(start_); }
  Where where() const { return where_; }

  // Forgets what the memory must hold. Then put what goes in, which may be less than the block, and write it.
  void clear() { image_ = stream(seed_, memory_.bytes()); }
  void put(size_t block, const Bytes& from) {
    size_t done = 0;
    pieces(blocks_[block], [&](ptrdiff_t at, int bytes) {
      const size_t length = std::min(static_cast<size_t>(bytes), from.size() - done);
      if (length > 0) std::memcpy(&image_[static_cast<size_t>(at)], &from[done], length);
      done += length;
    });
  }
  void write() { memory_.write(image_.data()); }

  // Takes the block's data for right as they are; what lies between them must be as before.
  void accept(size_t block) {
    Bytes got(image_.size());
    memory_.read(got.data());
    pieces(blocks_[block], [&](ptrdiff_t at, int bytes) {
      std::memcpy(&image_[static_cast<size_t>(at)], &got[static_cast<size_t>(at)], static_cast<size_t>(bytes));
    });
  }

  // MPI leaves open what this block holds afterwards, gaps and all.
  void leave_open(size_t block) { open_.push_back(block); }

  // Where the memory is not as it must be, or -1.
  ptrdiff_t difference() const {
    Bytes got(image_.size());
    memory_.read(got.data());
    auto overlook = [&](ptrdiff_t at, int bytes) {
      std::memcpy(&got[static_cast<size_t>(at)], &image_[static_cast<size_t>(at)], static_cast<size_t>(bytes));
    };
    for (size_t block : open_) {
      const Block& b = blocks_[block];
      if (b.count > 0) overlook(start_ + b.at, static_cast<int>(b.count * b.type->shape.extent()));
    }
    for (const Block& block : blocks_) pieces(block, block.type->shape.open, overlook);
    if (got == image_) return -1;
    return std::mismatch(got.begin(), got.end(), image_.begin()).first - got.begin();
  }

  // In words: which block a byte belongs to.
  std::string place(ptrdiff_t byte) const {
    std::string text = "a byte between blocks";
    for (size_t b = 0; b < blocks_.size(); b++) {
      int element = 0;
      size_t done = 0;
      pieces(blocks_[b], [&](ptrdiff_t at, int bytes) {
        if (byte >= at && byte < at + bytes) element = static_cast<int>(done) / blocks_[b].type->shape.size() + 1;
        done += static_cast<size_t>(bytes);
      });
      if (element > 0)
        text = "element " + std::to_string(element - 1) + " of " + std::to_string(blocks_[b].count) + " in block " +
               std::to_string(b);
    }
    return text + ", byte " + std::to_string(byte - start_);
  }

 private:
  static constexpr ptrdiff_t kGuard = 64;

  template <class F>
  void pieces(const Block& b, const std::vector<Piece>& of_one, F&& f) const {
    if (of_one.empty()) return;
    for (int i = 0; i < b.count; i++)
      for (Piece p : of_one) f(start_ + b.at + i * b.type->shape.extent() + p.at, p.bytes);
  }
  template <class F>
  void pieces(const Block& b, F&& f) const {
    pieces(b, b.type->shape.pieces, f);
  }
  ptrdiff_t lowest() const {
    ptrdiff_t lo = 0;
    for (const Block& b : blocks_)
      if (b.bytes() > 0) lo = std::min(lo, b.first());
    return lo & ~ptrdiff_t{15};  // the pointer stays aligned
  }
  ptrdiff_t highest() const {
    ptrdiff_t hi = 0;
    for (const Block& b : blocks_)
      if (b.bytes() > 0) hi = std::max(hi, b.end());
    return hi;
  }
  size_t size(int lead) const { return static_cast<size_t>(hi_ - lo_ + lead + 2 * kGuard); }

  std::vector<Block> blocks_;
  ptrdiff_t lo_, hi_;
  Memory memory_;
  Where where_;
  ptrdiff_t start_;
  uint64_t seed_;
  Bytes image_;
  std::vector<size_t> open_;
};

// One side of an argument list; MPI may read it until the call is complete.
struct Arguments {
  void* buffer = nullptr;
  int count = 0;
  MPI_Datatype type = MPI_DATATYPE_NULL;
  std::vector<int> counts, places, byte_places;
  std::vector<MPI_Aint> far_places;
  std::vector<MPI_Datatype> types;

  Arguments() = default;
  Arguments(const Side* side, const std::vector<Block>& blocks, int usual_count, MPI_Datatype usual_type)
      : count(usual_count), type(usual_type) {
    if (!side) return;
    buffer = side->pointer();
    for (std::vector<int>* list : {&counts, &places, &byte_places}) list->reserve(1);  // never null
    far_places.reserve(1);
    for (const Block& b : blocks) {
      const ptrdiff_t extent = b.type->shape.extent();
      count = b.count;
      type = b.type->handle;
      counts.push_back(b.count);
      places.push_back(extent == 0 ? 0 : static_cast<int>(b.at / extent));
      byte_places.push_back(static_cast<int>(b.at));
      far_places.push_back(b.at);
      types.push_back(type);
    }
  }
};

// MPI_X(arguments, comm) in the form of the case; x is the name in lower case.
#define GC_BEGIN(X, x, ...)                                                    \
  (form_ == Form::blocking      ? MPI_##X(__VA_ARGS__, group_.comm)            \
   : form_ == Form::nonblocking ? MPI_I##x(__VA_ARGS__, group_.comm, &request) \
                                : GC_INIT(X)(__VA_ARGS__, group_.comm, MPI_INFO_NULL, &request))

class Case {
 public:
  Case(uint64_t seed, const Group& group, Form form) : seed_(seed), group_(group), form_(form) {}
  Case(const Case&) = delete;
  virtual ~Case() {
    if (form_ == Form::persistent && request != MPI_REQUEST_NULL) MPI_Request_free(&request);
  }

  Form form() const { return form_; }
  std::string name() const { return name_of(form_) + words() + " on " + group_.name; }

  // Fills the buffers and calls MPI. A persistent call is only made; MPI_Start is for the caller.
  void begin() {
    fill();
    const int rc = call();
    if (!checked(rc == MPI_SUCCESS)) note(name() + ": error " + std::to_string(rc));
    drop_types();
  }
  // Other data for the next start.
  void refill() {
    run_++;
    fill();
  }
  virtual void check() = 0;

  MPI_Request request = MPI_REQUEST_NULL;

 protected:
  uint64_t draw(uint64_t what, int a = 0, int b = 0) const {
    return mix(mix(seed_, what), static_cast<uint64_t>(a), static_cast<uint64_t>(b));
  }
  // Of one side of this rank.
  Where where(bool receive, int root) const {
    const uint64_t random = draw(90, group_.side * 64 + group_.rank, receive);
    switch (g_memory.empty() ? draw(91) % 8 : 8) {
      case 0: return Where::host;
      case 1: return group_.rank == root ? Where::host : Where::device;
      case 2: return receive ? Where::device : Where::host;
      case 3: return random % 2 == 0 ? Where::host : Where::device;
      case 8: return g_memory == "host" ? Where::host : Where::device;
      default: return Where::device;
    }
  }
  virtual std::string words() const = 0;
  virtual void fill() = 0;
  virtual int call() = 0;
  virtual void drop_types() {}

  void compare(const char* buffer, const Side& side) const {
    const ptrdiff_t at = side.difference();
    if (!checked(at < 0))
      note(name() + ": " + buffer + " buffer in " + name_of(side.where()) + " memory: " + side.place(at));
  }

  uint64_t seed_;
  const Group& group_;
  Form form_;
  int run_ = 0;
};

}  // namespace generated
