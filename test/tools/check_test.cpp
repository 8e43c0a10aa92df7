// What gpucoll-info --check says of machines that are not this one.
#include "info/check.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

char g_plugin_folder[256] = "", g_open_mpi_folder[256] = "";

namespace gpucoll::info {
namespace {

// Facts of gather() on a machine where nothing is wrong.
nlohmann::ordered_json good_facts() {
  return nlohmann::ordered_json::parse(R"({
    "open_mpi": "none", "build": {"cuda": true}, "gpus": {"count": 2}, "platform": {"name": "cuda"},
    "transports": [{"name": "p2p", "usable": true}, {"name": "shm", "usable": true}],
    "network": {"addresses": [{"interface": "eth0", "address": "10.0.0.1", "loopback": false}], "others": [],
                "unused_names": []}})");
}

std::string check(const nlohmann::ordered_json& facts) { return as_text(check_machine(facts), false); }

bool says(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

class Check : public testing::Test {
 protected:
  Check() {
    unsetenv("GPUCOLL_DEVICE");
    unsetenv("OMPI_MCA_coll_gpucoll_device");
  }
  nlohmann::ordered_json facts = good_facts();
};

TEST_F(Check, NothingIsWrongWithGpusAndANetwork) {
  const std::string text = check(facts);
  EXPECT_TRUE(says(text, "ok      collectives run on GPUs\n")) << text;
  EXPECT_TRUE(says(text, "ok      other nodes reach this one at 10.0.0.1 (eth0)\n")) << text;
  EXPECT_FALSE(says(text, "this host also has")) << text;
  EXPECT_FALSE(says(text, "peer")) << text;
}

TEST_F(Check, WhereThereIsNoGpuTheCureDependsOnTheBuild) {
  facts["platform"]["name"] = "emu";
  facts["gpus"] = {{"count", 0}, {"problem", "the CUDA driver shows no GPU"}};
  const std::string no_driver = check(facts);
  EXPECT_TRUE(says(no_driver, "warning collectives run on the emulated device: the CUDA driver shows no GPU\n"));
  EXPECT_TRUE(says(no_driver, "to fix it: see that nvidia-smi lists the GPUs")) << no_driver;
  facts["build"]["cuda"] = false;
  EXPECT_TRUE(says(check(facts), "to fix it: build gpucoll where CUDA is installed")) << check(facts);
  setenv("GPUCOLL_DEVICE", "emu", 1);
  EXPECT_TRUE(says(check(facts), "note    collectives run on the emulated device")) << check(facts);
}

TEST_F(Check, AProblemSaysItselfWhatToDo) {
  facts["platform"] = {{"problem", "update the driver"}};
  const std::string text = check(facts);
  EXPECT_TRUE(says(text, "fault   update the driver\n")) << text;
  EXPECT_FALSE(says(text, "update the driver\n        to fix it")) << text;
  EXPECT_EQ(worst_of(check_machine(facts)), Grade::fault);
}

TEST_F(Check, DevicesMayNotReachEachOther) {
  facts["transports"][0]["usable"] = false;
  EXPECT_TRUE(says(check(facts), "warning devices do not reach each other's memory")) << check(facts);
}

TEST_F(Check, OtherInterfacesCanBeChosen) {
  facts["network"]["others"] = nlohmann::ordered_json::parse(
      R"([{"interface": "ib0", "address": "10.9.0.1", "loopback": false},
          {"interface": "docker0", "address": "172.17.0.1", "loopback": false}])");
  EXPECT_TRUE(says(check(facts),
                   "note    this host also has 10.9.0.1 (ib0) and 172.17.0.1 (docker0); to connect through another "
                   "interface, set the parameter socket_ifname\n"))
      << check(facts);
}

TEST_F(Check, AHostMayBeOutOfReach) {
  facts["network"]["addresses"] = nlohmann::ordered_json::array();
  EXPECT_TRUE(says(check(facts), "note    no other node reaches this one: no network interface is up\n"));
  facts["network"]["addresses"] =
      nlohmann::ordered_json::parse(R"([{"interface": "lo", "address": "127.0.0.1", "loopback": true}])");
  EXPECT_TRUE(says(check(facts), "it listens at the loopback alone, 127.0.0.1 (lo)\n")) << check(facts);
}

// An Open MPI that does not find the plugin.
class MissingPlugin : public Check {
 protected:
  static constexpr const char* kPath = "OMPI_MCA_mca_base_component_path";
  MissingPlugin() {
    std::filesystem::create_directories(root_ / "bin");
    std::ofstream(root_ / "bin/ompi_info") << "#!/bin/sh\necho package:Open MPI\n";
    std::filesystem::permissions(root_ / "bin/ompi_info", std::filesystem::perms::owner_all);
    setenv("PATH", ((root_ / "bin").string() + ":" + path_).c_str(), 1);
    unsetenv(kPath);
    choose(g_plugin_folder, "gpucoll");
    choose(g_open_mpi_folder, "openmpi");
  }
  ~MissingPlugin() override {
    setenv("PATH", path_.c_str(), 1);
    unsetenv(kPath);
    std::filesystem::remove_all(root_);
  }
  void choose(char (&folder)[256], const char* name) const {
    std::snprintf(folder, sizeof folder, "%s", (root_ / name).c_str());
  }
  static void install() {
    std::filesystem::create_directories(g_plugin_folder);
    std::ofstream(std::string(g_plugin_folder) + "/mca_coll_gpucoll.so") << "not a library";
  }
  void expect_cure(const std::string& cure) const {
    const std::string text = check(facts);
    EXPECT_TRUE(says(text, "fault   Open MPI does not find the plugin coll/gpucoll\n        to fix it: " + cure + "\n"))
        << cure << "\n"
        << text;
  }
  std::string plugins() const { return (root_ / "gpucoll").string(); }
  std::string components() const { return (root_ / "openmpi").string(); }
  std::string because_it_cannot_be_loaded(const std::string& folder) const {
    return "see why " + folder +
           "/mca_coll_gpucoll.so cannot be loaded: ldd and `ompi_info --mca "
           "mca_base_component_show_load_errors 1` say it";
  }

