// Exports and imports: allocations are exported and opened once, freed ones are noticed, and nothing piles up.
#include "core/memory/registration.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <functional>
#include <set>

#include "../../resources.h"
#include "../forwarding_device.h"

using namespace gpucoll;
using namespace gpucoll::core;
using namespace gpucoll_test;

namespace {

gpu::Device& device() { return **gpu::emu_platform().open(0); }

// User memory by its kernel address.
class Buffer {
 public:
  explicit Buffer(size_t bytes) : user_(*device().user_allocate(bytes)) {}
  ~Buffer() { EXPECT_TRUE(device().user_release(user_).ok()); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  uint8_t* at(size_t offset = 0) const { return static_cast<uint8_t*>(device().kernel_address(user_)) + offset; }

 private:
  void* user_;
};

struct Owner {
  uint32_t live[proto::kExportSlots] = {};
  Exports exports{device(), live};
};

// Neither descriptors, memory nor mappings grow with the rounds.
void expect_flat(int rounds, const std::function<void(int)>& round) {
  for (int i = 0; i < rounds / 10; ++i) round(i);
  const int descriptors = open_descriptors(), maps = mappings();
  const long resident = resident_kib();
  for (int i = rounds / 10; i < rounds; ++i) round(i);
  EXPECT_LE(open_descriptors(), descriptors);
  EXPECT_LE(mappings(), maps + 50);
  EXPECT_LE(resident_kib(), resident + kMostMoreKib);
}

}  // namespace

TEST(Registration, ExportsAnAllocationOnce) {
  Owner owner;
  Buffer a(100000), b(5000);
  const auto first = owner.exports.find(a.at()), inside = owner.exports.find(a.at(70001)),
             other = owner.exports.find(b.at(3));
  ASSERT_TRUE(first && inside && other);
  EXPECT_EQ(first->serial, inside->serial);
  EXPECT_EQ(first->slot, inside->slot);
  EXPECT_EQ(first->offset, 0u);
  EXPECT_EQ(inside->offset, 70001u);
  EXPECT_EQ(other->offset, 3u);
  EXPECT_NE(other->slot, first->slot);
  EXPECT_NE(other->serial, first->serial);
  EXPECT_EQ(owner.live[first->slot], first->serial);
  EXPECT_EQ(owner.exports.size(), 2u);
}

TEST(Registration, RefusesWhatNobodyElseCanOpen) {
  Owner owner;
  int on_stack = 0;
  EXPECT_FALSE(owner.exports.find(&on_stack));
  EXPECT_FALSE(owner.exports.find(nullptr));
  uint8_t* freed;
  {
    Buffer buffer(4096);
    freed = buffer.at();
  }
  EXPECT_FALSE(owner.exports.find(freed));
  EXPECT_EQ(owner.exports.size(), 0u);
}

TEST(Registration, NoticesMemoryThatWasFreedOrAllocatedAnew) {
  Owner owner;
  uint8_t *before, *after;
  ExportedPlace old, now;
  {
    Buffer buffer(8192);
    before = buffer.at();
    old = *owner.exports.find(before);
  }
  Buffer again(8192);
  after = again.at();
  ASSERT_EQ(before, after) << "the test needs the same address again";
  now = *owner.exports.find(after);
  EXPECT_NE(now.serial, old.serial);
  owner.exports.tidy();
  EXPECT_EQ(owner.exports.size(), 1u);
  EXPECT_TRUE(now.slot == old.slot || owner.live[old.slot] == 0);
  EXPECT_EQ(owner.live[now.slot], now.serial);
}

TEST(Registration, MakesRoomAtTheOldestThatIsNotPinned) {
  Owner owner;
  constexpr size_t most = proto::kBounceSlot;
  std::vector<std::unique_ptr<Buffer>> buffers;
  std::vector<ExportedPlace> places;
  for (size_t i = 0; i < most; ++i) {
    buffers.push_back(std::make_unique<Buffer>(100));
    places.push_back(i == 0 ? *owner.exports.pin(buffers[i]->at()) : *owner.exports.find(buffers[i]->at()));
  }
  EXPECT_EQ(owner.exports.size(), most);
  owner.exports.find(buffers[1]->at());  // used again: 2 is the oldest now
  Buffer more(100);
  const auto place = owner.exports.find(more.at());
  ASSERT_TRUE(place);
  EXPECT_EQ(place->slot, places[2].slot);
  EXPECT_EQ(owner.exports.size(), most);
  EXPECT_EQ(owner.exports.find(buffers[0]->at())->serial, places[0].serial);
  EXPECT_EQ(owner.exports.find(buffers[1]->at())->serial, places[1].serial);
  EXPECT_NE(owner.exports.find(buffers[2]->at())->serial, places[2].serial);

  owner.exports.unpin(places[0]);
  for (size_t i = 1; i < most; ++i) owner.exports.find(buffers[i]->at());
  EXPECT_EQ(owner.exports.find(more.at())->slot, places[0].slot) << "once unpinned it goes like all others";
}

TEST(Registration, FindsNoSlotWhereAllArePinned) {
  Owner owner;
  std::vector<std::unique_ptr<Buffer>> buffers;
  for (size_t i = 0; i < proto::kBounceSlot; ++i) {
    buffers.push_back(std::make_unique<Buffer>(100));
    ASSERT_TRUE(owner.exports.pin(buffers.back()->at()));
  }
  {
    Buffer more(100);
    EXPECT_FALSE(owner.exports.pin(more.at()));
  }
  buffers.pop_back();  // freed: pins or not
  Buffer more(200);
  EXPECT_TRUE(owner.exports.pin(more.at()));
}

// On GPUs small allocations lie beside each other.
TEST(Registration, ExportsWhatSharesItsBlockForKernelsOnly) {
  class Sharing final : public ForwardingDevice {
   public:
    using ForwardingDevice::ForwardingDevice;
    gpu::PointerInfo classify_kernel(const void* address) const override {
      gpu::PointerInfo info = ForwardingDevice::classify_kernel(address);
      info.shares_block = info.bytes < 1000;
      return info;
    }
  } sharing(device());
  uint32_t live[proto::kExportSlots] = {};
  Exports exports(sharing, live);
  Buffer small(100), large(2000);
  for (const auto of : {&Exports::find, &Exports::pin}) {
    EXPECT_TRUE((exports.*of)(small.at(), Exports::Use::by_kernels));
    EXPECT_FALSE((exports.*of)(small.at(), Exports::Use::by_copies));
    EXPECT_TRUE((exports.*of)(large.at(500), Exports::Use::by_copies));
  }
}

TEST(Registration, OpensAnAllocationOnceAndClosesWhatIsGone) {
  Owner owner;
  Imports imports(device());
  const auto live = [&](int) { return owner.live; };
  {
    Buffer buffer(10000);
    EXPECT_EQ(*imports.open(3, *owner.exports.find(buffer.at(17))), buffer.at(17));
    EXPECT_EQ(*imports.open(3, *owner.exports.find(buffer.at(19))), buffer.at(19));
    EXPECT_EQ(imports.size(), 1u);
    imports.drop_freed(live);
    EXPECT_EQ(imports.size(), 1u);
  }
  owner.exports.tidy();
  imports.drop_freed(live);
  EXPECT_EQ(imports.size(), 0u);
  const auto dropped = imports.take_dropped();
  ASSERT_EQ(dropped.size(), 1u);
  device().close_memory(dropped[0]);
}

// What was freed may be in the way of what is opened, but closing waits for the device: that is left to the owner.
TEST(Registration, OpeningClosesNothing) {
  struct Closing final : gpucoll_test::ForwardingDevice {
    using ForwardingDevice::ForwardingDevice;
    void close_memory(void* address) noexcept override {
      ++closed;
      ForwardingDevice::close_memory(address);
    }
    int closed = 0;
  } counting(device());
  Owner owner;
  Imports imports(counting);
  for (int i = 0; i < 3; ++i) {
    Buffer buffer(70000);
    ASSERT_TRUE(imports.open(1, *owner.exports.find(buffer.at())).ok());
    imports.drop_freed([&](int) { return owner.live; });
  }
  Buffer last(70000);
  ASSERT_TRUE(imports.open(1, *owner.exports.find(last.at())).ok());
  owner.exports.tidy();
  imports.drop_freed([&](int) { return owner.live; });
  EXPECT_EQ(counting.closed, 0);
  const auto dropped = imports.take_dropped();
  EXPECT_EQ(dropped.size(), 3u);
  for (void* base : dropped) counting.close_memory(base);
}

TEST(Registration, KeepsNothingOfManyRounds) {
  Owner owner;
  Imports imports(device());
  expect_flat(10000, [&](int i) {
    Buffer buffer(static_cast<size_t>(1 + i % 7 * 20000));
    const auto place = owner.exports.find(buffer.at());
    ASSERT_TRUE(place);
    const auto opened = imports.open(1, *place);
    ASSERT_TRUE(opened.ok()) << opened.status().what();
    **opened = static_cast<uint8_t>(i);
    ASSERT_EQ(*buffer.at(), static_cast<uint8_t>(i));
    ASSERT_LE(owner.exports.size(), proto::kExportSlots);
    ASSERT_LE(imports.size(), proto::kExportSlots);
    if (i % 3 == 0) owner.exports.tidy();
    if (i % 4 == 0) imports.drop_freed([&](int) { return owner.live; });
    imports.close_dropped();
  });
}

// As between two ranks: one process allocates, tells the place and frees; the other opens and writes.
TEST(Registration, KeepsNothingOfManyRoundsWithAnotherProcess) {
  constexpr int rounds = 10000;
  struct Table {
    uint32_t live[proto::kExportSlots];
    ExportedPlace place;
    uint64_t told, written, failed;
  };
  auto* table =
      static_cast<Table*>(mmap(nullptr, sizeof(Table), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(static_cast<void*>(table), MAP_FAILED);
  const auto await = [](const uint64_t* word, uint64_t value) {
    while (__atomic_load_n(word, __ATOMIC_ACQUIRE) < value) sched_yield();
  };
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    Imports imports(device());
    expect_flat(rounds, [&](int i) {
      const auto number = static_cast<uint64_t>(i) + 1;
      await(&table->told, number);
      const auto opened = imports.open(0, table->place);
      if (opened) **opened = static_cast<uint8_t>(i * 3);
      if (!opened) table->failed = number;
      imports.drop_freed([&](int) { return table->live; });
      imports.close_dropped();
      __atomic_store_n(&table->written, number, __ATOMIC_RELEASE);
    });
    _exit(testing::Test::HasFailure());
  }
  {
    Exports exports(device(), table->live);
    expect_flat(rounds, [&](int i) {
      Buffer buffer(static_cast<size_t>(1 + i % 5 * 30000));
      table->place = *exports.find(buffer.at(static_cast<size_t>(i % 5)));
      __atomic_store_n(&table->told, static_cast<uint64_t>(i) + 1, __ATOMIC_RELEASE);
      await(&table->written, static_cast<uint64_t>(i) + 1);
      ASSERT_TRUE(table->failed != 0 || *buffer.at(static_cast<size_t>(i % 5)) == static_cast<uint8_t>(i * 3));
    });
  }
  EXPECT_EQ(table->failed, 0u);
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  munmap(table, sizeof(Table));
}
