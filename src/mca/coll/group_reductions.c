/* Reductions on intercommunicators (docs/adr/0024). Of a blocking one, each group reduces for itself, as a collective
 * of its own communicator, which runs as any other; then what one group has goes to the other, as messages. Of others,
 * each rank gets the operands of the other group and reduces them. */
#include "mca/coll/engine.h"

/* ---- within the group ---- */

static int reduce_part(const gcm_partial *p, ptrdiff_t offset, int count, ompi_communicator_t *own) {
  const mca_coll_base_comm_coll_t *coll = own->c_coll;
  const void *const send = gcm_address(p->send, offset);
  void *const result = gcm_address(p->memory, offset);
  if (p->to_first) return coll->coll_reduce(send, result, count, p->type, p->op, 0, own, coll->coll_reduce_module);
  return coll->coll_allreduce(send, result, count, p->type, p->op, own, coll->coll_allreduce_module);
}

/* The counts of MPI_Reduce_scatter may sum to more than one call takes. */
static int reduce_within(void *ctx) {
  const gcm_module *module = ctx;
  const gcm_partial *p = &module->partial;
  const size_t most = (size_t)1 << 30;
  for (size_t done = 0; done < p->count; done += most) {
    const size_t left = p->count - done;
    const int count = (int)(left < most ? left : most);
    const int rc = reduce_part(p, (ptrdiff_t)done * gcm_extent(p->type), count, module->communicator->c_local_comm);
    if (rc != MPI_SUCCESS) return rc;
  }
  return MPI_SUCCESS;
}

void gcm_forget_partial(gcm_module *module) {
  if (module->partial.memory != NULL && gcm_abi != NULL) gcm_abi->device_put(module->partial.memory);
  module->partial.memory = NULL;
  module->partial.bytes = 0;
}

static bool find_memory(gcm_module *module, const gcm_plan *plan, size_t bytes) {
  if (bytes <= module->partial.bytes) return true;
  gcm_forget_partial(module);
  const gcm_side *const on_device = gcm_on_device(&plan->send) ? &plan->send : &plan->recv;
  module->partial.memory = gcm_abi->device_get(gcm_data(on_device), bytes);
  module->partial.bytes = module->partial.memory != NULL ? bytes : 0;
  return module->partial.memory != NULL;
}

/* Describes as operand what the group has reduced; a group of one has it already. */
static void describe_own(gcm_module *module, const gcm_plan *plan, gc_call *call, gcm_side *send) {
  gcm_partial *const p = &module->partial;
  if (ompi_comm_size(module->communicator) == 1) return;
  p->send = plan->send.buffer;
  p->count = plan->send.layout.count;
  p->type = plan->send.layout.type;
  p->op = call->mpi_op;
  p->to_first = call->function == GC_FUNCTION_reduce;
  call->before = reduce_within;
  send->buffer = p->memory;
}

/* ---- between the groups ---- */

/* Returns how many elements of MPI_Reduce_scatter go to the ranks before this one. */
static size_t elements_before(const gcm_module *module, const gc_call *call) {
  size_t before = 0;
  for (int i = 0; i < ompi_comm_rank(module->communicator); i++) before += (size_t)call->recvcounts[i];
  return before;
}

/* Lets each rank of MPI_Reduce_scatter get all and keep its own part: nobody knows the other group's counts. */
static void receive_all(gcm_module *module, const gcm_plan *plan, const gc_call *call, char *memory, gcm_side *recv) {
  gcm_partial *const p = &module->partial;
  const size_t size = plan->recv.layout.type->super.size, before = elements_before(module, call);
  recv->buffer = memory;
  recv->layout.count = plan->send.layout.count;
  p->to = (void *)plan->recv.buffer;
  p->from = memory + before * size;
  p->copied = plan->recv.layout.count * size;
}

int gcm_finish_between_groups(gcm_module *module) {
  const gcm_partial *p = &module->partial;
  return p->to == NULL || p->copied == 0 ? MPI_SUCCESS : gcm_abi->copy(p->to, p->from, p->copied);
}

/* Returns the receivers of this rank's copy. All of a group have the same result, and each rank of the other group
   gets it from one of them. */