 private:
  const std::filesystem::path root_ =
      std::filesystem::temp_directory_path() / ("gpucoll_check_" + std::to_string(getpid()));
  const std::string path_ = getenv("PATH");
};

TEST_F(MissingPlugin, IsToBeInstalled) {
  expect_cure("install gpucoll (make install); or, if it was moved, export " + std::string(kPath) +
              "=FOLDER:" + components() + ", where FOLDER has mca_coll_gpucoll.so");
}

TEST_F(MissingPlugin, IsToBeNamedWhereItIsInAFolderOfItsOwn) {
  install();
  const std::string cure = "export " + std::string(kPath) + "=" + plugins() + ":" + components();
  expect_cure(cure);
  setenv(kPath, (plugins() + "2:" + components()).c_str(), 1);
  expect_cure(cure);
}

TEST_F(MissingPlugin, CannotBeLoadedFromAFolderThatIsNamed) {
  install();
  for (const std::string& path : {plugins(), components() + ":" + plugins(), plugins() + ":" + components()}) {
    setenv(kPath, path.c_str(), 1);
    expect_cure(because_it_cannot_be_loaded(plugins()));
  }
}

TEST_F(MissingPlugin, IsAmongThePluginsOfOpenMpi) {
  choose(g_plugin_folder, "openmpi");
  install();
  expect_cure(because_it_cannot_be_loaded(components()));
  setenv(kPath, plugins().c_str(), 1);
  expect_cure("unset " + std::string(kPath) + ": the plugin is among Open MPI's own, in " + components());
}

}  // namespace
}  // namespace gpucoll::info
