#include "base/observe/nvtx.h"

#include <cstdlib>

#if HAVE_NVTX
#include <nvtx3/nvToolsExt.h>
#endif

namespace gpucoll::nvtx {

#if HAVE_NVTX
namespace {

nvtxDomainHandle_t the_domain = nullptr;  // is never destroyed: threads may end ranges until the process is gone

nvtxEventAttributes_t attributes(uint32_t category, const char* text, uint64_t payload) noexcept {
  nvtxEventAttributes_t made = {};
  made.version = NVTX_VERSION;
  made.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  made.category = category;
  made.payloadType = NVTX_PAYLOAD_TYPE_UNSIGNED_INT64;
  made.payload.ullValue = payload;
  made.messageType = NVTX_MESSAGE_TYPE_ASCII;
  made.message.ascii = text;
  return made;
}

}  // namespace

bool open() noexcept {
  const char* const library = std::getenv("NVTX_INJECTION64_PATH");
  if (!library || !*library) return false;
  the_domain = nvtxDomainCreateA("gpucoll");
  return the_domain != nullptr;
}

void name_category(uint32_t category, const char* name) noexcept {
  nvtxDomainNameCategoryA(the_domain, category, name);
}

void push(uint32_t category, const char* text, uint64_t payload) noexcept {
  const nvtxEventAttributes_t event = attributes(category, text, payload);
  nvtxDomainRangePushEx(the_domain, &event);
}

void pop() noexcept { nvtxDomainRangePop(the_domain); }

uint64_t start(uint32_t category, const char* text, uint64_t payload) noexcept {
  const nvtxEventAttributes_t event = attributes(category, text, payload);
  return nvtxDomainRangeStartEx(the_domain, &event);
}

void end(uint64_t range) noexcept { nvtxDomainRangeEnd(the_domain, range); }

void mark(uint32_t category, const char* text) noexcept {
  const nvtxEventAttributes_t event = attributes(category, text, 0);
  nvtxDomainMarkEx(the_domain, &event);
}
#else
bool open() noexcept { return false; }
void name_category(uint32_t, const char*) noexcept {}
void push(uint32_t, const char*, uint64_t) noexcept {}
void pop() noexcept {}
uint64_t start(uint32_t, const char*, uint64_t) noexcept { return 0; }
void end(uint64_t) noexcept {}
void mark(uint32_t, const char*) noexcept {}
#endif

}  // namespace gpucoll::nvtx
