// Which RDMA devices a link goes over, on the library of fake_verbs.cpp and a sysfs of the test's own:
//
//   pci0000:10 (NUMA node 0)  bridge  switch  gpu 12:00.0, nic 13:00.0 (fake_0)
//                                     switch  gpu 14:00.0, nic 15:00.0 (fake_1), nic 16:00.0 (fake_2)
//   pci0000:20 (NUMA node 0)  bridge  nic 21:00.0 (fake_3)
//   pci0000:30 (NUMA node 1)  bridge  gpu 31:00.0, and nic 32:00.0 (fake_4), which is slow
//   nowhere                           fake_5
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include "base/params.h"
#include "fake_verbs.h"
#include "link_kernels.h"
#include "net/verbs/devices.h"
#include "topo/pci.h"

using namespace gpucoll;
using namespace gpucoll::net;
using namespace gpucoll_test;
namespace fs = std::filesystem;

namespace {

constexpr char kFirst[] = "pci0000:10/0000:10:01.0/0000:11:00.0/0000:12:00.0",
               kSecond[] = "pci0000:10/0000:10:01.0/0000:11:01.0/0000:14:00.0",
               kThird[] = "pci0000:30/0000:30:01.0/0000:31:00.0";
constexpr const char* kNics[] = {"pci0000:10/0000:10:01.0/0000:11:00.0/0000:13:00.0",
                                 "pci0000:10/0000:10:01.0/0000:11:01.0/0000:15:00.0",
                                 "pci0000:10/0000:10:01.0/0000:11:01.0/0000:16:00.0",
                                 "pci0000:20/0000:20:01.0/0000:21:00.0", "pci0000:30/0000:30:01.0/0000:32:00.0"};
constexpr int kSlowDevice = 4, kSlow = 32, kFast = 128;

void write(const fs::path& file, const char* text) { std::ofstream(file) << text; }

class Sysfs {
 public:
  Sysfs() : root_(fs::temp_directory_path() / ("verbs_devices." + std::to_string(getpid()))) {
    fs::create_directories(root_ / "bus/devices");
    for (const char* gpu : {kFirst, kSecond, kThird}) add(gpu, "0x10de", "0x030200");
    for (const char* nic : kNics) add(nic, "0x15b3", "0x020700");
    for (size_t i = 0; i < std::size(kNics); ++i) {
      const fs::path card = root_ / "class" / ("fake_" + std::to_string(i));
      fs::create_directories(card);
      fs::create_symlink(root_ / "devices" / kNics[i], card / "device");
      cards_.push_back(card);
    }
  }
  ~Sysfs() { fs::remove_all(root_); }
  // As MemoryPort finds it.
  std::string directory(const char* device) const {
    return topo::pci_directory(root_ / "bus/devices" / fs::path(device).filename());
  }
  const char* card(size_t i) const { return i < cards_.size() ? cards_[i].c_str() : nullptr; }

 private:
  void add(const char* device, const char* vendor, const char* kind) {
    const fs::path directory = root_ / "devices" / device;
    fs::create_directories(directory);
    write(directory / "vendor", vendor);
    write(directory / "class", kind);
    write(directory / "numa_node", std::string_view(device).starts_with("pci0000:30") ? "1" : "0");
    fs::create_symlink(root_ / "bus", directory / "subsystem");
    fs::create_symlink(directory, root_ / "bus/devices" / directory.filename());
  }
  const fs::path root_;
  std::vector<std::string> cards_;
};

class PortNear final : public HostMemoryPort {
 public:
  explicit PortNear(std::string directory) : directory_(std::move(directory)) {}
  std::string pci_directory() const override { return directory_; }

 private:
  const std::string directory_;
};

class VerbsDevicesTest : public testing::Test {
 protected:
  void SetUp() override {
    fake = open_fake_verbs(params().verbs_library.c_str());
    ASSERT_NE(fake, nullptr) << dlerror();
    fake->devices = FakeVerbs::kMostDevices;
    for (int i = 0; i < FakeVerbs::kMostDevices; ++i) {
      fake->directories[i] = sysfs.card(static_cast<size_t>(i));
      fake->speeds[i] = i == kSlowDevice ? kSlow : kFast;
      fake->sends[i] = 0;
      fake->infiniband[i] = fake->silent[i] = fake->full[i] = false;
    }
  }
  void TearDown() override {
    ASSERT_TRUE(set_param("verbs_device", "", "test") && set_param("verbs_gid_index", "auto", "test"));
    if (auto devices = VerbsDevices::instance())
      for (const auto& device : (*devices)->all()) device->forget_silent();
  }
  // The names of the devices that are used for a GPU, as the parameter says it.
  std::string nearest(const char* parameter, const std::string& gpu) {
    EXPECT_TRUE(set_param("verbs_device", parameter, "test"));
    auto library = VerbsLibrary::instance();
    EXPECT_TRUE(library);
    auto devices = VerbsDevices::open_wanted(**library);
    if (!devices) return devices.status().what();
    std::string names;
    for (const VerbsDevice* device : (*devices)->nearest(gpu).devices)
      names += (names.empty() ? "" : " ") + device->name().substr(0, device->name().find(','));
    return names;
  }
  // Which devices have sent more than so often since the last call.
  std::string senders(int more_than = 0) {
    std::string names;
    for (int i = 0; i < FakeVerbs::kMostDevices; ++i)
      if (fake->sends[i].exchange(0) > more_than) names += std::to_string(i);
    return names;
  }
  static inline Sysfs sysfs;
  FakeVerbs* fake = nullptr;
};

}  // namespace

