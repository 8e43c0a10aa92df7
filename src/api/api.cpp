// The C API: version, errors, groups, types. Each body is one call of guarded().
#include <cstdio>

#include "api/handles.h"
#include "core/comm/group.h"
#include "task/types.h"

using namespace gpucoll;
using namespace gpucoll::coll;

extern "C" {

gpucollResult_t gpucollGetVersion(int* version) {
  return to_c(guarded("gpucollGetVersion", [&]() -> Status {
    if (!version) return Status::error(Code::invalid_argument, "version is NULL");
    *version = GPUCOLL_VERSION_CODE;
    return {};
  }));
}

const char* gpucollGetErrorString(gpucollResult_t result) { return describe(static_cast<Code>(result)); }

const char* gpucollGetLastError(gpucollComm_t comm) {
  thread_local char text[1024];
  auto communicator = checked(comm);
  try {
    if (const auto failure = failure_of_making(comm); !failure) {
      std::snprintf(text, sizeof text, "%s", failure.what());
      return text;
    }
    if (!communicator || !(*communicator)->fault().raised()) return last_error();
    std::snprintf(text, sizeof text, "%s", (*communicator)->fault().status().what());
  } catch (...) {
    return last_error();
  }
  return text;
}

gpucollResult_t gpucollGroupStart(void) {
  return to_c(guarded("gpucollGroupStart", []() -> Status {
    core::group_start();
    return {};
  }));
}

gpucollResult_t gpucollGroupEnd(void) {
  return to_c(guarded("gpucollGroupEnd", [] { return core::group_end(); }));
}

gpucollResult_t gpucollGroupSimulateEnd(float* microseconds) {
  return to_c(guarded("gpucollGroupSimulateEnd", [&]() -> Status {
    auto predicted = core::group_simulate_end();  // the group ends whatever the argument is
    if (!microseconds) return Status::error(Code::invalid_argument, "microseconds is NULL");
    if (!predicted) return std::move(predicted).status();
    *microseconds = static_cast<float>(*predicted);
    return {};
  }));
}

size_t gpucollTypeSize(gpucollDataType_t datatype) { return type_size(datatype); }

}  // extern "C"
