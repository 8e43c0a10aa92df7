// Memory of the emulated device across processes: export, open, close, release in any order.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <functional>

#include "gpu/device.h"

namespace gpucoll::gpu {
namespace {

Device& device() { return **emu_platform().open(0); }

// A child that owns memory of its own, and a pipe each way. (Its device is a copy-on-write copy of the parent's, in
// which the parent's own runtime memory stays shared; what it allocates itself is a new process's.)
class Peer {
 public:
  explicit Peer(const std::function<void(Peer&)>& body) {
    EXPECT_EQ(pipe(down_), 0);
    EXPECT_EQ(pipe(up_), 0);
    pid_ = fork();
    if (pid_ != 0) return;
    close(down_[1]);  // so that this end of the world is seen when the parent dies
    close(up_[0]);
    child_ = true;
    body(*this);
    _exit(0);
  }
  ~Peer() {
    for (int fd : {down_[0], down_[1], up_[0], up_[1]}) close(fd);
    if (!ended_) wait_for_end();
  }
  int wait_for_end() {
    int status = 0;
    EXPECT_EQ(waitpid(pid_, &status, 0), pid_);
    ended_ = true;
    return status;
  }
  template <class T>
  void tell(const T& value) {
    if (write(child_ ? up_[1] : down_[1], &value, sizeof value) != static_cast<ssize_t>(sizeof value)) _exit(3);
  }
  template <class T>
  T hear() {
    T value;
    if (read(child_ ? down_[0] : up_[0], &value, sizeof value) != static_cast<ssize_t>(sizeof value)) _exit(4);
    return value;
  }

