/* Operations that read and change memory of the target at once: accumulates, and MPI_Compare_and_swap. Those of a
 * window are applied one after another, by way of host memory, or on the device where a kernel reaches the data. */
#include "base/mutant.h"
#include "mca/osc/window_targets.h"
#include "mca/pt2pt/pt2pt.h"

/* ---- elements ---- */

/* Elements of one predefined type, packed, and as an array in which each has its extent: pairs may have gaps. */
typedef struct elements {
  gcm_type *type;
  size_t count;
  void *packed;
  void *array; /* may be the packed ones themselves */
} elements;

static bool has_gaps(const gcm_type *type) { return (size_t)gcm_extent(type) != type->super.size; }

/* Returns whether there is memory. */
static bool spread(elements *e) {
  e->array = e->packed;
  if (!has_gaps(e->type) || gc_mutant(524)) return true;
  e->array = gcm_abi->stage_get(e->count * (size_t)gcm_extent(e->type));
  if (e->array == NULL) return false;
  (void)gcm_convert(e->array, e->count, e->type, e->packed, e->count * e->type->super.size, true);
  return true;
}

static void gather(elements *e) {
  if (e->array == e->packed || e->array == NULL) return;
  (void)gcm_convert(e->array, e->count, e->type, e->packed, e->count * e->type->super.size, false);
  gcm_abi->stage_put(e->array);
}

/* ---- reductions ---- */

static int reduce_arrays(gcm_op *op, elements *values, elements *memory) {
  const bool spread_both = spread(values) && spread(memory);
  if (spread_both) ompi_op_reduce(op, values->array, memory->array, memory->count, memory->type);
  gather(values);
  gather(memory);
  return spread_both ? MPI_SUCCESS : MPI_ERR_NO_MEM;
}

/* Reduces into the window on the CPU. */
static int reduce_by_host(const gcm_incoming *in, const gcm_message_data *data, gcm_type *element, gcm_op *op) {
  const size_t count = in->bytes / element->super.size;
  elements values = {.type = element, .count = count, .packed = in->packed};
  elements memory = {.type = element, .count = count, .packed = gcm_abi->stage_get(in->bytes)};
  if (memory.packed == NULL) return MPI_ERR_NO_MEM;
  int rc = gcm_load_data(data, memory.packed, in->bytes);
  if (rc == MPI_SUCCESS) rc = reduce_arrays(op, &values, &memory);
  if (rc == MPI_SUCCESS) rc = gcm_store_data(data, memory.packed, in->bytes);
  gcm_abi->stage_put(memory.packed);
  return rc;
}

/* Returns GC_STAGE where no kernel reduces this. */
static int reduce_on_device(const gcm_incoming *in, const gcm_message_data *data, gcm_type *element, gcm_op *op) {
  const int type = gcm_engine_type(element), engine_op = gcm_engine_op(op);
  if (!data->place.on_device || data->has_gaps || has_gaps(element) || type < 0 || engine_op < 0) return GC_STAGE;
  return gcm_abi->reduce_local(in->packed, data->place.memory, in->bytes / element->super.size, type, engine_op);
}

static int reduce(const gcm_incoming *in, const gcm_message_data *data, gcm_op *op) {
  gcm_type *element = ompi_datatype_get_single_predefined_type_from_args(in->type);
  if (element == NULL) return MPI_ERR_TYPE;
  const int rc = reduce_on_device(in, data, element, op);
  return rc == GC_STAGE ? reduce_by_host(in, data, element, op) : rc;
}

/* ---- the turn ---- */

static int change(gcm_incoming *in, const gcm_message_data *data) {
  if (in->header.verb == GCM_SWAP) {
    uint8_t *const elements = in->header.room + gcm_elements_at(&in->header);
    const bool is_equal = memcmp(in->old, elements, in->bytes) == 0;
    return is_equal ? gcm_store_data(data, elements + in->bytes, in->bytes) : MPI_SUCCESS;
  }
  gcm_op *op = PMPI_Op_f2c(in->header.op);
  if (op == MPI_NO_OP) return MPI_SUCCESS;
  if (op == MPI_REPLACE) return gcm_store_data(data, in->packed, in->bytes);
  return reduce(in, data, op);
}

int gcm_apply(gcm_incoming *in) {
  gcm_message_data data;
  void *place = gcm_place_of(in);
  const size_t count = (size_t)in->header.count;
  int rc = gcm_describe_data(&data, place, count, in->type, gcm_is_device_message(place, count, in->type));
  if (rc != MPI_SUCCESS || in->header.verb == GCM_ACCUMULATE) return rc != MPI_SUCCESS ? rc : change(in, &data);
  in->old = gcm_abi->stage_get(in->bytes);
  if (in->old == NULL) return MPI_ERR_NO_MEM;
  if (gc_mutant(521)) rc = change(in, &data);
  if (rc == MPI_SUCCESS) rc = gcm_load_data(&data, in->old, in->bytes);
  return rc != MPI_SUCCESS || gc_mutant(521) ? rc : change(in, &data);
}