static const gcm_neighbors *receivers(const gcm_module *module, const gc_call *call, const gcm_neighbors *the_root) {
  static const gcm_neighbors nobody = {NULL, NULL, 0, 1};
  if (call->function != GC_FUNCTION_reduce) return &module->destinations;
  return ompi_comm_rank(module->communicator) == 0 ? the_root : &nobody;
}

static int sender(const gcm_module *module, const gc_call *call) {
  const int others = ompi_comm_remote_size(module->communicator);
  if (call->function == GC_FUNCTION_reduce) return module->first_other;
  return module->first_other + ompi_comm_rank(module->communicator) % others;
}

static bool describe_sides(gcm_module *module, gc_call *call, const gcm_side *send, const gcm_side *recv) {
  int first_block = 0;
  const gcm_neighbors the_root = {&module->root, &first_block, 1, 1}, one = {&module->partner, &first_block, 1, 1};
  const gcm_neighbors *const to = receivers(module, call, &the_root);
  const bool blocks = call->function == GC_FUNCTION_reduce_scatter_block;
  const gcm_side none = {.buffer = NULL};
  const bool gives = send->layout.groups > 0 && to->n > 0, gets = recv->layout.groups > 0;
  call->destinations = to->ranks;
  call->n_destinations = gives ? to->n : 0;
  call->sources = &module->partner;
  call->n_sources = gets ? 1 : 0;
  return gcm_describe_side(module, gives ? send : &none, 0, false, blocks ? to : NULL, &call->send) &&
         gcm_describe_side(module, recv, 1, false, &one, &call->recv);
}

/* Types with gaps are few: pairs. */
bool gcm_can_reduce_groups(const gcm_plan *plan, const gc_call *call) {
  const gcm_type *const type = plan->send.layout.groups > 0 ? plan->send.layout.type : plan->recv.layout.type;
  return call->function != GC_FUNCTION_reduce_scatter || type == NULL ||
         ompi_datatype_is_contiguous_memory_layout(type, 2);
}

bool gcm_describe_group_reduction(gcm_module *module, const gcm_plan *plan, gc_call *call) {
  enum { kAligned = 256 };
  const bool scatters = call->function == GC_FUNCTION_reduce_scatter, gives = plan->send.layout.groups > 0;
  gcm_side send = plan->send, recv = plan->recv;
  const gcm_layout *const operand = gives ? &send.layout : &recv.layout;
  if (!gcm_plan_on_device(plan) || operand->type == NULL || !gcm_can_reduce_groups(plan, call)) return false;
  const size_t bytes = (operand->count * (size_t)gcm_extent(operand->type) + kAligned - 1) / kAligned * kAligned;
  if (!find_memory(module, plan, scatters ? 2 * bytes : bytes)) return false;
  call->elements = operand->count;
  if (call->root != -1) call->root = gcm_root_among_all(module, call->root);
  module->root = call->root;
  module->partner = sender(module, call);
  if (gives) describe_own(module, plan, call, &send);
  if (scatters) receive_all(module, plan, call, (char *)module->partial.memory + bytes, &recv);
  return describe_sides(module, call, &send, &recv);
}

/* ---- operands ---- */

/* A rank beside the root gives nothing and gets nothing, and its arguments mean nothing. */
bool gcm_describe_operands(gcm_module *module, const gcm_plan *plan, gc_call *call) {
  const bool gives = plan->send.layout.groups > 0, gets = plan->recv.layout.groups > 0;
  const bool scatters = call->function == GC_FUNCTION_reduce_scatter;
  const gcm_layout *const operand = gives ? &plan->send.layout : &plan->recv.layout;
  const bool to_root = call->root != -1;
  if (to_root) call->root = gcm_root_among_all(module, call->root);
  module->root = call->root;
  call->reduces = gives || gets;
  call->sources = module->sources.ranks;
  call->n_sources = gets ? module->sources.n : 0;
  call->destinations = to_root ? &module->root : module->sources.ranks;
  call->n_destinations = !gives ? 0 : to_root ? 1 : module->sources.n;
  call->elements = operand->count;
  call->operand_elements = scatters ? operand->count : plan->recv.layout.count;
  call->first_element = scatters ? elements_before(module, call) : 0;
  return gcm_describe_side(module, &plan->send, 0, true, NULL, &call->send) &&
         gcm_describe_side(module, &plan->recv, 1, true, NULL, &call->recv);
}
