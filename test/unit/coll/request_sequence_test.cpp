// In what order requests are published, and which of them share a launch. The rank is alone, so all have come.
#include "coll/request/request_sequence.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "mpi/staging/packing.h"

namespace gpucoll::coll {
namespace {

using Stage = Request::Stage;

struct RequestSequenceTest : testing::Test {
  RequestSequenceTest() {
    calls.process_name = [](void*, int) { return uint64_t{1}; };
    calls.progress = [] {};
    gc_process_blob blob;
    int rank = 0;
    EXPECT_TRUE(MpiProcess::instance().open(&blob));
    EXPECT_TRUE(matcher.entries().open());
    EXPECT_TRUE(matcher.entries().find_peers(&rank));
  }
  void push(bool small, uint32_t flags_of_function = 0) {
    requests.push_back(std::make_unique<Request>(reinterpret_cast<RequestQueue&>(owner)));
    Request& request = *requests.back();
    request.on_device = true;
    request.call.part.has_device_memory = true;
    request.call.place = {GC_ORDER_NONBLOCKING, requests.size(), GC_FUNCTION_allreduce | flags_of_function};
    request.runtime = &runtime;
    core::TaskQueue& queue = request.call.part.queue;
    if (!small) add_copy(queue, &queue.spread, owner, owner, size_t{1} << 20);  // only the size counts
    sequence.push(request);
  }
  size_t count(Stage stage) const {
    size_t n = 0;
    for (const auto& request : requests) n += request->stage == stage;
    return n;
  }
  // Returns how many of the first ones share a launch, and takes them out.
  size_t take_a_launch() {
    const auto agreed = sequence.agree();
    EXPECT_TRUE(agreed && *agreed);
    std::vector<Request*> together;
    EXPECT_TRUE(sequence.find_agreed([](Request&) { return Result<bool>(true); }, &together));
    for (Request* request : together) {
      EXPECT_TRUE(sequence.is_first(*request));
      EXPECT_EQ(request->call.lines.size(), 1u);
      request->stage = Stage::running;
      sequence.pop();
    }
    return together.size();
  }

  alignas(16) char owner[64] = {};  // which no request looks at here
  gc_host_calls calls = {};
  gc_comm_description description = {7, 0, 1, 0, &calls, nullptr, "a communicator"};
  CallMatcher matcher{description};
  const std::shared_ptr<CauseLog> causes = std::make_shared<CauseLog>("a communicator");
  MpiRuntime runtime{description, matcher, GC_MEETING_FIRST, causes};
  GroupRuntime groups{description, matcher, {GC_MEETING_GROUPS, GC_MEETING_LEADERS}, causes};
  PersistentRequests persistent{description, matcher, causes, [](uint64_t) { return true; }};
  RequestOrder order{description, matcher, persistent, groups, nullptr};
  RequestSequence sequence{description, matcher, order};
  std::vector<std::unique_ptr<Request>> requests;
};

TEST_F(RequestSequenceTest, SmallOnesInARowShareALaunch) {
  for (const bool small : {true, true, false, true, true, true}) push(small);
  sequence.publish_more();
  EXPECT_EQ(count(Stage::published), 6u);
  EXPECT_EQ(take_a_launch(), 2u);
  EXPECT_EQ(take_a_launch(), 1u) << "the large one";
  EXPECT_EQ(take_a_launch(), 3u);
  EXPECT_TRUE(sequence.empty());
  EXPECT_FALSE(sequence.any());
}

TEST_F(RequestSequenceTest, OneThatCannotGoAlongBeginsTheNextLaunch) {
  for (int i = 0; i < 3; ++i) push(true);
  sequence.publish_more();
  const auto agreed = sequence.agree();
  ASSERT_TRUE(agreed && *agreed);
  std::vector<Request*> together;
  EXPECT_TRUE(sequence.find_agreed([&](Request& each) { return Result<bool>(&each != requests[2].get()); }, &together));
  ASSERT_EQ(together.size(), 2u);
  EXPECT_EQ(together[1], requests[1].get());
}

TEST_F(RequestSequenceTest, IsPublishedAsFarAsLinesAreFree) {
  constexpr size_t kMore = 4;
  for (size_t i = 0; i < GC_BOARD_LINES + kMore; ++i) push(true);
  sequence.publish_more();
  sequence.publish_more();
  EXPECT_EQ(count(Stage::published), size_t{GC_BOARD_LINES});
  EXPECT_EQ(requests[GC_BOARD_LINES]->stage, Stage::queued);
  EXPECT_EQ(take_a_launch(), size_t{GC_BOARD_LINES});
  sequence.publish_more();
  EXPECT_EQ(count(Stage::published), kMore) << "the lines of the first ones have been read";
  EXPECT_EQ(take_a_launch(), kMore);
}

TEST_F(RequestSequenceTest, NobodyAwaitsWhatIsNotStarted) {
  push(true, GC_PERSISTENT);
  EXPECT_TRUE(sequence.any());
  EXPECT_FALSE(sequence.is_awaited());
  push(true);
  EXPECT_TRUE(sequence.is_awaited());
  size_t ended = 0;
  sequence.end_all([&](Request& request) { EXPECT_EQ(&request, requests[ended++].get()); });
  EXPECT_EQ(ended, 2u);
  EXPECT_TRUE(sequence.empty());
}

}  // namespace
}  // namespace gpucoll::coll
