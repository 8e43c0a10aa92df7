// Links over verbs, on the library of fake_verbs.cpp: what they carry, and how they fail.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <string>

#include "base/params.h"
#include "fake_verbs.h"
#include "link_kernels.h"
#include "net/verbs/devices.h"
#include "net/verbs/queue_pair.h"

using namespace gpucoll;
using namespace gpucoll::net;
using namespace gpucoll_test;

namespace {

const LinkShape kShape = {1, proto::connection_shape(4096)};

class Verbs : public testing::Test {
 protected:
  void SetUp() override {
    fake = open_fake_verbs(params().verbs_library.c_str());
    ASSERT_NE(fake, nullptr) << dlerror();
  }
  void TearDown() override {
    for (const char* name : {"verbs_device", "verbs_gid_index"})
      ASSERT_TRUE(set_param(name, std::string(name) == "verbs_device" ? "" : "auto", "test"));
    EXPECT_EQ(fake->violations, 0);
    if (auto devices = VerbsDevices::instance())
      for (const auto& device : (*devices)->all()) device->forget_silent();
  }
  Result<std::unique_ptr<VerbsDevices>> open() {
    auto library = VerbsLibrary::instance();
    EXPECT_TRUE(library);
    return VerbsDevices::open_wanted(**library);
  }
  // Lets a kernel send one slice, and returns what breaks the sending end.
  Status fail(Pair& pair) {
    send_slices(pair.sender->connector(0), 0, {{1, 8}}, kShape.slots.simple);
    Status status;
    await([&] {
      auto moved = pair.sender->progress();
      if (!moved) status = std::move(moved).status();
      return !status;
    });
    return status;
  }
  HostMemoryPort memory;
  FakeVerbs* fake = nullptr;
};

bool says(const Status& status, const char* text) { return std::string(status.what()).find(text) != std::string::npos; }

}  // namespace

TEST_F(Verbs, CarrySlicesOfAnySizeOnAllLanes) { carry_slices(verbs_transport(), 5, 300); }

TEST_F(Verbs, CarrySlicesWhereTheDeviceTakesNothingInline) {
  fake->nothing_inline = true;
  carry_slices(verbs_transport(), 2, 100);
  fake->nothing_inline = false;
}

TEST_F(Verbs, AnEndThatNobodyAnswersIsNotEstablished) {
  auto sender = verbs_transport().make_end(Side::send, kShape, memory);
  auto receiver = verbs_transport().make_end(Side::receive, kShape, memory);
  ASSERT_TRUE(sender && receiver);
  fake->cut = true;
  ASSERT_TRUE((*sender)->connect((*receiver)->blob()) && (*receiver)->connect((*sender)->blob()));
  ASSERT_TRUE((*sender)->begin_trial());
  Status status;
  await([&] {
    auto there = (*sender)->established();
    if (!there) status = std::move(there).status();
    return !status;
  });
  fake->cut = false;
  EXPECT_EQ(status.code(), Code::remote);
  EXPECT_TRUE(says(status, "the other side's device does not answer fake_0, port 1")) << status.what();
}

// A switch that takes smaller packets than the devices do lets small messages pass.
TEST_F(Verbs, TheTrialFindsPacketsThatAreTooLarge) {
  auto sender = verbs_transport().make_end(Side::send, kShape, memory);
  auto receiver = verbs_transport().make_end(Side::receive, kShape, memory);
  ASSERT_TRUE(sender && receiver);
  ASSERT_TRUE((*sender)->connect((*receiver)->blob()) && (*receiver)->connect((*sender)->blob()));
  fake->most_bytes = 1000;
  ASSERT_TRUE((*sender)->begin_trial() && (*receiver)->begin_trial());
  Status status;
  await([&] {
    auto there = (*sender)->established();
    if (!there) status = std::move(there).status();
    return !status;
  });
  fake->most_bytes = 1u << 30;
  EXPECT_EQ(status.code(), Code::remote);
  EXPECT_TRUE(says(status, "the other side's device does not answer")) << status.what();
}

