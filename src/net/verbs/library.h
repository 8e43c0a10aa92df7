// The functions of libibverbs, which is opened at run time: gpucoll runs where it is missing.
//
// Those that verbs.h has as inline functions over the context (ibv_post_send, ibv_post_recv, ibv_poll_cq) need no
// library and are called as ever.
// Thread safety: any function from any thread.
#pragma once
#include <infiniband/verbs.h>

#include "base/status.h"

namespace gpucoll::net {

struct VerbsLibrary {
  // Returns the library that the parameter verbs_library names. Errors: unsupported.
  static Result<const VerbsLibrary*> instance();

  int (*fork_init)();
  ibv_device** (*get_device_list)(int* count);
  void (*free_device_list)(ibv_device** list);
  const char* (*get_device_name)(ibv_device* device);
  ibv_context* (*open_device)(ibv_device* device);
  int (*close_device)(ibv_context* context);
  int (*query_device)(ibv_context* context, ibv_device_attr* attributes);
  // Fills the part of the attributes that its version knows.
  int (*query_port)(ibv_context* context, uint8_t port, ibv_port_attr* attributes);
  int (*query_gid_ex)(ibv_context* context, uint32_t port, uint32_t index, ibv_gid_entry* entry, uint32_t flags,
                      size_t entry_bytes);
  ibv_pd* (*alloc_pd)(ibv_context* context);
  int (*dealloc_pd)(ibv_pd* domain);
  ibv_mr* (*reg_mr)(ibv_pd* domain, void* address, size_t bytes, int access);
  int (*dereg_mr)(ibv_mr* region);
  ibv_cq* (*create_cq)(ibv_context* context, int entries, void* user, ibv_comp_channel* channel, int vector);
  int (*destroy_cq)(ibv_cq* queue);
  ibv_qp* (*create_qp)(ibv_pd* domain, ibv_qp_init_attr* attributes);
  int (*modify_qp)(ibv_qp* pair, ibv_qp_attr* attributes, int mask);
  int (*destroy_qp)(ibv_qp* pair);
  const char* (*wc_status_str)(ibv_wc_status status);
};

}  // namespace gpucoll::net
