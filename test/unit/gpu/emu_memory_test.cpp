// Memory of the emulated device: allocation, strictness, classification, copies.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "base/params.h"
#include "gpu/device.h"
#include "gpu/emu/ranges.h"

namespace gpucoll::gpu {
namespace {

Device& device() { return **emu_platform().open(0); }

uint8_t* must(Result<void*> result) {
  EXPECT_TRUE(result.ok()) << result.status().what();
  return result ? static_cast<uint8_t*>(*result) : nullptr;
}

// Runs `body` in a child; the signal that ended it, or 0.
template <class Body>
int signal_of(Body body) {
  const pid_t child = fork();
  if (child == 0) {
    // Sanitizers' own handlers would turn the signal into an exit code.
    for (int fault : {SIGSEGV, SIGBUS}) std::signal(fault, SIG_DFL);
    body();
    _exit(0);
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

TEST(Ranges, GivesFirstFitAndJoinsNeighbours) {
  emu::Ranges ranges(10);
  EXPECT_EQ(ranges.take(4), 0u);
  EXPECT_EQ(ranges.take(4), 4u);
  EXPECT_FALSE(ranges.take(3));
  ranges.give(0, 4);
  EXPECT_EQ(ranges.largest(), 4u);
  ranges.give(4, 4);
  EXPECT_EQ(ranges.largest(), 10u);
  EXPECT_EQ(ranges.take(10), 0u);
  EXPECT_FALSE(ranges.take(1));
}

TEST(Ranges, NeverOverlapAndLoseNothing) {
  constexpr uint64_t kSize = 300;
  emu::Ranges ranges(kSize);
  std::vector<std::pair<uint64_t, uint64_t>> taken;
  std::vector<int> owner(kSize, 0);
  std::mt19937 random(7);
  for (int turn = 0; turn < 20000; ++turn) {
    const uint64_t size = random() % 20 + 1;
    if (random() % 2 == 0) {
      const auto start = ranges.take(size);
      if (!start) continue;
      for (uint64_t i = *start; i < *start + size; ++i) ASSERT_EQ(owner[i]++, 0);
      taken.emplace_back(*start, size);
    } else if (!taken.empty()) {
      std::swap(taken[random() % taken.size()], taken.back());
      const auto [start, room] = taken.back();
      taken.pop_back();
      for (uint64_t i = start; i < start + room; ++i) --owner[i];
      ranges.give(start, room);
    }
  }
  for (const auto& [start, size] : taken) ranges.give(start, size);
  EXPECT_EQ(ranges.largest(), kSize);
}

TEST(EmuMemory, HostAccessToUserMemoryFaultsAndKernelAccessWorks) {
  uint8_t* user = must(device().user_allocate(5000));
  volatile uint8_t* kernel = static_cast<uint8_t*>(device().kernel_address(user));
  EXPECT_EQ(signal_of([user] { *static_cast<volatile uint8_t*>(user) = 1; }), SIGSEGV);
  EXPECT_EQ(signal_of([user] { _exit(*static_cast<volatile uint8_t*>(user + 4999)); }), SIGSEGV);
  EXPECT_EQ(signal_of([kernel] { kernel[4999] = 1; }), 0);
  ASSERT_TRUE(device().user_release(user));
}

TEST(EmuMemory, RunningOverTheEndFaultsForKernelsToo) {
  const size_t bytes = 1 << 16;
  uint8_t* first = must(device().user_allocate(bytes));
  uint8_t* second = must(device().user_allocate(bytes));
  volatile uint8_t* kernel = static_cast<uint8_t*>(device().kernel_address(first));
  EXPECT_EQ(signal_of([&] { kernel[bytes - 1] = 1; }), 0);
  EXPECT_EQ(signal_of([&] { kernel[bytes] = 1; }), SIGSEGV);
  ASSERT_TRUE(device().user_release(first));
  EXPECT_EQ(signal_of([&] { kernel[0] = 1; }), SIGSEGV);
  ASSERT_TRUE(device().user_release(second));
}

TEST(EmuMemory, NotStrictMemoryIsOpenToTheHost) {
  const pid_t child = fork();
  if (child == 0) {
    // The first use of the device in this program's life reads the parameter; earlier tests would have fixed it.
    execl(program_invocation_name, program_invocation_name, "--gtest_also_run_disabled_tests",
          "--gtest_filter=*DISABLED_NotStrict", nullptr);
    _exit(127);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

// Run by the test above in a process of its own.
TEST(EmuMemory, DISABLED_NotStrict) {
  ASSERT_TRUE(set_param("emu_strict", "0", "test"));
  uint8_t* user = must(device().user_allocate(100));
  user[99] = 42;
  EXPECT_EQ(static_cast<uint8_t*>(device().kernel_address(user))[99], 42);
  ASSERT_TRUE(device().user_release(user));
}

TEST(EmuMemory, MisuseIsAnsweredWithASentence) {
  uint8_t* user = must(device().user_allocate(100));
  EXPECT_EQ(device().user_release(user + 1).code(), Code::invalid_argument);
  EXPECT_TRUE(device().user_release(user));
  EXPECT_EQ(device().user_release(user).code(), Code::invalid_argument);
  int local = 0;
  EXPECT_EQ(device().user_release(&local).code(), Code::invalid_argument);
  EXPECT_TRUE(device().user_release(nullptr));
  auto none = device().user_allocate(0);
  ASSERT_TRUE(none);
  EXPECT_EQ(*none, nullptr);
  auto huge = device().user_allocate(size_t{1} << 60);
  ASSERT_FALSE(huge);
  EXPECT_EQ(huge.status().code(), Code::out_of_memory);
  EXPECT_NE(std::string(huge.status().what()).find("bytes"), std::string::npos);
}

TEST(EmuMemory, ClassifiesEveryByteOfAnAllocation) {
  Platform& emu = emu_platform();
  uint8_t* user = must(device().user_allocate(10000));
  for (size_t offset : {0, 1, 4096, 9999}) {
    const PointerInfo info = emu.classify(user + offset);
    EXPECT_EQ(info.kind, MemoryKind::device);
    EXPECT_EQ(info.device, 0);
    EXPECT_EQ(info.base, user);
    EXPECT_EQ(info.bytes, 10000u);
    EXPECT_TRUE(info.exportable);
    EXPECT_TRUE(emu.is_device(user + offset));
  }
  const uint64_t id = emu.classify(user).buffer_id;
  ASSERT_TRUE(device().user_release(user));
  EXPECT_EQ(emu.classify(user).bytes, 0u);
  uint8_t* again = must(device().user_allocate(10000));
  EXPECT_EQ(again, user);                        // the range is used again,
  EXPECT_NE(emu.classify(again).buffer_id, id);  // and told apart
  ASSERT_TRUE(device().user_release(again));
  std::vector<uint8_t> host(10);
  EXPECT_EQ(emu.classify(host.data()).kind, MemoryKind::host);
  EXPECT_FALSE(emu.is_device(host.data()));
  EXPECT_FALSE(emu.is_device(nullptr));
}

TEST(EmuMemory, BelongsToTheDeviceThatAllocatedIt) {
  Platform& emu = emu_platform();
  Device& third = **emu.open(3);
  uint8_t* one = must(device().user_allocate(100));
  uint8_t* other = must(third.user_allocate(5000));
  EXPECT_EQ(emu.classify(one).device, 0);
  EXPECT_EQ(emu.classify(other + 4999).device, 3);
  EXPECT_TRUE(device().copy(one, other, 100));  // all reach all
  ASSERT_TRUE(device().user_release(other));
  ASSERT_TRUE(third.user_release(one));
}

TEST(EmuMemory, TheHintNamesTheUserArea) {
  uint8_t* user = must(device().user_allocate(100));
  const PointerHint& hint = pointer_hint();
  const auto p = reinterpret_cast<uintptr_t>(user);
  EXPECT_GE(p, hint.device_lo);
  EXPECT_LT(p + 100, hint.device_hi);
  EXPECT_FALSE(reinterpret_cast<uintptr_t>(&p) - hint.device_lo < hint.device_hi - hint.device_lo);
  ASSERT_TRUE(device().user_release(user));
}

TEST(EmuMemory, CopiesBetweenAllKindsOfAddresses) {
  constexpr size_t kBytes = 100003;
  std::vector<uint8_t> in(kBytes), out(kBytes);
  for (size_t i = 0; i < kBytes; ++i) in[i] = static_cast<uint8_t>(i * 31 + i / 256);
  uint8_t* a = must(device().user_allocate(kBytes));
  uint8_t* b = must(device().user_allocate(kBytes));
  uint8_t* runtime = must(device().allocate(kBytes));
  auto block = device().allocate_host(kBytes);
  ASSERT_TRUE(block);
  uint8_t* chain[] = {
      in.data(), a, b, runtime, static_cast<uint8_t*>(block->host), static_cast<uint8_t*>(device().kernel_address(a)),
      out.data()};
  for (size_t i = 1; i < std::size(chain); ++i) {
    ASSERT_TRUE(device().fill(chain[i], 0xee, kBytes));
    ASSERT_TRUE(device().copy(chain[i], chain[i - 1], kBytes)) << i;
  }
  EXPECT_EQ(in, out);
  ASSERT_TRUE(device().fill(a + 10, 0x5a, 20));
  ASSERT_TRUE(device().copy(out.data(), a, kBytes));
  for (size_t i = 0; i < kBytes; ++i) ASSERT_EQ(out[i], i >= 10 && i < 30 ? 0x5a : in[i]) << i;
  device().release_host(*block);
  device().release(runtime);
  ASSERT_TRUE(device().user_release(a));
  ASSERT_TRUE(device().user_release(b));
}

TEST(EmuMemory, CopiesDoNotLeaveTheirAllocation) {
  std::vector<uint8_t> host(200);
  uint8_t* user = must(device().user_allocate(100));
  uint8_t* runtime = must(device().allocate(100));
  for (uint8_t* memory : {user, runtime}) {
    EXPECT_TRUE(device().copy(memory, host.data(), 100));
    EXPECT_TRUE(device().copy(memory + 100, host.data(), 0));
    EXPECT_EQ(device().copy(memory, host.data(), 101).code(), Code::invalid_argument);
    EXPECT_EQ(device().copy(memory + 50, host.data(), 51).code(), Code::invalid_argument);
    EXPECT_EQ(device().copy(host.data(), memory + 1, 100).code(), Code::invalid_argument);
    EXPECT_EQ(device().copy(host.data(), memory + 101, 1).code(), Code::invalid_argument);
    EXPECT_EQ(device().fill(memory, 0, size_t{1} << 40).code(), Code::invalid_argument);
  }
  EXPECT_EQ(device().copy(nullptr, host.data(), 1).code(), Code::invalid_argument);
  ASSERT_TRUE(device().user_release(user));
  EXPECT_EQ(device().copy(host.data(), user, 1).code(), Code::invalid_argument);
  device().release(runtime);
}

TEST(EmuMemory, MoreThanTwoGigabytesWork) {
  const size_t bytes = (size_t{1} << 31) + 4097;
  auto memory = device().user_allocate(bytes);
  if (!memory && memory.status().code() == Code::out_of_memory) GTEST_SKIP() << memory.status().what();
  uint8_t* user = must(std::move(memory));
  const uint32_t mark = 0xfeedbeef;
  uint32_t seen = 0;
  ASSERT_TRUE(device().copy(user + bytes - 4, &mark, 4));
  ASSERT_TRUE(device().copy(&seen, user + bytes - 4, 4));
  EXPECT_EQ(seen, mark);
  EXPECT_EQ(emu_platform().classify(user + bytes - 1).bytes, bytes);
  ASSERT_TRUE(device().user_release(user));
}

TEST(EmuMemory, RuntimeMemoryIsZeroedAndAligned) {
  for (int turn = 0; turn < 3; ++turn) {
    uint8_t* memory = must(device().allocate(9000));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory) % 128, 0u);
    for (int i = 0; i < 9000; ++i) ASSERT_EQ(memory[i], 0);
    std::memset(memory, 0xff, 9000);
    device().release(memory);
  }
}

TEST(EmuMemory, RegisteredHostMemoryKeepsItsAddress) {
  void* mine = mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(mine, MAP_FAILED);
  auto block = device().register_host(mine, 8192);
  ASSERT_TRUE(block);
  EXPECT_EQ(block->kernel, mine);
  EXPECT_EQ(block->bytes, 8192u);
  device().unregister_host(*block);
  munmap(mine, 8192);
}

// Each thread owns what it allocated: a mark at both ends must survive what the others do.
void churn(unsigned seed) {
  struct Piece {
    uint8_t* memory;
    size_t bytes;
    uint8_t mark;
    bool user;
  };
  std::mt19937 random(seed);
  std::vector<Piece> pieces;
  for (int turn = 0; turn < 400 || !pieces.empty(); ++turn) {
    if (turn < 400 && pieces.size() < 20 && random() % 3 != 0) {
      Piece piece{nullptr, random() % 50000 + 1, static_cast<uint8_t>(random()), random() % 2 == 0};
      piece.memory = must(piece.user ? device().user_allocate(piece.bytes) : device().allocate(piece.bytes));
      ASSERT_TRUE(device().fill(piece.memory, piece.mark, piece.bytes));
      pieces.push_back(piece);
    } else if (!pieces.empty()) {
      const size_t i = random() % pieces.size();
      const Piece piece = pieces[i];
      pieces.erase(pieces.begin() + static_cast<std::ptrdiff_t>(i));
      const auto* kernel = static_cast<uint8_t*>(device().kernel_address(piece.memory));
      ASSERT_EQ(kernel[0], piece.mark);
      ASSERT_EQ(kernel[piece.bytes - 1], piece.mark);
      if (piece.user) {
        ASSERT_TRUE(device().user_release(piece.memory));
      } else {
        device().release(piece.memory);
      }
    }
  }
}

TEST(EmuMemory, ManyThreadsAllocateAndRelease) {
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t) threads.emplace_back(churn, t);
  for (auto& thread : threads) thread.join();
}

}  // namespace
}  // namespace gpucoll::gpu
