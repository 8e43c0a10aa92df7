// Status, Result, parameters and sizes.
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <tuple>
#include <vector>

#include "../../resources.h"
#include "base/environment.h"
#include "base/equal_params.h"
#include "base/log.h"
#include "base/observe/causes.h"
#include "base/params.h"
#include "base/service_thread.h"
#include "base/shared_memory.h"
#include "base/status.h"
#include "base/system_limits.h"

using namespace gpucoll;

namespace {

Result<int> half(int x) {
  if (x % 2) return Status::error(Code::invalid_argument, "%d is odd", x);
  return x / 2;
}

Status quarter(int x, int* out) {
  GC_TRY_AS(int h, half(x));
  GC_TRY_AS(*out, half(h));
  return {};
}

TEST(QuietThread, TakesNoSignalsAndLeavesTheCallersMask) {
  sigset_t before, after, inside;
  ASSERT_EQ(pthread_sigmask(SIG_SETMASK, nullptr, &before), 0);
  service_thread([&] { pthread_sigmask(SIG_SETMASK, nullptr, &inside); }).join();
  ASSERT_EQ(pthread_sigmask(SIG_SETMASK, nullptr, &after), 0);
  for (int signal : {SIGALRM, SIGUSR1, SIGTERM, SIGCHLD, SIGPROF}) {
    EXPECT_EQ(sigismember(&inside, signal), 1) << signal;
    EXPECT_EQ(sigismember(&after, signal), sigismember(&before, signal)) << signal;
  }
  EXPECT_EQ(sigismember(&inside, SIGSEGV), 0);
}

}  // namespace

TEST(Status, IsOneWordAndKeepsItsSentence) {
  Status good;
  EXPECT_TRUE(good.ok());
  EXPECT_STREQ(good.what(), "");
  Status bad = Status::error(Code::remote, "rank %d is gone", 3);
  Status copy = bad;
  EXPECT_FALSE(copy);
  EXPECT_EQ(copy.code(), Code::remote);
  EXPECT_STREQ(copy.what(), "rank 3 is gone");
}

TEST(Status, PropagatesAndSetsOutputsOnlyOnSuccess) {
  int out = -1;
  EXPECT_TRUE(quarter(8, &out).ok());
  EXPECT_EQ(out, 2);
  Status status = quarter(6, &out);
  EXPECT_EQ(status.code(), Code::invalid_argument);
  EXPECT_STREQ(status.what(), "3 is odd");
  EXPECT_EQ(out, 2);
}

TEST(Guarded, TurnsExceptionsIntoCodes) {
  EXPECT_EQ(guarded("test", []() -> Status { throw std::bad_alloc(); }), Code::out_of_memory);
  EXPECT_EQ(guarded("test", []() -> Status { throw 7; }), Code::internal);
  EXPECT_EQ(guarded("test", []() -> Status { throw std::runtime_error("broken"); }), Code::internal);
  EXPECT_NE(std::string(last_error()).find("broken"), std::string::npos);
  EXPECT_EQ(guarded("test", []() -> Status { return {}; }), Code::ok);
}

TEST(Sizes, ParseAndPrintAlike) {
  EXPECT_EQ(*parse_size("64M"), 64 << 20);
  EXPECT_EQ(*parse_size("3KiB"), 3072);
  EXPECT_EQ(*parse_size("0"), 0);
  for (const char* bad : {"", "M", "-1", "64X", "64MM", "99999999999G", "1.5M"}) EXPECT_FALSE(parse_size(bad)) << bad;
  for (int64_t n : {0ll, 1ll, 1023ll, 1024ll, 65536ll, 65537ll, 1ll << 40})
    EXPECT_EQ(*parse_size(format_size(n).c_str()), n);
}

TEST(Parameters, RefuseWhatIsOutOfRangeAndSayWhy) {
  Status status = set_param("channels", "33", "mca");
  EXPECT_EQ(status.code(), Code::invalid_argument);
  EXPECT_STREQ(status.what(), "parameter channels: '33' is not auto or a whole number from 1 to 32");
  EXPECT_FALSE(set_param("device", "gpu", "mca"));
  EXPECT_FALSE(set_param("no_such_thing", "1", "mca"));
  EXPECT_FALSE(set_param("timeout", "soon", "mca"));
}

const ParamInfo& info_of(const std::string& name) {
  size_t count = 0;
  const ParamInfo* table = param_table(&count);
  return *std::find_if(table, table + count, [&](const ParamInfo& p) { return p.name == name; });
}

