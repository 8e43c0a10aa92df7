// The socket bootstrap: allgathers of any size of group, and ranks that contradict each other.
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "base/params.h"
#include "net/socket.h"
#include "net/socket_bootstrap.h"

using namespace gpucoll;
using namespace gpucoll::net;

namespace {

// Runs body(rank) in a thread for each rank.
template <class Body>
void on_ranks(int n, Body body) {
  std::vector<std::thread> threads;
  for (int r = 0; r < n; ++r) threads.emplace_back([=] { body(r); });
  for (auto& t : threads) t.join();
}

}  // namespace

class SocketBootstrapTest : public testing::TestWithParam<int> {};

TEST_P(SocketBootstrapTest, GathersFromAllRanks) {
  int n = GetParam();
  auto id = make_unique_id();
  ASSERT_TRUE(id.ok());
  on_ranks(n, [&](int rank) {
    auto bootstrap = SocketBootstrap::create(*id, rank, n, 20);
    ASSERT_TRUE(bootstrap.ok()) << bootstrap.status().what();
    for (size_t words : {1, 3, 5000}) {
      std::vector<uint32_t> mine(words), all(words * static_cast<size_t>(n));
      for (size_t i = 0; i < words; ++i) mine[i] = static_cast<uint32_t>(rank) * 1000003u + static_cast<uint32_t>(i);
      ASSERT_TRUE((*bootstrap)->allgather(mine.data(), all.data(), words * 4).ok());
      for (size_t i = 0; i < all.size(); ++i)
        ASSERT_EQ(all[i], static_cast<uint32_t>(i / words) * 1000003u + static_cast<uint32_t>(i % words));
    }
  });
}
INSTANTIATE_TEST_SUITE_P(Sizes, SocketBootstrapTest, testing::Values(1, 2, 3, 4, 5, 7, 8, 13));

TEST(SocketBootstrap, MeetsOverTheInterfaceThatIsNamed) {
  ASSERT_TRUE(set_param("socket_ifname", "lo", "test").ok());
  Address address;
  auto listener = listen_anywhere(&address);
  ASSERT_TRUE(listener.ok()) << listener.status().what();
  EXPECT_EQ(to_string(address).rfind("127.0.0.1:", 0), 0u) << to_string(address);
  ASSERT_TRUE(set_param("socket_ifname", "no_such_one", "test").ok());
  auto id = make_unique_id();
  ASSERT_FALSE(id.ok());
  EXPECT_NE(std::string(id.status().what()).find("no network interface 'no_such_one'"), std::string::npos)
      << id.status().what();
  ASSERT_TRUE(set_param("socket_ifname", "", "test").ok());
  EXPECT_TRUE(make_unique_id().ok());
}

TEST(SocketBootstrap, RefusesTwoOfTheSameRank) {
  auto id = make_unique_id();
  ASSERT_TRUE(id.ok());
  on_ranks(2, [&](int) {
    auto bootstrap = SocketBootstrap::create(*id, 0, 2, 20);
    ASSERT_FALSE(bootstrap);
    EXPECT_EQ(bootstrap.status().code(), Code::invalid_usage);
    EXPECT_NE(std::string(bootstrap.status().what()).find("rank 0"), std::string::npos);
  });
}

