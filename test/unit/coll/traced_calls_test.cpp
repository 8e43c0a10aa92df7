// The functions that record the component's calls: what they write, and that a forked child's write nothing.
#include "coll/traced_calls.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <string>

#include "base/observe/trace.h"
#include "base/params.h"

namespace gpucoll::coll {
namespace {

constexpr int kAnswer = 7;

// The table of an engine that only answers.
gc_abi answering() {
  gc_abi table = {};
  table.comm_new = [](const gc_comm_description*) -> gc_comm* { return nullptr; };
  table.run = [](gc_comm*, const gc_call*) { return kAnswer; };
  table.start = [](gc_comm*, uint32_t, const gc_call*, gc_pending**) { return kAnswer; };
  table.host_begun = [](gc_pending*) {};
  table.end = [](gc_pending*) { return kAnswer; };
  table.restart = [](gc_pending*) {};
  table.copy = [](void*, const void*, size_t) { return kAnswer; };
  table.copy_strided = [](void*, void*, const gc_runs*, size_t, int) { return kAnswer; };
  table.copy_packed = [](const gc_type_map*, void*, void*, size_t, int) { return kAnswer; };
  return table;
}

bool copies(const gc_abi& table) {
  return table.copy(nullptr, nullptr, 8) == kAnswer && table.copy_strided(nullptr, nullptr, nullptr, 0, 1) == kAnswer &&
         table.copy_packed(nullptr, nullptr, nullptr, 8, 1) == kAnswer;
}

// Looks at none of what it passes on, as that may be as another thread left it in the middle of a change.
bool calls(const gc_abi& table) {
  gc_pending* pending = nullptr;
  table.host_begun(nullptr);
  table.restart(nullptr);
  return !table.comm_new(nullptr) && table.run(nullptr, nullptr) == kAnswer &&
         table.start(nullptr, 0, nullptr, &pending) == kAnswer && table.end(nullptr) == kAnswer && copies(table);
}

uint64_t recorded_in(const std::string& path) {
  trace::Header header = {};
  std::ifstream(path, std::ios::binary).read(reinterpret_cast<char*>(&header), sizeof header);
  return header.recorded;
}

TEST(TracedCalls, OfAForkedChildAreNotRecorded) {
  char directory[] = "/tmp/gpucoll-trace-XXXXXX";
  ASSERT_NE(mkdtemp(directory), nullptr);
  char host[64] = "?";
  gethostname(host, sizeof host - 1);
  const std::string name = directory + std::string("/trace"), path = name + "." + host + "." + std::to_string(getpid());
  set_param("trace", name.c_str(), "test").ignore();
  trace::start();
  ASSERT_TRUE(trace::on());
  gc_abi table = answering();
  trace_calls(&table);
  EXPECT_TRUE(copies(table));
  EXPECT_EQ(recorded_in(path), 3u);
  const pid_t child = fork();
  if (child == 0) _exit(calls(table) ? 0 : 1);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(recorded_in(path), 3u) << "a forked child records into its parent's file";
  unlink(path.c_str());
  rmdir(directory);
}

}  // namespace
}  // namespace gpucoll::coll