 private:
  int down_[2], up_[2];
  pid_t pid_ = 0;
  bool child_ = false, ended_ = false;
};

struct Offer {
  MemoryHandle handle;
  Identity identity;
};

// Allocates, exports, then does as told: 'r' releases, 'q' ends, 'v' answers its first byte.
void serve(Peer& parent, bool user, size_t bytes) {
  void* memory = user ? *device().user_allocate(bytes) : *device().allocate(bytes);
  auto* kernel = static_cast<uint8_t*>(device().kernel_address(memory));
  std::memset(kernel, 0x11, bytes);
  parent.tell(Offer{*device().export_memory(kernel), device().identity()});
  for (;;) {
    const char command = parent.hear<char>();
    if (command == 'r' && !user) device().release(memory);
    if (command == 'r' && user && !device().user_release(memory)) _exit(5);
    if (command == 'q') return;
    parent.tell(command == 'v' ? kernel[0] : uint8_t{0});
  }
}

class EmuShareKinds : public testing::TestWithParam<bool> {};

TEST_P(EmuShareKinds, BothSidesSeeOneMemory) {
  constexpr size_t kBytes = 100000;
  Peer peer([](Peer& parent) { serve(parent, GetParam(), kBytes); });
  const Offer offer = peer.hear<Offer>();
  EXPECT_TRUE(device().can_reach(offer.identity));
  auto opened = device().open_memory(offer.handle);
  ASSERT_TRUE(opened) << opened.status().what();
  auto* memory = static_cast<uint8_t*>(*opened);
  EXPECT_EQ(memory[0], 0x11);
  EXPECT_EQ(memory[kBytes - 1], 0x11);
  memory[0] = 0x77;
  peer.tell('v');
  EXPECT_EQ(peer.hear<uint8_t>(), 0x77);
  EXPECT_EQ(device().copy(memory, memory, kBytes + 1).code(), Code::invalid_argument);
  device().close_memory(memory);
  peer.tell('q');
}

TEST_P(EmuShareKinds, OpeningTwiceGivesOneAddress) {
  Peer peer([](Peer& parent) { serve(parent, GetParam(), 5000); });
  const Offer offer = peer.hear<Offer>();
  auto first = device().open_memory(offer.handle);
  auto second = device().open_memory(offer.handle);
  ASSERT_TRUE(first && second);
  EXPECT_EQ(*first, *second);
  device().close_memory(*first);
  EXPECT_EQ(*static_cast<uint8_t*>(*second), 0x11);  // still open once
  device().close_memory(*second);
  peer.tell('q');
}

INSTANTIATE_TEST_SUITE_P(Memory, EmuShareKinds, testing::Values(false, true),
                         [](const auto& info) { return info.param ? "user" : "runtime"; });

TEST(EmuShare, OpenedMemoryOutlivesItsReleaseAndItsOwner) {
  Peer peer([](Peer& parent) { serve(parent, false, 5000); });
  const Offer offer = peer.hear<Offer>();
  auto opened = device().open_memory(offer.handle);
  ASSERT_TRUE(opened);
  auto* memory = static_cast<volatile uint8_t*>(*opened);
  peer.tell('r');
  peer.hear<uint8_t>();
  EXPECT_EQ(memory[4999], 0x11);
  memory[0] = 5;
  peer.tell('q');
  peer.wait_for_end();
  EXPECT_EQ(memory[0], 5);
  device().close_memory(*opened);
}

TEST(EmuShare, OpeningReleasedMemoryOrThatOfADeadProcessIsAnError) {
  Peer peer([](Peer& parent) { serve(parent, false, 5000); });
  const Offer offer = peer.hear<Offer>();
  peer.tell('r');
  peer.hear<uint8_t>();
  auto released = device().open_memory(offer.handle);
  ASSERT_FALSE(released);
  EXPECT_EQ(released.status().code(), Code::remote);
  EXPECT_NE(std::string(released.status().what()).find("released"), std::string::npos) << released.status().what();
  peer.tell('q');
  peer.wait_for_end();
  auto dead = device().open_memory(offer.handle);
  ASSERT_FALSE(dead);
  EXPECT_EQ(dead.status().code(), Code::remote);
  EXPECT_NE(std::string(dead.status().what()).find("ended"), std::string::npos) << dead.status().what();
}

TEST(EmuShare, AReusedDescriptorIsNotMistaken) {
  Peer peer([](Peer& parent) {
    void* memory = *device().allocate(4096);
    const MemoryHandle old = *device().export_memory(memory);
    device().release(memory);
    void* other = *device().allocate(4096);  // takes over the descriptor's number
    (void)other;
    parent.tell(old);
    parent.hear<char>();
  });
  const auto old = peer.hear<MemoryHandle>();
  auto opened = device().open_memory(old);
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.status().code(), Code::remote);
  peer.tell('q');
}

TEST(EmuShare, InTheSameProcessTheAddressIsTheSame) {
  void* memory = *device().allocate(5000);
  const MemoryHandle handle = *device().export_memory(memory);
  auto opened = device().open_memory(handle);
  ASSERT_TRUE(opened);
  EXPECT_EQ(*opened, memory);
  device().release(memory);
  static_cast<volatile uint8_t*>(*opened)[4999] = 1;  // still open
  device().close_memory(*opened);
  EXPECT_EQ(device().open_memory(handle).status().code(), Code::invalid_argument);
}

TEST(EmuShare, OneCloseTooManyDoesNotTakeMemoryFromItsOwner) {
  auto* memory = static_cast<uint8_t*>(*device().allocate(5000));
  auto opened = device().open_memory(*device().export_memory(memory));
  ASSERT_TRUE(opened);
  device().close_memory(*opened);
  device().close_memory(*opened);
  EXPECT_TRUE(device().export_memory(memory));
  EXPECT_TRUE(device().fill(memory, 1, 5000));
  EXPECT_EQ(memory[4999], 1);
  device().release(memory);
}

TEST(EmuShare, DevicesOfANodeDifferAndReachEachOther) {
  Device& second = **emu_platform().open(1);
  EXPECT_EQ(second.index(), 1);
  EXPECT_NE(std::memcmp(device().identity().uuid, second.identity().uuid, sizeof Identity::uuid), 0);
  EXPECT_TRUE(device().can_reach(second.identity()));
  EXPECT_TRUE(second.can_reach(device().identity()));
  void* memory = *second.allocate(5000);
  EXPECT_EQ(*device().open_memory(*second.export_memory(memory)), memory);
  device().close_memory(memory);
  second.release(memory);
}

TEST(EmuShare, WhatIsNotOursIsRefused) {
  int local = 0;
  EXPECT_EQ(device().export_memory(&local).status().code(), Code::invalid_argument);
  EXPECT_EQ(device().open_memory(MemoryHandle{}).status().code(), Code::invalid_argument);
  Identity other = device().identity();
  EXPECT_TRUE(device().can_reach(other));
  other.uuid[3] ^= 1;
  EXPECT_FALSE(device().can_reach(other));
}

}  // namespace
}  // namespace gpucoll::gpu