TEST(SocketBootstrap, RefusesMoreRanksThanThereCanBe) {
  auto id = make_unique_id();
  ASSERT_TRUE(id.ok());
  auto bootstrap = SocketBootstrap::create(*id, 1, 2'000'000'000, 20);
  ASSERT_FALSE(bootstrap);
  EXPECT_EQ(bootstrap.status().code(), Code::invalid_argument);
  EXPECT_NE(std::string(bootstrap.status().what()).find("at most"), std::string::npos);
}

TEST(SocketBootstrap, RefusesDifferingSizes) {
  auto id = make_unique_id();
  ASSERT_TRUE(id.ok());
  on_ranks(2, [&](int rank) {
    auto bootstrap = SocketBootstrap::create(*id, rank, 2 + rank, 20);
    ASSERT_FALSE(bootstrap);
    EXPECT_EQ(bootstrap.status().code(), Code::invalid_usage);
  });
}

TEST(SocketBootstrap, GivesUpWhenARankDoesNotCome) {
  auto id = make_unique_id();
  ASSERT_TRUE(id.ok());
  on_ranks(2, [&](int rank) {  // of 13; the less patient of the two speaks for both
    auto bootstrap = SocketBootstrap::create(*id, rank, 13, rank == 0 ? 1 : 60);
    ASSERT_FALSE(bootstrap);
    EXPECT_EQ(bootstrap.status().code(), Code::timed_out);
    const std::string told = bootstrap.status().what();
    EXPECT_NE(told.find("ranks 2, 3, 4, 5, 6, 7, 8, 9 and 3 more of 13 did not come"), std::string::npos) << told;
    EXPECT_NE(told.find("within 1 s"), std::string::npos) << told;
  });
}

TEST(SocketBootstrap, RefusesAnIdThatWasUsed) {
  auto id = make_unique_id();
  ASSERT_TRUE(id.ok());
  for (bool again : {false, true}) {
    auto bootstrap = SocketBootstrap::create(*id, 0, 1, 20);
    ASSERT_EQ(bootstrap.ok(), !again);
    if (!again) continue;
    EXPECT_EQ(bootstrap.status().code(), Code::remote);
    EXPECT_NE(std::string(bootstrap.status().what()).find("used before"), std::string::npos)
        << bootstrap.status().what();
  }
}

// As a rendezvous that is over does to those who came before its port was closed.
TEST(SocketBootstrap, AsksWhetherTheIdWasUsedWhenItsMakerHangsUp) {
  Address own;
  auto listener = listen_anywhere(&own);
  ASSERT_TRUE(listener.ok());
  auto id = make_unique_id();
  ASSERT_TRUE(id.ok());
  id->root = {own.ip, own.port, 0};
  std::thread maker([&] { EXPECT_TRUE(accept_one(listener->get(), deadline_after(20)).ok()); });
  auto bootstrap = SocketBootstrap::create(*id, 0, 1, 20);
  maker.join();
  ASSERT_FALSE(bootstrap);
  EXPECT_EQ(bootstrap.status().code(), Code::remote);
  EXPECT_NE(std::string(bootstrap.status().what()).find("used before"), std::string::npos);
}

TEST(SocketBootstrap, RefusesAnIdThatIsNone) {
  proto::UniqueId id = {};
  auto bootstrap = SocketBootstrap::create(id, 0, 1, 1);
  ASSERT_FALSE(bootstrap);
  EXPECT_EQ(bootstrap.status().code(), Code::invalid_argument);
}

TEST(SocketBootstrap, SurvivesAStranger) {
  auto id = make_unique_id();
  ASSERT_TRUE(id.ok());
  Address root = {id->root.ip, id->root.port, 0};
  auto stranger = connect_to(root, deadline_after(5));
  ASSERT_TRUE(stranger.ok());
  char noise[40] = "GET / HTTP/1.1";
  ASSERT_TRUE(send_all(stranger->get(), noise, sizeof noise, deadline_after(5)).ok());
  on_ranks(2, [&](int rank) {
    auto bootstrap = SocketBootstrap::create(*id, rank, 2, 20);
    ASSERT_TRUE(bootstrap.ok()) << bootstrap.status().what();
  });
}

// A rank that goes away, before or after all have met, is noticed at once: not only at the end of the timeout.
TEST(SocketBootstrap, NoticesARankThatLeavesTheRendezvous) {
  auto id = make_unique_id();
  ASSERT_TRUE(id.ok());
  auto start = std::chrono::steady_clock::now();
  on_ranks(2, [&](int rank) {  // of 3
    if (rank == 1) {
      auto bootstrap = SocketBootstrap::create(*id, rank, 3, 60);
      ASSERT_FALSE(bootstrap);
      EXPECT_EQ(bootstrap.status().code(), Code::remote);
      EXPECT_NE(std::string(bootstrap.status().what()).find("rank 0 left"), std::string::npos);
    } else {
      auto root = connect_to({id->root.ip, id->root.port, 0}, deadline_after(5));
      ASSERT_TRUE(root.ok());
      const proto::BootstrapHello hello = {proto::kBootstrapMagic, id->nonce, 0, 3, -1, 60, {}};
      ASSERT_TRUE(send_all(root->get(), &hello, sizeof hello, deadline_after(5)).ok());
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
    }
  });
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
}

TEST(SocketBootstrap, NoticesARankThatLeavesBeforeAnAllgather) {
  for (auto [n, late] : {std::pair(2, false), {3, false}, {4, false}, {7, false}, {7, true}}) {
    // late: those that wait for no connection of rank 0 have sent to it by then, and wait for others.
    auto id = make_unique_id();
    ASSERT_TRUE(id.ok());
    auto start = std::chrono::steady_clock::now();
    on_ranks(n, [&](int rank) {
      auto bootstrap = SocketBootstrap::create(*id, rank, n, 15);
      ASSERT_TRUE(bootstrap.ok()) << bootstrap.status().what();
      if (rank == 0 && late) std::this_thread::sleep_for(std::chrono::milliseconds(300));
      if (rank == 0) return;
      std::vector<int> all(static_cast<size_t>(n));
      Status status = (*bootstrap)->allgather(&rank, all.data(), sizeof rank);
      ASSERT_FALSE(status);
      EXPECT_EQ(status.code(), Code::remote) << status.what();
      EXPECT_NE(std::string(status.what()).find("rank"), std::string::npos) << status.what();
    });
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10)) << n;
  }
}
