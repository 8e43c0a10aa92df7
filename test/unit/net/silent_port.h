// A port of this host that takes no connection: its queue is full, and the system drops who knocks, as a firewall may.
#pragma once
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#include "net/bootstrap/socket.h"

namespace gpucoll_test {

class SilentPort {
 public:
  SilentPort() : listener_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in at = {};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t bytes = sizeof at;
    auto* const raw = reinterpret_cast<sockaddr*>(&at);
    EXPECT_EQ(bind(listener_.get(), raw, bytes), 0);
    EXPECT_EQ(listen(listener_.get(), 0), 0);
    EXPECT_EQ(getsockname(listener_.get(), raw, &bytes), 0);
    address_ = gpucoll::net::address_of(*raw);
    while (takes_one_more()) continue;
  }
  const gpucoll::net::Address& address() const { return address_; }

 private:
  bool takes_one_more() {
    auto dial = gpucoll::net::Dial::start(address_);
    EXPECT_TRUE(dial.ok());
    for (int i = 0; i < 200; ++i) {
      auto taken = dial->finish();
      EXPECT_TRUE(taken.ok());
      if (*taken) return taken_.push_back(*std::move(taken)), true;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return false;
  }
  gpucoll::UniqueFd listener_;
  std::vector<gpucoll::UniqueFd> taken_;
  gpucoll::net::Address address_;
};

}  // namespace gpucoll_test
