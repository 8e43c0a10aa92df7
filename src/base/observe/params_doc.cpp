// Prints docs/PARAMETERS.md from the table of parameters, or (argument `causes`) docs/causes.md from that of causes, so
// that the documents cannot disagree with the code.
#include <cstdio>
#include <cstring>
#include <string>

#include "base/environment.h"
#include "base/observe/causes.h"
#include "base/params.h"

namespace gpucoll {
namespace {

std::string default_text(const ParamInfo& info) {
  return info.type == ParamType::text ? "empty" : param_text(info, info.default_value);
}

void print_group(ParamLevel level) {
  std::printf(
      "\n## Level %s\n\n"
      "| parameter | environment | default | allowed | scope | meaning |\n"
      "|---|---|---|---|---|---|\n",
      level_name(level));
  size_t count = 0;
  const ParamInfo* table = param_table(&count);
  for (const ParamInfo* info = table; info != table + count; ++info)
    if (info->level == level)
      std::printf("| `%s` | `%s` | %s | %s | %s | %s |\n", info->name, variable_of(*info).c_str(),
                  default_text(*info).c_str(), accepted_text(*info).c_str(),
                  info->scope == ParamScope::equal ? "equal" : "local", info->help);
}

void print_document() {
  std::puts(
      "# Parameters\n\n"
      "Made from `src/base/params.def` by `make update-docs`; `make check` fails where the two differ.\n\n"
      "A parameter `x` is set by `mpirun --mca coll_gpucoll_x VALUE` or by the environment variable `GPUCOLL_X`;\n"
      "the first wins. Sizes take K, M and G (powers of 1024). Where it is allowed, `auto` lets gpucoll choose, and "
      "`off`\n"
      "turns off what the number would bound. Parameters of scope *equal* must have the same value on all ranks of a\n"
      "communicator, which is checked; those of scope *local* are each rank's own. `gpucoll-info` shows the values in\n"
      "force and where they come from.\n\n"
      "Each parameter has a level, which `gpucoll-info` shows: *user*, *tuning* (what decides which way is taken, and\n"
      "how) or *developer* (the emulated device). `ompi_info --param coll gpucoll --level N` lists those of users "
      "from\n"
      "N = 2 on, those of tuning from 5 on, and those of developers from 8 on.");
  for (ParamLevel level : {ParamLevel::user, ParamLevel::tuning, ParamLevel::developer}) print_group(level);
}

void print_causes() {
  std::puts(
      "# Why a call is slow\n\n"
      "Made from `src/base/observe/causes.def` by `make update-docs`; `make check` fails where the two differ.\n\n"
      "Where a call, a message or a connection does not go the fast way, each rank says so in a line, once for each\n"
      "communicator and cause, at `verbose` 1 (`mpirun --mca coll_gpucoll_verbose 1`, or `GPUCOLL_VERBOSE=1`):\n\n"
      "    MPI_Allreduce on MPI_COMM_WORLD goes through the host: there is no kernel for its type or operation\n"
      "    (its operation is none of gpucoll's); use predefined ones, and no long double [user_operation, told "
      "once]\n\n"
      "The name at its end is the cause's. The performance variable of MPI_T that ends in `slow_NAME` counts how "
      "often\n"
      "it was so, and a trace ([formats/trace.md](formats/trace.md)) says when. What goes through the host goes\n"
      "through it on all ranks: where a line says `other_rank`, the reason is in a line of another rank, or that rank\n"
      "has host memory. The fast way counts and records nothing of this.\n\n"
      "| cause | what it does instead | why | what to do |\n"
      "|---|---|---|---|");
  for (size_t i = 0; i < static_cast<size_t>(Cause::none); ++i) {
    const CauseInfo& info = cause_info(static_cast<Cause>(i));
    std::printf("| `%s` | %s | %s | %s |\n", info.name, info.instead, info.why, info.advice);
  }
}

}  // namespace
}  // namespace gpucoll

int main(int argc, char** argv) {
  if (argc > 1 && !std::strcmp(argv[1], "causes"))
    gpucoll::print_causes();
  else
    gpucoll::print_document();
  return std::fflush(stdout) == 0 ? 0 : 1;
}
