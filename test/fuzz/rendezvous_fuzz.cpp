// Plays ranks and strangers where the ranks of a unique id meet: hellos at its door, and words once they are in,
// in any order, cut anywhere, with connections that end. Each input is a script: a byte that says who, a byte of what,
// and as many bytes as that takes.
#include <sys/socket.h>

#include <array>

#include "input.h"
#include "net/bootstrap/door.h"
#include "net/bootstrap/gathering.h"

using namespace gpucoll;
using namespace gpucoll::net;

namespace {

constexpr size_t kCallers = 6;
constexpr std::chrono::seconds kAfterFailure{60};
constexpr uint64_t kNonce = 0x6e6f6e6365;

enum Act : uint8_t { kDial, kSay, kWord, kHangUp, kActs };

// A hello that is often right: only then anything follows.
proto::BootstrapHello hello_of(gpucoll_test::Input& input) {
  const auto rank = input.take<int8_t>(), size = input.take<int8_t>();
  return {proto::kBootstrapMagic, kNonce, rank, size, -1, input.take<uint8_t>(), input.take<uint8_t>() % 2u, 4711, 0};
}

proto::BootstrapWord word_of(gpucoll_test::Input& input) {
  proto::BootstrapWord word = {};
  word.kind = static_cast<proto::WordKind>(input.take<uint8_t>());
  word.code = input.take<uint8_t>();
  std::memset(word.text, 'x', input.take<uint8_t>() % 2 ? sizeof word.text : 5);  // perhaps without an end
  return word;
}

class Meeting {
 public:
  Meeting() {
    auto listener = listen_on({loopback_addresses().ipv4, {}}, &at_);
    if (!listener) __builtin_trap();
    door_ = Door(*std::move(listener));
  }
  void act(gpucoll_test::Input& input) {
    UniqueFd& caller = callers_[input.take<uint8_t>() % kCallers];
    switch (input.take<uint8_t>() % kActs) {
      case kDial: return dial(&caller, input);
      case kSay: {
        const size_t n = std::min<size_t>(input.take<uint8_t>(), input.left());
        say(caller, input.at(), n);
        return input.skip(n);
      }
      case kWord: {
        const proto::BootstrapWord word = word_of(input);
        return say(caller, &word, sizeof word);
      }
      default: caller.reset();
    }
  }
  void turn() {
    PollSet set;
    door_.watch(&set);
    gathering_.watch(&set);
    set.wait(Clock::now() + std::chrono::microseconds(1)).ignore();
    std::vector<Door::Guest> guests;
    const auto knows = [](const proto::BootstrapHello& hello) {  // as the rendezvous has it
      return hello.magic == proto::kBootstrapMagic && hello.size > 0 && hello.size <= proto::kMostRanks &&
             hello.rank >= 0 && hello.rank < hello.size && hello.level == -1;
    };
    door_.serve(set, knows, &guests).ignore();
    for (Door::Guest& guest : guests) gathering_.admit(std::move(guest), kAfterFailure);
    gathering_.turn(set, kAfterFailure);
  }

 private:
  void dial(UniqueFd* caller, gpucoll_test::Input& input) {
    auto connected = connect_to(at_.ipv4, deadline_after(5));
    if (!connected) return;
    *caller = *std::move(connected);
    const proto::BootstrapHello hello = hello_of(input);
    say(*caller, &hello, sizeof hello);
  }
  static void say(const UniqueFd& caller, const void* data, size_t bytes) {
    if (caller && send(caller.get(), data, bytes, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) return;
  }
  Addresses at_;
  Door door_;
  Gathering gathering_{1, deadline_after(0)};
  std::array<UniqueFd, kCallers> callers_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  gpucoll_test::Input input(data, std::min<size_t>(bytes, 256));
  Meeting meeting;
  while (input.left() > 0) {
    meeting.act(input);
    meeting.turn();
  }
  return 0;
}