TEST(Parameters, TakeAutoAndOffAsWords) {
  const ParamInfo& info = info_of("one_shot_bytes");
  EXPECT_EQ(param_text(info), "auto") << "the default";
  EXPECT_EQ(param_or(params().one_shot_bytes, uint64_t{7}), 7u);
  ASSERT_TRUE(set_param("one_shot_bytes", "OFF", "mca").ok());
  EXPECT_EQ(params().one_shot_bytes, kOff);
  EXPECT_EQ(param_text(info), "off");
  EXPECT_EQ(param_or(params().one_shot_bytes, uint64_t{7}), 0u);
  ASSERT_TRUE(set_param("one_shot_bytes", "64K", "mca").ok());
  EXPECT_EQ(param_text(info), "64K");
  EXPECT_EQ(param_or(params().one_shot_bytes, uint64_t{7}), 65536u);
  ASSERT_TRUE(set_param("one_shot_bytes", "auto", "mca").ok());
  EXPECT_EQ(params().one_shot_bytes, kAuto);
  EXPECT_EQ(accepted_text(info), "auto, off, 2 to 8M");
}

TEST(Parameters, TakeTheWordsOnlyWhereTheyMeanSomething) {
  for (const auto& [name, off, automatic] : {std::tuple{"plan_cache", true, false},
                                             {"timeout", true, false},
                                             {"report_after", true, false},
                                             {"emu_blocks", true, false},
                                             {"channels", false, true},
                                             {"buffer_bytes", false, true},
                                             {"resident_us", true, true},
                                             {"staging_bytes", false, false},
                                             {"priority", false, false}}) {
    const std::string before = param_text(info_of(name));
    EXPECT_EQ(set_param(name, "off", "mca").ok(), off) << name;
    EXPECT_EQ(set_param(name, "auto", "mca").ok(), automatic) << name;
    EXPECT_TRUE(set_param(name, before.c_str(), "mca").ok()) << name << " " << before;
  }
}

// Every value that a parameter takes is one that it also shows.
TEST(Parameters, TakeTheirOwnDefaults) {
  size_t count = 0;
  const ParamInfo* table = param_table(&count);
  for (size_t i = 0; i < count; ++i) {
    if (!table[i].member) continue;
    const std::string text = param_text(table[i], table[i].default_value);
    EXPECT_TRUE(set_param(table[i].name, text.c_str(), "mca").ok()) << table[i].name << " " << text;
    EXPECT_EQ(params().*table[i].member, table[i].default_value) << table[i].name;
  }
}

// 0 and 1 have been the words for auto and off: whoever still says them is told what they are now.
TEST(Parameters, RefuseTheNumbersThatHaveMeantAutoAndOff) {
  for (const char* number : {"0", "1"})
    EXPECT_EQ(std::string(set_param("copy_engine_bytes", number, "mca").what()),
              "parameter copy_engine_bytes: '" + std::string(number) +
                  "' is not auto, off or a size (such as 65536 or 64M) from 2 to 1024G");
  EXPECT_STREQ(set_param("channels", "0", "mca").what(),
               "parameter channels: '0' is not auto or a whole number from 1 to 32");
  EXPECT_STREQ(set_param("plan_cache", "0", "mca").what(),
               "parameter plan_cache: '0' is not off or a whole number from 1 to 1024");
  EXPECT_STREQ(set_param("staging_bytes", "1.5M", "mca").what(),
               "parameter staging_bytes: '1.5M' is not a size (such as 65536 or 64M) from 64K to 4G");
  EXPECT_STREQ(set_param("shared_gpu", "auto", "mca").what(), "parameter shared_gpu: 'auto' is not true or false");
  EXPECT_STREQ(set_param("device", "gpu", "mca").what(), "parameter device: 'gpu' is none of auto|cuda|emu");
}

TEST(Parameters, SayTheNewNameOfThoseThatHaveAnother) {
  EXPECT_STREQ(set_param("kept_launches", "16", "mca").what(),
               "the parameter kept_launches is named plan_cache now: set GPUCOLL_PLAN_CACHE or --mca "
               "coll_gpucoll_plan_cache");
  size_t count = 0;
  param_table(&count);
  size_t old = 0;
  for (; const char* name = old_param_name(old); ++old) {
    const std::string said = set_param(name, "1", "mca").what();
    const size_t at = said.find("is named ") + std::strlen("is named ");
    EXPECT_STREQ(info_of(said.substr(at, said.find(' ', at) - at)).name,
                 said.substr(at, said.find(' ', at) - at).c_str());
  }
  EXPECT_EQ(old, 7u);
  setenv("GPUCOLL_TEAMS", "1", 1);
  const Status status = read_params_from_environment();
  unsetenv("GPUCOLL_TEAMS");
  EXPECT_EQ(status.code(), Code::invalid_argument);
  EXPECT_STREQ(status.what(),
               "environment variable GPUCOLL_TEAMS: the parameter teams is named shared_gpu now: set "
               "GPUCOLL_SHARED_GPU or --mca coll_gpucoll_shared_gpu");
  EXPECT_TRUE(read_params_from_environment().ok());
}

