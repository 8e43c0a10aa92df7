#include "net/verbs/library.h"

#include <dlfcn.h>

#include <memory>
#include <mutex>
#include <string>

#include "base/params.h"

namespace gpucoll::net {
namespace {

// Never closed: its threads and what it has opened may be in use while the process's statics are torn down.
Result<std::unique_ptr<VerbsLibrary>> load() {
  const std::string name = params().verbs_library.empty() ? "libibverbs.so.1" : params().verbs_library;
  void* const library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library)
    return Status::error(Code::unsupported, "there is no verbs library here (%s): install rdma-core's libibverbs1",
                         dlerror());
  auto table = std::make_unique<VerbsLibrary>();
  const char* missing = nullptr;
  const auto find = [&](auto* function, const char* symbol) {
    *function = reinterpret_cast<std::remove_reference_t<decltype(*function)>>(dlsym(library, symbol));
    if (!*function) missing = symbol;
  };
  find(&table->fork_init, "ibv_fork_init");
  find(&table->get_device_list, "ibv_get_device_list");
  find(&table->free_device_list, "ibv_free_device_list");
  find(&table->get_device_name, "ibv_get_device_name");
  find(&table->open_device, "ibv_open_device");
  find(&table->close_device, "ibv_close_device");
  find(&table->query_device, "ibv_query_device");
  find(&table->query_port, "ibv_query_port");
  find(&table->query_gid_ex, "_ibv_query_gid_ex");
  find(&table->alloc_pd, "ibv_alloc_pd");
  find(&table->dealloc_pd, "ibv_dealloc_pd");
  find(&table->reg_mr, "ibv_reg_mr");
  find(&table->dereg_mr, "ibv_dereg_mr");
  find(&table->create_cq, "ibv_create_cq");
  find(&table->destroy_cq, "ibv_destroy_cq");
  find(&table->create_qp, "ibv_create_qp");
  find(&table->modify_qp, "ibv_modify_qp");
  find(&table->destroy_qp, "ibv_destroy_qp");
  find(&table->wc_status_str, "ibv_wc_status_str");
  if (missing)
    return Status::error(Code::unsupported, "%s has no %s: install rdma-core 32 or newer", name.c_str(), missing);
  // Before Linux 5.12 a program that forks would take the queues' pages from the device. Fails where another library
  // has begun with the device, which does no harm.
  table->fork_init();
  return table;
}

}  // namespace

Result<const VerbsLibrary*> VerbsLibrary::instance() {
  static std::mutex mutex;
  static const VerbsLibrary* library = nullptr;
  std::lock_guard lock(mutex);
  if (!library) {
    GC_TRY_AS(auto loaded, load());
    library = loaded.release();
  }
  return library;
}

}  // namespace gpucoll::net