TEST_F(VerbsDevicesTest, DistancesFollowBridgesThenNodes) {
  const std::string first = sysfs.directory(kFirst), second = sysfs.directory(kSecond), third = sysfs.directory(kThird);
  ASSERT_FALSE(first.empty() || second.empty() || third.empty());
  const auto nic = [&](int i) { return sysfs.directory(kNics[i]); };
  EXPECT_EQ(topo::pci_distance(first, first), 0);
  EXPECT_LT(topo::pci_distance(first, nic(0)), topo::pci_distance(first, nic(1)));
  EXPECT_EQ(topo::pci_distance(second, nic(1)), topo::pci_distance(second, nic(2)));
  EXPECT_LT(topo::pci_distance(first, nic(1)), topo::pci_distance(first, nic(3)));
  EXPECT_LT(topo::pci_distance(first, nic(3)), topo::pci_distance(first, nic(4)));
  EXPECT_LT(topo::pci_distance(first, nic(4)), topo::pci_distance(first, ""));
  EXPECT_EQ(topo::pci_ordinal(first), 0);
  EXPECT_EQ(topo::pci_ordinal(second), 1);
  EXPECT_EQ(topo::pci_ordinal(third), 2);
  EXPECT_EQ(topo::pci_directory("/nowhere"), "");
  EXPECT_EQ(topo::pci_directory("/tmp"), "");
}

TEST_F(VerbsDevicesTest, AreThoseNearestToTheGpu) {
  EXPECT_EQ(nearest("", sysfs.directory(kFirst)), "fake_0");
  EXPECT_EQ(nearest("", sysfs.directory(kSecond)), "fake_1 fake_2");
  // All that are fast are on the other node.
  EXPECT_EQ(nearest("", sysfs.directory(kThird)), "fake_0 fake_1 fake_2 fake_3");
  EXPECT_EQ(nearest("", ""), "fake_0 fake_1 fake_2 fake_3");
  // Five are as far, of which each GPU leaves out another one.
  for (int i = 0; i < FakeVerbs::kMostDevices; ++i) fake->directories[i] = nullptr;
  EXPECT_EQ(nearest("", sysfs.directory(kFirst)), "fake_0 fake_1 fake_2 fake_3");
  EXPECT_EQ(nearest("", sysfs.directory(kThird)), "fake_2 fake_3 fake_5 fake_0");
}

TEST_F(VerbsDevicesTest, AreOfOneNetwork) {
  fake->infiniband[1] = fake->infiniband[3] = fake->infiniband[4] = true;
  EXPECT_EQ(nearest("", ""), "fake_1 fake_3");
  EXPECT_EQ(nearest("fake_0,fake_1", ""), "fake_0 fake_1");
}

TEST_F(VerbsDevicesTest, AreNoVirtualFunctionsOfOthers) {
  const fs::path device = sysfs.directory(kNics[2]);
  fs::create_symlink(sysfs.directory(kNics[1]), device / "physfn");
  EXPECT_EQ(nearest("", sysfs.directory(kSecond)), "fake_1");
  EXPECT_EQ(nearest("^fake_1", sysfs.directory(kSecond)), "fake_2");
  fs::remove(device / "physfn");
}

// A network device that has no GID 2 does not keep others from being used.
TEST_F(VerbsDevicesTest, AreThoseThatHaveTheGid) {
  ASSERT_TRUE(set_param("verbs_gid_index", "2", "test"));
  fake->few_gids[0] = true;
  EXPECT_EQ(nearest("", sysfs.directory(kFirst)), "fake_1 fake_2");
  for (int i = 0; i < FakeVerbs::kMostDevices; ++i) fake->few_gids[i] = true;
  EXPECT_NE(nearest("", "").find("fake_0, port 1 has no GID with index 2"), std::string::npos) << nearest("", "");
  for (int i = 0; i < FakeVerbs::kMostDevices; ++i) fake->few_gids[i] = false;
}