TEST(Parameters, TakeTheEnvironmentAndRememberTheSource) {
  setenv("GPUCOLL_TIMEOUT", "77", 1);
  setenv("GPUCOLL_BUFFER_BYTES", "1M", 1);
  ASSERT_TRUE(read_params_from_environment().ok());
  EXPECT_EQ(params().timeout, 77);
  EXPECT_EQ(params().buffer_bytes, 1 << 20);
  ASSERT_TRUE(set_param("timeout", "78", "mca").ok());
  size_t count = 0;
  const ParamInfo* table = param_table(&count);
  for (size_t i = 0; i < count; ++i) {
    if (std::string(table[i].name) == "timeout") {
      EXPECT_STREQ(param_source(table[i]), "mca");
    }
    if (std::string(table[i].name) == "buffer_bytes") {
      EXPECT_EQ(param_text(table[i]), "1M");
    }
  }
  setenv("GPUCOLL_TIMEOUT", "never", 1);
  Status status = read_params_from_environment();
  EXPECT_NE(std::string(status.what()).find("GPUCOLL_TIMEOUT"), std::string::npos);
  EXPECT_EQ(params().timeout, 78);
  unsetenv("GPUCOLL_TIMEOUT");
  unsetenv("GPUCOLL_BUFFER_BYTES");
}

TEST(Parameters, HaveLevelsAndFewAreForUsers) {
  size_t count = 0, users = 0;
  const ParamInfo* table = param_table(&count);
  for (size_t i = 0; i < count; ++i) {
    const std::string name = table[i].name;
    const bool played = name.starts_with("emu_") || name == "host_id" || name == "verbs_library";
    EXPECT_EQ(played, table[i].level == ParamLevel::developer) << table[i].name;
    users += table[i].level == ParamLevel::user;
  }
  EXPECT_EQ(users, 23u);
  EXPECT_STREQ(level_name(ParamLevel::user), "user");
  EXPECT_STREQ(level_name(ParamLevel::tuning), "tuning");
  EXPECT_STREQ(level_name(ParamLevel::developer), "developer");
}

TEST(Parameters, TakeAnyTextWhereOneIsWanted) {
  EXPECT_EQ(params().tuning_file, "");
  ASSERT_TRUE(set_param("tuning_file", "/some/where, 1", "mca").ok());
  EXPECT_EQ(params().tuning_file, "/some/where, 1");
  size_t count = 0;
  const ParamInfo* table = param_table(&count);
  const ParamInfo* info =
      std::find_if(table, table + count, [](auto& p) { return !std::strcmp(p.name, "tuning_file"); });
  ASSERT_NE(info, table + count);
  EXPECT_EQ(info->type, ParamType::text);
  EXPECT_EQ(param_text(*info), "/some/where, 1");
  EXPECT_STREQ(param_source(*info), "mca");
  ASSERT_TRUE(set_param("tuning_file", "", "mca").ok());
}

TEST(Parameters, WarnOnceOfVariablesThatNameNone) {
  setenv("GPUCOLL_CHANELS", "4", 1);
  setenv("GPUCOLL_CHANNELS", "4", 1);
  setenv("GPUCOLL_TEST_ROUNDS", "4", 1);
  setenv("MY_GPUCOLL_CHANELS", "4", 1);
  setenv("GPUCOLL_TEAMS", "1", 1);  // an error says more of it
  static std::string lines;
  log::set_sink([](log::Level, const char* line) { lines += std::strstr(line, "GPUCOLL"); });
  warn_of_unknown_variables();
  warn_of_unknown_variables();
  log::set_sink(nullptr);
  for (const char* name :
       {"GPUCOLL_CHANELS", "GPUCOLL_CHANNELS", "GPUCOLL_TEST_ROUNDS", "MY_GPUCOLL_CHANELS", "GPUCOLL_TEAMS"})
    unsetenv(name);
  EXPECT_EQ(lines, "GPUCOLL_CHANELS is ignored: there is no such parameter; gpucoll-info lists them");
}

