// Messages between ranks: order, waiting, and allgathers by messages.
#include "core/peer/mailbox.h"

#include <chrono>
#include <string>

#include "base/params.h"
#include "wireup_ranks.h"

using namespace gpucoll;
using namespace gpucoll::core;
using namespace gpucoll_test;

namespace {

struct Content {
  int from, to, lane, number;
  bool operator==(const Content&) const = default;
};

constexpr proto::MailboxLane kAllLanes[] = {proto::kLaneCommon, proto::kLaneCollectiveSend,
                                            proto::kLaneCollectiveReceive, proto::kLanePairSend,
                                            proto::kLanePairReceive};

bool says(const Status& status, const char* part) {
  if (std::string(status.what()).find(part) != std::string::npos) return true;
  std::printf("'%s' does not say '%s'\n", status.what(), part);
  return false;
}

}  // namespace

TEST(Mailbox, CarriesLettersOfEachLaneInOrder) {
  constexpr int n = 3, rounds = 100;
  on_meeting_ranks(n, [](MeetingRank& self) {
    auto mailbox = make_page_mailbox(self.peers);
    PeerWait wait(self.fault, self.peers, nullptr);
    for (int k = 0; k < rounds; ++k) {
      for (int peer = 0; peer < n; ++peer)
        for (proto::MailboxLane lane : kAllLanes)
          if (peer != self.rank) {
            ASSERT_TRUE(mailbox->post(peer, lane, WireupMessage::of(Content{self.rank, peer, lane, k})).ok());
          }
      for (proto::MailboxLane lane : kAllLanes)
        for (int peer = n - 1; peer >= 0; --peer) {
          if (peer == self.rank) continue;
          auto message = await_message(*mailbox, peer, lane, wait, "a message");
          ASSERT_TRUE(message.ok()) << message.status().what();
          EXPECT_EQ(message->as<Content>(), (Content{peer, self.rank, proto::kOppositeLane[lane], k}));
        }
    }
    WireupMessage more;
    for (int peer = 0; peer < n; ++peer)
      if (peer != self.rank) {
        EXPECT_FALSE(*mailbox->poll(peer, proto::kLaneCommon, &more));
      }
  });
}

TEST(Mailbox, GathersAmongAllAndAmongSome) {
  constexpr int n = 5;
  struct Large {
    int words[300];  // several messages
  };
  on_meeting_ranks(n, [](MeetingRank& self) {
    auto mailbox = make_page_mailbox(self.peers);
    PeerWait wait(self.fault, self.peers, nullptr);
    for (int round = 0; round < 20; ++round) {
      MailboxBootstrap all(*mailbox, wait, Purpose::connections, self.peers);
      Large mine;
      for (int i = 0; i < 300; ++i) mine.words[i] = self.rank * 1000 + i + round;
      std::vector<Large> gathered(n);
      ASSERT_TRUE(all.allgather(&mine, gathered.data(), sizeof mine).ok());
      for (int r = 0; r < n; ++r)
        for (int i = 0; i < 300; ++i) ASSERT_EQ(gathered[static_cast<size_t>(r)].words[i], r * 1000 + i + round);
      // 4, 2, 0 among themselves, 3, 1 among themselves.
      std::vector<int> members;
      for (int r = n - 1; r >= 0; --r)
        if (r % 2 == self.rank % 2) members.push_back(r);
      const auto place = std::find(members.begin(), members.end(), self.rank) - members.begin();
      MailboxBootstrap some(*mailbox, wait, Purpose::split, members, static_cast<int>(place));
      std::vector<int> ranks(members.size());
      ASSERT_TRUE(some.allgather(&self.rank, ranks.data(), sizeof(int)).ok());
      EXPECT_EQ(ranks, members);
      EXPECT_FALSE(some.broken());
    }
  });
}

TEST(Mailbox, GathersNothingAmongRanksThatCameForDifferentThings) {
  on_meeting_ranks(2, [](MeetingRank& self) {
    auto mailbox = make_page_mailbox(self.peers);
    PeerWait wait(self.fault, self.peers, nullptr);
    MailboxBootstrap all(*mailbox, wait, self.rank == 0 ? Purpose::split : Purpose::connections, self.peers);
    int ranks[2];
    Status status = all.allgather(&self.rank, ranks, sizeof(int));
    EXPECT_EQ(status.code(), Code::invalid_usage);
    EXPECT_TRUE(says(status, "splits") && says(status, "connects") && says(status, "rank"));
    EXPECT_TRUE(all.broken());
  });
}

TEST(Mailbox, WaitsNoLongerForWhoHasClosedOrFailed) {
  on_meeting_ranks(3, [](MeetingRank& self) {
    auto mailbox = make_page_mailbox(self.peers);
    PeerWait wait(self.fault, self.peers, nullptr);
    if (self.rank == 1) {
      // The last message before closing still arrives.
      ASSERT_TRUE(mailbox->post(0, proto::kLaneCommon, WireupMessage()).ok());
      __atomic_store_n(&self.peers.own_page().closing, 1u, __ATOMIC_RELEASE);
      return;
    }
    if (self.rank == 0) {
      EXPECT_TRUE(await_message(*mailbox, 1, proto::kLaneCommon, wait, "a message").ok());
      Status late = await_message(*mailbox, 1, proto::kLaneCommon, wait, "a message").status();
      EXPECT_EQ(late.code(), Code::remote);
      EXPECT_TRUE(says(late, "rank 1") && says(late, "a message"));
      self.fault.raise(Status::error(Code::internal, "broken on purpose"));
      EXPECT_EQ(await_message(*mailbox, 2, proto::kLaneCommon, wait, "a message").status().code(), Code::internal);
      return;
    }
    Status other = await_message(*mailbox, 0, proto::kLaneCommon, wait, "a message").status();
    EXPECT_EQ(other.code(), Code::remote);
    EXPECT_TRUE(says(other, "rank 0") && says(other, "broken on purpose"));
  });
}

TEST(Mailbox, WaitsNoLongerThanTheTimeout) {
  ASSERT_TRUE(set_param("timeout", "1", "test").ok());
  on_meeting_ranks(2, [](MeetingRank& self) {
    if (self.rank == 1) return;
    auto mailbox = make_page_mailbox(self.peers);
    PeerWait wait(self.fault, self.peers, nullptr);
    const auto start = std::chrono::steady_clock::now();
    Status status = await_message(*mailbox, 1, proto::kLanePairSend, wait, "a message").status();
    EXPECT_EQ(status.code(), Code::timed_out);
    EXPECT_TRUE(says(status, "rank 1") && says(status, "a message") && says(status, "no call that fits"));
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
  });
  ASSERT_TRUE(set_param("timeout", "1800", "test").ok());
}