TEST_F(VerbsDevicesTest, AreThoseThatTheParameterTakes) {
  const std::string gpu = sysfs.directory(kFirst);
  EXPECT_EQ(nearest("fake_4", gpu), "fake_4");
  EXPECT_EQ(nearest("fake_3,fake_4:1", gpu), "fake_3");
  EXPECT_EQ(nearest("fake_4,fake_5", ""), "fake_4 fake_5");
  EXPECT_EQ(nearest("fake_0:1,fake_0:2", gpu), "fake_0");  // there is no port 2
  EXPECT_EQ(nearest("^fake_0", gpu), "fake_1 fake_2");
  EXPECT_EQ(nearest("^fake_0,fake_1", gpu), "fake_2");
  EXPECT_EQ(nearest("^fake_0,fake_1,fake_2,fake_3,fake_5", gpu), "fake_4");
  for (const char* wrong : {",", "fake_0,", "^", "^fake_0:1", "fake_0:", "fake_0:256", "fake_0:0"})
    EXPECT_NE(nearest(wrong, gpu).find("the parameter verbs_device is '" + std::string(wrong) + "': write names of"),
              std::string::npos)
        << wrong << ": " << nearest(wrong, gpu);
}

TEST_F(VerbsDevicesTest, LanesTakeTheRailsInTurn) {
  constexpr int kTrials = 2;  // one of each end
  carry_slices(verbs_transport(), 6, 200);
  EXPECT_EQ(senders(kTrials), "0123");  // four rails at most
  carry_slices(verbs_transport(), 2, 200);
  EXPECT_EQ(senders(kTrials), "01");
}

// One side has four devices near its GPU, and the other one has two.
TEST_F(VerbsDevicesTest, ALinkHasAsManyRailsAsTheEndWithFewerDevices) {
  const LinkShape shape = {4, proto::connection_shape(4096)};
  PortNear four(sysfs.directory(kThird)), two(sysfs.directory(kSecond));
  for (const bool sends : {false, true}) {
    Pair pair = gpucoll_test::make_pair(verbs_transport(), shape, sends ? two : four, sends ? four : two);
    connect_ends(pair);
    senders();
    for (int lane = 0; lane < shape.lanes; ++lane)
      send_slices(pair.sender->connector(lane), lane, {{1, 8}}, shape.slots.simple);
    await([&] { return *pair.sender->progress() == StepProgress::none; });
    EXPECT_EQ(senders(), sends ? "12" : "01");
    for (int lane = 0; lane < shape.lanes; ++lane) {
      ASSERT_TRUE(pair.receiver->progress());
      EXPECT_EQ(receive_slices(pair.receiver->connector(lane), lane, {{1, 8}}, shape.slots.simple), 0u);
    }
    await([&] { return *pair.receiver->progress() == StepProgress::none; });
    EXPECT_EQ(senders(), sends ? "01" : "12");
  }
}

TEST_F(VerbsDevicesTest, ALinkDoesWithoutADeviceThatCannotHaveItsMemory) {
  fake->full[1] = true;
  carry_slices(verbs_transport(), 6, 100);
  EXPECT_EQ(senders(), "023");
  for (int i = 0; i < FakeVerbs::kMostDevices; ++i) fake->full[i] = true;
  HostMemoryPort memory;
  auto none = verbs_transport().make_end(Side::send, {2, proto::connection_shape(4096)}, memory);
  EXPECT_EQ(none.status().code(), Code::out_of_memory) << none.status().what();
}

TEST_F(VerbsDevicesTest, AreAllTried) {
  const LinkShape shape = {4, proto::connection_shape(4096)};
  HostMemoryPort memory;
  const Pair pair = gpucoll_test::make_pair(verbs_transport(), shape, memory, memory);
  ASSERT_TRUE(pair.sender->connect(pair.receiver->blob()) && pair.receiver->connect(pair.sender->blob()));
  fake->silent[2] = true;
  ASSERT_TRUE(pair.sender->begin_trial() && pair.receiver->begin_trial());
  Status status;
  bool established = false;
  await([&] {
    auto there = pair.sender->established();
    established = there && *there;
    if (!there) status = std::move(there).status();
    return established || !status;
  });
  EXPECT_FALSE(established);
  EXPECT_NE(std::string(status.what()).find("does not answer fake_2, port 1"), std::string::npos) << status.what();
}

TEST_F(VerbsDevicesTest, OfferSomeRails) {
  const LinkShape shape = {1, proto::connection_shape(4096)};
  HostMemoryPort memory;
  const Pair pair = gpucoll_test::make_pair(verbs_transport(), shape, memory, memory);
  constexpr size_t kRailsOffset = 16;
  for (const uint32_t rails : {0u, 5u, ~0u}) {
    LinkBlob blob = pair.receiver->blob();
    std::memcpy(blob.bytes + kRailsOffset, &rails, sizeof rails);
    const Status refused = pair.sender->connect(blob);
    EXPECT_NE(std::string(refused.what()).find("the other side offers"), std::string::npos) << refused.what();
  }
  EXPECT_TRUE(pair.sender->connect(pair.receiver->blob()));
}