// Gathers what is logged, one text for each line: the name of its cause, or the line's last word.
class GatherLines {
 public:
  GatherLines() {
    lines().clear();
    log::set_sink([](log::Level, const char* line) {
      const char* const last = std::strrchr(line, '[');
      lines().emplace_back(last && std::strstr(last, "told once") ? last : std::strrchr(line, ' '));
    });
    log::set_verbosity(1);
  }
  ~GatherLines() {
    log::set_verbosity(0);
    log::set_sink(nullptr);
  }
  static std::vector<std::string>& lines() {
    static std::vector<std::string> all;
    return all;
  }
};

TEST(Causes, AreToldOnceAtEachLevel) {
  const GatherLines gather;
  CauseLog causes("a communicator");
  for (int i = 0; i < 2; ++i) causes.tell(Cause::no_link, "a connection");
  EXPECT_EQ(gather.lines().size(), 1u);
  causes.tell(Cause::no_mesh, "a call");
  EXPECT_EQ(gather.lines().size(), 2u);
  for (int i = 0; i < 2; ++i) causes.tell(Cause::no_link, "a connection", "", log::Level::warn);
  ASSERT_EQ(gather.lines().size(), 3u) << "a line hides the warning";
  EXPECT_EQ(gather.lines()[2], "[no_link, told once]");
  for (int i = 0; i < 2; ++i) causes.tell(Cause::no_rdma, "a connection", "", log::Level::warn);
  causes.tell(Cause::no_rdma, "a connection");
  EXPECT_EQ(gather.lines().size(), 4u) << "the warning has said it";
}

TEST(Log, WritesLaterWhatAThreadWritesUnderALock) {
  const GatherLines gather;
  {
    const log::Later outer;
    log::write(log::Level::info, "the first");
    {
      const log::Later inner;
      log::write(log::Level::info, "the second");
    }
    EXPECT_TRUE(gather.lines().empty());
  }
  log::write(log::Level::info, "the third");
  EXPECT_EQ(gather.lines(), (std::vector<std::string>{" first", " second", " third"}));
}

TEST(Parameters, SayWhichThatMustBeEqualDiffers) {
  ASSERT_TRUE(set_param("buffer_bytes", "1M", "mca").ok());
  const EqualParams before = EqualParams::of_this_process();
  ASSERT_TRUE(set_param("verbose", "1", "mca").ok());
  EXPECT_TRUE(EqualParams::of_this_process() == before);
  ASSERT_TRUE(set_param("buffer_bytes", "1025K", "mca").ok());
  const EqualParams now = EqualParams::of_this_process();
  EXPECT_FALSE(now == before);
  EXPECT_EQ(now.difference_from(before, 2),
            "has the parameter buffer_bytes 1025K, but rank 2 has 1M: set it equal on all ranks, e.g. with mpirun -x "
            "GPUCOLL_BUFFER_BYTES=... or --mca coll_gpucoll_buffer_bytes ...");
  ASSERT_TRUE(set_param("buffer_bytes", "auto", "mca").ok());
  ASSERT_TRUE(set_param("verbose", "0", "mca").ok());
}

TEST(Guarded, SaysWhatToRaiseWhereNoThreadStarts) {
  const Status status = contained([]() -> Status { throw std::system_error(EAGAIN, std::generic_category()); });
  EXPECT_EQ(status.code(), Code::system);
  EXPECT_NE(std::string(status.what()).find("no thread can be started"), std::string::npos) << status.what();
  EXPECT_NE(std::string(status.what()).find("raise `ulimit -u`"), std::string::npos) << status.what();
}

TEST(SharedMemory, LivesAsLongAsSomebodyHasIt) {
  SharedMemory other;
  {
    auto memory = SharedMemory::create(100, "test");
    ASSERT_TRUE(memory.ok());
    static_cast<char*>(memory->data())[99] = 'y';
    auto opened = SharedMemory::open(memory->name());
    ASSERT_TRUE(opened.ok());
    other = *std::move(opened);
  }
  EXPECT_EQ(static_cast<char*>(other.data())[99], 'y');
}

TEST(SharedMemory, OpensWhatLivesAndSaysWhatIsGone) {
  SharedMemoryName name;
  {
    auto memory = SharedMemory::create(10000, "test");
    ASSERT_TRUE(memory.ok());
    name = memory->name();
    static_cast<char*>(memory->data())[9999] = 'x';
    auto other = SharedMemory::open(name);
    ASSERT_TRUE(other.ok());
    EXPECT_EQ(static_cast<char*>(other->data())[9999], 'x');
    EXPECT_EQ(other->data(), memory->data()) << "ThreadSanitizer and CUDA want one address in a process";
    EXPECT_EQ(other->bytes(), 10000u);
  }
  auto gone = SharedMemory::open(name);
  ASSERT_FALSE(gone);
  EXPECT_EQ(gone.status().code(), Code::remote);
}

