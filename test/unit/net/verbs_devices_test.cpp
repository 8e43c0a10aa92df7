// Which RDMA devices a link goes over, on the library of fake_verbs.cpp and a sysfs of the test's own:
//
//   pci0000:10 (NUMA node 0)  bridge  switch  gpu 12:00.0, nic 13:00.0 (fake_0)
//                                     switch  gpu 14:00.0, nic 15:00.0 (fake_1), nic 16:00.0 (fake_2)
//   pci0000:20 (NUMA node 0)  bridge  nic 21:00.0 (fake_3)
//   pci0000:30 (NUMA node 1)  bridge  gpu 31:00.0, and nic 32:00.0 (fake_4), which is slow
//                             nowhere fake_5
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

class PortNear final : public MemoryPort {
 public:
  explicit PortNear(std::string directory) : directory_(std::move(directory)) {}
  Result<void*> allocate(size_t, LinkBlob*) override { return Status::error(Code::unsupported, "not here"); }
  void release(void*) noexcept override {}
  Result<void*> open(const LinkBlob&) override { return Status::error(Code::unsupported, "not here"); }
  void close(void*) noexcept override {}
  Result<void*> map_host(void* host, size_t) override { return host; }
  void unmap_host(void*, void*, size_t) noexcept override {}
  std::string pci_directory() const override { return directory_; }

 private:
  const std::string directory_;
};

class VerbsDevicesTest : public testing::Test {
 protected:
  void SetUp() override {
    void* const library = dlopen(params().verbs_library.c_str(), RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library, nullptr) << dlerror();
    fake = reinterpret_cast<FakeVerbsFunction*>(dlsym(library, "fake_verbs"))();
    fake->devices = FakeVerbs::kMostDevices;
    for (int i = 0; i < FakeVerbs::kMostDevices; ++i) {
      fake->directories[i] = sysfs.card(static_cast<size_t>(i));
      fake->speeds[i] = i == kSlowDevice ? kSlow : kFast;
      fake->sends[i] = 0;
    }
  }
  void TearDown() override { ASSERT_TRUE(set_param("verbs_device", "", "test")); }
  // The names of the devices that are used for a GPU, as the parameter says it.
  std::string nearest(const char* parameter, const std::string& gpu, size_t most = 6) {
    EXPECT_TRUE(set_param("verbs_device", parameter, "test"));
    auto library = VerbsLibrary::instance();
    EXPECT_TRUE(library);
    auto devices = VerbsDevices::open_wanted(**library);
    if (!devices) return devices.status().what();
    std::string names;
    for (const VerbsDevice* device : (*devices)->nearest(gpu, most))
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
  EXPECT_EQ(topo::pci_distance(first, nic(1)), topo::pci_distance(nic(1), first));
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
  EXPECT_EQ(nearest("", sysfs.directory(kSecond)), "fake_2 fake_1");  // each GPU begins with another one
  // All that are fast are on the other node.
  EXPECT_EQ(nearest("", sysfs.directory(kThird)), "fake_2 fake_3 fake_0 fake_1");
  EXPECT_EQ(nearest("", sysfs.directory(kThird), 2), "fake_2 fake_3");
  EXPECT_EQ(nearest("", ""), "fake_0 fake_1 fake_2 fake_3 fake_5");
}

TEST_F(VerbsDevicesTest, AreThoseThatTheParameterTakes) {
  const std::string gpu = sysfs.directory(kFirst);
  EXPECT_EQ(nearest("fake_4", gpu), "fake_4");
  EXPECT_EQ(nearest("fake_3,fake_4:1", gpu), "fake_3");
  EXPECT_EQ(nearest("fake_4,fake_5", ""), "fake_4 fake_5");
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
    Pair pair;
    auto sender = verbs_transport().make_end(Side::send, shape, sends ? two : four);
    auto receiver = verbs_transport().make_end(Side::receive, shape, sends ? four : two);
    ASSERT_TRUE(sender && receiver);
    pair = {*std::move(sender), *std::move(receiver)};
    connect_ends(pair);
    senders();
    for (int lane = 0; lane < shape.lanes; ++lane)
      send_slices(pair.sender->connector(lane), lane, {{1, 8}}, shape.slots.simple);
    await([&] { return *pair.sender->progress() == StepProgress::none; });
    EXPECT_EQ(senders(), sends ? "12" : "23");
    for (int lane = 0; lane < shape.lanes; ++lane) {
      ASSERT_TRUE(pair.receiver->progress());
      EXPECT_EQ(receive_slices(pair.receiver->connector(lane), lane, {{1, 8}}, shape.slots.simple), 0u);
    }
    await([&] { return *pair.receiver->progress() == StepProgress::none; });
    EXPECT_EQ(senders(), sends ? "23" : "12");
  }
}

TEST_F(VerbsDevicesTest, OfferSomeRails) {
  const LinkShape shape = {1, proto::connection_shape(4096)};
  HostMemoryPort memory;
  auto sender = verbs_transport().make_end(Side::send, shape, memory);
  auto receiver = verbs_transport().make_end(Side::receive, shape, memory);
  ASSERT_TRUE(sender && receiver);
  constexpr size_t kRailsOffset = 16;
  for (const uint64_t rails : {uint64_t{0}, uint64_t{5}, ~uint64_t{0}}) {
    LinkBlob blob = (*receiver)->blob();
    std::memcpy(blob.bytes + kRailsOffset, &rails, sizeof rails);
    const Status refused = (*sender)->connect(blob);
    EXPECT_NE(std::string(refused.what()).find("the other side offers"), std::string::npos) << refused.what();
  }
  EXPECT_TRUE((*sender)->connect((*receiver)->blob()));
}
