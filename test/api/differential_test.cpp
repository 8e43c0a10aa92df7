// Random groups of mixed calls beside a plain reference.
//
// GPUCOLL_TEST_SEED is the first seed, GPUCOLL_TEST_ROUNDS how many cases each test draws, GPUCOLL_TEST_BYTES the most
// bytes of a part, GPUCOLL_TEST_SHRINK how many seconds go into making a failing case smaller. A case that goes wrong
// is printed as small as it can be made; its seed alone brings it back.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>

#include "case_run.h"
#include "gpucoll/gpucoll.h"

using namespace gpucoll_test;

namespace {

uint64_t number_from(const char* variable, uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text ? std::strtoull(text, nullptr, 0) : otherwise;
}

// As many ranks as there are devices on GPUs; told by a child, since nothing of gpucoll may be used before a fork.
int most_ranks() {
  constexpr int kMost = 8;
  const pid_t child = fork();
  if (child == 0) {
    const char* kind = "";
    int count = 0;
    if (gpucollDeviceKind(&kind) != gpucollSuccess || gpucollDeviceCount(&count) != gpucollSuccess) _exit(0);
    _exit(std::strcmp(kind, "cuda") || count > kMost ? kMost : count);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 0;
}

void run_cases(Drive drive) {
  const int kSecondsToShrink = static_cast<int>(number_from("GPUCOLL_TEST_SHRINK", 100));
  static const int most = most_ranks();
  ASSERT_GE(most, 1) << "no devices";
  if (most < 2) GTEST_SKIP() << "one GPU is no company";
  const Limits limits = {most, number_from("GPUCOLL_TEST_BYTES", 4 << 20)};
  const uint64_t first = number_from("GPUCOLL_TEST_SEED", 1), rounds = number_from("GPUCOLL_TEST_ROUNDS", 30);
  for (uint64_t seed = first; seed < first + rounds; ++seed) {
    const Case c = draw_case(seed, drive, limits);
    const std::string failure = run_case(c);
    if (failure.empty()) continue;
    const Case small = shrink(c, kSecondsToShrink);
    FAIL() << failure << "\nAgain: GPUCOLL_TEST_SEED=" << seed << " GPUCOLL_TEST_ROUNDS=1\n"
           << "The smallest case found that fails, " << run_case(small) << "\n"
           << text(small);
  }
}

}  // namespace

// First: nothing of gpucoll has been used in this process yet.
TEST(Differential, AProcessForEachRank) { run_cases(Drive::processes); }
TEST(Differential, AThreadForEachRank) { run_cases(Drive::threads); }
TEST(Differential, OneThreadForAllRanks) { run_cases(Drive::one_thread); }