TEST(SharedMemory, IsForItsUserOnly) {
  auto memory = SharedMemory::create(100, "test");
  ASSERT_TRUE(memory.ok());
  struct stat info = {};
  ASSERT_EQ(stat(("/proc/self/fd/" + std::to_string(memory->name().fd)).c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
}

namespace {

using gpucoll_test::limit;
using gpucoll_test::said_in_child;

// A process that lives until this one lets it go.
class Other {
 public:
  explicit Other(const std::function<void()>& begin) {
    int up[2];
    if (pipe(up) || pipe(down_)) return;
    pid = fork();
    if (pid == 0) {
      close(down_[1]);
      begin();
      auto memory = SharedMemory::create(100, "test");
      const SharedMemoryName mine = memory ? memory->name() : SharedMemoryName();
      char end;
      _exit(write(up[1], &mine, sizeof mine) != sizeof mine || read(down_[0], &end, 1) != 0);
    }
    EXPECT_EQ(read(up[0], &name, sizeof name), static_cast<ssize_t>(sizeof name));
    close(up[0]);
    close(up[1]);
  }
  ~Other() {
    close(down_[1]);
    close(down_[0]);
    waitpid(pid, nullptr, 0);
  }
  pid_t pid = -1;
  SharedMemoryName name;

 private:
  int down_[2];
};

// Root may look into any process.
void become_nobody() { gpucoll_test::become(65534); }

std::string opening(const SharedMemoryName& name) {
  auto memory = SharedMemory::open(name);
  return memory ? "opened" : memory.status().what();
}

// Linux says how many descriptors there is room for without growing the table.
TEST(SystemLimits, MakeRoomForDescriptors) {
  widen_descriptor_table();
  std::ifstream status("/proc/self/status");
  int room = 0;
  for (std::string line; std::getline(status, line);) std::sscanf(line.c_str(), "FDSize: %d", &room);
  EXPECT_GE(room, 1024);
}

}  // namespace

TEST(SharedMemory, SaysWhichLimitToRaise) {
  EXPECT_NE(said_in_child([] {
              limit(RLIMIT_FSIZE, 1 << 20);
              auto memory = SharedMemory::create(2 << 20, "test");
              return std::string(memory ? "created" : memory.status().what());
            }).find("raise `ulimit -f`"),
            std::string::npos);
  EXPECT_NE(said_in_child([] {
              limit(RLIMIT_NOFILE, 3);
              auto memory = SharedMemory::create(100, "test");
              return std::string(memory ? "created" : memory.status().what());
            }).find("raise `ulimit -n`"),
            std::string::npos);
  const Other other([] {});
  const std::string said = said_in_child([&] {
    limit(RLIMIT_NOFILE, 3);
    return opening(other.name);
  });
  EXPECT_NE(said.find("raise `ulimit -n`"), std::string::npos) << said;
  EXPECT_EQ(said.find("ended"), std::string::npos) << said;
}

// As containers of one user's, one for each rank.
TEST(SharedMemory, SaysThatAnotherProcessMayBeInAnotherUserNamespace) {
  const auto leave = [] {
    if (unshare(CLONE_NEWUSER) != 0) _exit(1);
  };
  if (said_in_child([] { return std::string(unshare(CLONE_NEWUSER) == 0 ? "left" : ""); }) != "left")
    GTEST_SKIP() << "no user namespace can be made";
  const Other other(leave);
  const std::string said = said_in_child([&] {
    leave();
    return opening(other.name);
  });
  EXPECT_NE(said.find("in another user namespace"), std::string::npos) << said;
  EXPECT_NE(said.find("--sharens"), std::string::npos) << said;
}

TEST(SharedMemory, SaysWhyAnotherProcessIsNotToBeLookedInto) {
  const Other open(become_nobody), shut([] {
    become_nobody();
    prctl(PR_SET_DUMPABLE, 0);
  });
  const auto from_nobody = [](const SharedMemoryName& name) {
    return said_in_child([&] {
      become_nobody();
      return opening(name);
    });
  };
  EXPECT_EQ(from_nobody(open.name), "opened");
  const std::string said = from_nobody(shut.name);
  EXPECT_NE(said.find("not dumpable"), std::string::npos) << said;
  EXPECT_NE(said.find("prctl(PR_SET_DUMPABLE, 1)"), std::string::npos) << said;
  if (geteuid() != 0) return;
  const Other root([] {});
  EXPECT_NE(from_nobody(root.name).find("run all ranks of a node as one user"), std::string::npos);
}
