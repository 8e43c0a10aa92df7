/* A tool as NVTX loads it (NVTX_INJECTION64_PATH): writes what the domain "gpucoll" shows into the file that
 * GC_NVTX_LOG and the process's id name, a line for each event, with the thread before it: push PAYLOAD TEXT | pop |
 * start RANGE PAYLOAD TEXT | end RANGE | mark TEXT | category NUMBER TEXT
 */
#define _GNU_SOURCE
#include <nvtx3/nvToolsExt.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static FILE *events;
static int own_domain; /* its address is the handle */
static atomic_ullong ranges;

#define TELL(...)                          \
  do {                                     \
    if (domain != handle()) break;         \
    flockfile(events);                     \
    fprintf(events, "%d ", (int)gettid()); \
    fprintf(events, __VA_ARGS__);          \
    fputc('\n', events);                   \
    fflush(events);                        \
    funlockfile(events);                   \
  } while (0)

static nvtxDomainHandle_t handle(void) { return (nvtxDomainHandle_t)(void *)&own_domain; }

static nvtxDomainHandle_t NVTX_API create(const char *name) { return strcmp(name, "gpucoll") ? NULL : handle(); }

static void NVTX_API name_category(nvtxDomainHandle_t domain, uint32_t number, const char *name) {
  TELL("category %u %s", number, name);
}

static int NVTX_API push(nvtxDomainHandle_t domain, const nvtxEventAttributes_t *event) {
  TELL("push %llu %s", (unsigned long long)event->payload.ullValue, event->message.ascii);
  return 0;
}

static int NVTX_API pop(nvtxDomainHandle_t domain) {
  TELL("pop");
  return 0;
}

static nvtxRangeId_t NVTX_API start(nvtxDomainHandle_t domain, const nvtxEventAttributes_t *event) {
  const unsigned long long range = atomic_fetch_add(&ranges, 1) + 1;
  TELL("start %llu %llu %s", range, (unsigned long long)event->payload.ullValue, event->message.ascii);
  return range;
}

static void NVTX_API end(nvtxDomainHandle_t domain, nvtxRangeId_t range) {
  TELL("end %llu", (unsigned long long)range);
}

static void NVTX_API mark(nvtxDomainHandle_t domain, const nvtxEventAttributes_t *event) {
  TELL("mark %s", event->message.ascii);
}

__attribute__((visibility("default"))) int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table) {
  char path[4096];
  const char *const name = getenv("GC_NVTX_LOG");
  const NvtxExportTableCallbacks *const callbacks = (const NvtxExportTableCallbacks *)get_table(NVTX_ETID_CALLBACKS);
  NvtxFunctionTable table = NULL;
  unsigned int size = 0;
  if (name == NULL || !callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size)) return 0;
  snprintf(path, sizeof path, "%s.%d", name, (int)getpid());
  events = fopen(path, "w");
  if (events == NULL || size <= NVTX_CBID_CORE2_DomainCreateA) return 0;
  *table[NVTX_CBID_CORE2_DomainCreateA] = (NvtxFunctionPointer)create;
  *table[NVTX_CBID_CORE2_DomainNameCategoryA] = (NvtxFunctionPointer)name_category;
  *table[NVTX_CBID_CORE2_DomainRangePushEx] = (NvtxFunctionPointer)push;
  *table[NVTX_CBID_CORE2_DomainRangePop] = (NvtxFunctionPointer)pop;
  *table[NVTX_CBID_CORE2_DomainRangeStartEx] = (NvtxFunctionPointer)start;
  *table[NVTX_CBID_CORE2_DomainRangeEnd] = (NvtxFunctionPointer)end;
  *table[NVTX_CBID_CORE2_DomainMarkEx] = (NvtxFunctionPointer)mark;
  return 1;
}