TEST_F(Verbs, APeerThatDrainsWhatWasNotSentIsRefused) {
  Pair pair = connect_pair(verbs_transport(), kShape, memory);
  send_slices(pair.sender->connector(0), 0, {{1, 8}}, kShape.slots.simple);
  ASSERT_TRUE(pair.sender->progress() && pair.receiver->progress());
  const proto::Connector drained = pair.receiver->connector(0);
  __atomic_store_n(at<uint64_t>(drained.send, proto::SendBlock::kHeadOffset), 3, __ATOMIC_RELEASE);
  Status status;
  await([&] {
    EXPECT_TRUE(pair.receiver->progress());
    auto moved = pair.sender->progress();
    if (!moved) status = std::move(moved).status();
    return !status;
  });
  EXPECT_EQ(status.code(), Code::remote);
  EXPECT_TRUE(says(status, "it drains 3 steps of a connection that has 1")) << status.what();
}

// Finding it out takes half a minute on a real device.
TEST_F(Verbs, ADeviceThatDidNotAnswerIsNotTriedAgainAtOnce) {
  for (const bool again : {false, true}) {
    auto sender = verbs_transport().make_end(Side::send, kShape, memory);
    auto receiver = verbs_transport().make_end(Side::receive, kShape, memory);
    ASSERT_TRUE(sender && receiver);
    Status connected = (*sender)->connect((*receiver)->blob());
    EXPECT_EQ(connected.ok(), !again);
    if (again) {
      EXPECT_TRUE(says(connected, "did not answer fake_0, port 1, 0 s ago")) << connected.what();
      break;
    }
    fake->cut = true;
    ASSERT_TRUE((*sender)->begin_trial());
    bool failed = false;
    await([&] { return failed = failed || !(*sender)->established(); });
    fake->cut = false;
  }
}

TEST_F(Verbs, TheTrialNeedsBothSides) {
  auto sender = verbs_transport().make_end(Side::send, kShape, memory);
  auto receiver = verbs_transport().make_end(Side::receive, kShape, memory);
  ASSERT_TRUE(sender && receiver);
  ASSERT_TRUE((*sender)->connect((*receiver)->blob()) && (*receiver)->connect((*sender)->blob()));
  ASSERT_TRUE((*sender)->begin_trial());
  for (int i = 0; i < 20; ++i) {
    auto there = (*sender)->established();
    ASSERT_TRUE(there) << there.status().what();
    EXPECT_FALSE(*there);
  }
}

TEST_F(Verbs, ALinkThatGoesDownIsAnError) {
  Pair pair = connect_pair(verbs_transport(), kShape, memory);
  fake->cut = true;
  fake->active = false;
  const Status status = fail(pair);
  fake->cut = false;
  fake->active = true;
  EXPECT_EQ(status.code(), Code::remote);
  EXPECT_TRUE(says(status, "fake_0, port 1, which is down (transport retry counter exceeded)")) << status.what();
}

TEST_F(Verbs, AWriteThatIsRefusedIsAnError) {
  Pair pair = connect_pair(verbs_transport(), kShape, memory);
  fake->writes_until_fault = 0;
  const Status status = fail(pair);
  EXPECT_EQ(status.code(), Code::remote);
  EXPECT_TRUE(says(status, "fake_0, port 1 reports 'remote access error'")) << status.what();
}

TEST_F(Verbs, ADeviceThatGoesAwayIsAnError) {
  Pair pair = connect_pair(verbs_transport(), kShape, memory);
  fake->gone = true;
  const Status status = fail(pair);
  fake->gone = false;
  EXPECT_TRUE(says(status, "fake_0, port 1 has failed")) << status.what();
}

TEST_F(Verbs, APeerWithOtherBlocksIsRefused) {
  auto sender = verbs_transport().make_end(Side::send, kShape, memory);
  auto receiver = verbs_transport().make_end(Side::receive, {2, kShape.slots}, memory);
  ASSERT_TRUE(sender && receiver);
  EXPECT_EQ((*sender)->connect((*receiver)->blob()).code(), Code::remote);
}

TEST_F(Verbs, SayWhatTheDeviceCannotDo) {
  auto large = verbs_transport().make_end(Side::send, {1, proto::connection_shape(2 << 20)}, memory);
  EXPECT_EQ(large.status().code(), Code::unsupported);
  EXPECT_TRUE(says(large.status(), "sends at most 1048576 bytes at once: set buffer_bytes")) << large.status().what();
  fake->registers = false;
  auto unregistered = verbs_transport().make_end(Side::send, kShape, memory);
  fake->registers = true;
  EXPECT_EQ(unregistered.status().code(), Code::out_of_memory);
  EXPECT_TRUE(says(unregistered.status(), "ulimit -l")) << unregistered.status().what();
}

