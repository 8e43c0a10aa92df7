// A port of this host that takes no connection: its queue is full, and the system drops who knocks, as a firewall may.
#pragma once
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

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
    queue_.push_back(*std::move(dial));
    pollfd knock = {queue_.back().fd(), POLLOUT, 0};
    return poll(&knock, 1, 200) == 1;
  }
  gpucoll::UniqueFd listener_;
  std::vector<gpucoll::net::Dial> queue_;
  gpucoll::net::Address address_;
};

}  // namespace gpucoll_test