TEST_F(Verbs, AQueueThatIsTooShortIsNotMade) {
  fake->most_requests = 8;
  auto devices = open();
  fake->most_requests = 4096;
  ASSERT_TRUE(devices);
  VerbsDevice& device = *(*devices)->all()[0];
  EXPECT_TRUE(QueuePair::create(device, 8, 8));
  const auto too_long = QueuePair::create(device, 9, 1);
  EXPECT_EQ(too_long.status().code(), Code::unsupported);
}

TEST_F(Verbs, ChooseTheGidOfRoceV2AndIpv4) {
  auto devices = open();
  ASSERT_TRUE(devices) << devices.status().what();
  EXPECT_EQ((*devices)->all()[0]->gid_index(), 3);
  EXPECT_EQ((*devices)->all()[0]->name(), "fake_0, port 1");
  ASSERT_TRUE(set_param("verbs_gid_index", "1", "test"));
  auto other = open();
  ASSERT_TRUE(other);
  EXPECT_EQ((*other)->all()[0]->gid_index(), 1);
  ASSERT_TRUE(set_param("verbs_gid_index", "5", "test"));
  auto none = open();
  EXPECT_TRUE(says(none.status(), "fake_0, port 1 has no GID with index 5")) << none.status().what();
}

TEST_F(Verbs, UseWhatTheParametersSay) {
  EXPECT_TRUE(set_param("verbs_pkey_index", "2", "test"));
  EXPECT_TRUE(set_param("verbs_service_level", "5", "test"));
  EXPECT_TRUE(set_param("verbs_traffic_class", "104", "test"));
  EXPECT_TRUE(set_param("verbs_timeout", "14", "test"));
  EXPECT_TRUE(set_param("verbs_retries", "3", "test"));
  connect_pair(verbs_transport(), kShape, memory);
  EXPECT_EQ(fake->pkey_index, 2);
  EXPECT_EQ(fake->service_level, 5);
  EXPECT_EQ(fake->traffic_class, 104);
  EXPECT_EQ(fake->timeout, 14);
  EXPECT_EQ(fake->retries, 3);
}

TEST_F(Verbs, SayWhichDevicesThereAre) {
  ASSERT_TRUE(set_param("verbs_device", "fake_0:1", "test"));
  EXPECT_TRUE(open());
  ASSERT_TRUE(set_param("verbs_device", "fake_0:2", "test"));
  EXPECT_FALSE(open());
  ASSERT_TRUE(set_param("verbs_device", "fake_0:x", "test"));
  EXPECT_EQ(open().status().code(), Code::invalid_argument);
  ASSERT_TRUE(set_param("verbs_device", "mlx5_0", "test"));
  EXPECT_TRUE(says(open().status(), "there is no RDMA device mlx5_0 here")) << open().status().what();
  ASSERT_TRUE(set_param("verbs_device", "", "test"));
  fake->active = false;
  EXPECT_TRUE(says(open().status(), "fake_0, port 1 is down")) << open().status().what();
  fake->active = true;
  fake->devices = 0;
  EXPECT_TRUE(says(open().status(), "there is no RDMA device here")) << open().status().what();
  fake->devices = 1;
}

// Where the library is missing.
TEST(NoVerbs, DISABLED_SaysWhatToInstall) {
  const Status status = verbs_transport().usable();
  EXPECT_EQ(status.code(), Code::unsupported);
  EXPECT_TRUE(says(status, "/nowhere.so")) << status.what();
  EXPECT_TRUE(says(status, "install rdma-core's libibverbs1")) << status.what();
  HostMemoryPort memory;
  EXPECT_EQ(verbs_transport().make_end(Side::send, kShape, memory).status().code(), Code::unsupported);
}

// On a device that is there: not of the library that stands for verbs.
TEST(OneDevice, DISABLED_CarriesSlicesToItself) {
  const Status status = verbs_transport().usable();
  ASSERT_TRUE(status) << status.what();
  carry_slices(verbs_transport(), 2, 40);
}
