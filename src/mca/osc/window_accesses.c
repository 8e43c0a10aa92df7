/* The origin's functions of MPI on windows of device memory: checks, and one call that has all of them. */
#include "mca/osc/device_windows.h"

/* ---- checks ---- */

static size_t bytes_of(size_t count, const gcm_type *type) { return count * type->super.size; }

/* Returns whether elements from a place on lie within a rank's memory. */
static bool is_within(const gcm_window_part *part, ptrdiff_t at, int count, const gcm_type *type) {
  int64_t first = 0, last = 0;
  if (__builtin_mul_overflow(at, part->unit, &first)) return false;
  if (__builtin_mul_overflow((int64_t)gcm_extent(type), (int64_t)count - 1, &last)) return false;
  if (__builtin_add_overflow(last, first, &last)) return false;
  const int64_t low = (first < last ? first : last) + type->super.true_lb;
  const int64_t high = (first < last ? last : first) + type->super.true_ub;
  return low >= 0 && high <= part->bytes;
}

/* Returns whether the data of one side fit the other. Those of a put or get may be fewer than there is room for, as a
 * message's may. */
static bool fits(const gcm_window_data *side, const gcm_operation_call *call) {
  if (side->type == NULL) return true;
  const size_t its = bytes_of(side->count, side->type), at_target = bytes_of((size_t)call->count, call->type);
  if (call->verb == GCM_PUT) return its <= at_target;
  return call->verb == GCM_GET ? its >= at_target : its == at_target;
}

/* MPI checks most of this itself, but not for MPI_Fetch_and_op. */
static int check_op(const gcm_operation_call *call) {
  char *why = NULL;
  if (call->op == NULL || call->op == MPI_REPLACE || call->op == MPI_NO_OP) return MPI_SUCCESS;
  if (!ompi_op_is_intrinsic(call->op)) return MPI_ERR_OP;
  gcm_type *element = ompi_datatype_get_single_predefined_type_from_args(call->type);
  if (element == NULL) return MPI_ERR_TYPE;
  if (ompi_op_is_valid(call->op, element, &why, "a one-sided operation")) return MPI_SUCCESS;
  free(why);
  return MPI_ERR_OP;
}

static int check(const gcm_device_window *w, const gcm_operation_call *call) {
  if (!gcm_may_access(w, call->target)) return MPI_ERR_RMA_SYNC;
  if (!fits(&call->origin, call) || !fits(&call->result, call)) return MPI_ERR_TYPE;
  const bool is_empty = bytes_of((size_t)call->count, call->type) == 0;
  if (!is_empty && !is_within(&w->parts[call->target], call->at, call->count, call->type)) return MPI_ERR_RMA_RANGE;
  return check_op(call);
}

static int run(const ompi_win_t *win, const gcm_operation_call *call, ompi_request_t **request) {
  const int rc = check(gcm_window_of(win), call);
  if (rc != MPI_SUCCESS) return rc;
  if (bytes_of((size_t)call->count, call->type) != 0) return gcm_begin_operation(win, call, request);
  if (request != NULL) *request = &ompi_request_empty;
  return MPI_SUCCESS;
}

/* ---- the functions ---- */

static gcm_window_data side(const void *buffer, int count, gcm_type *type) {
  return (gcm_window_data){(void *)(uintptr_t)buffer, (size_t)count, type};
}

static int rput(const void *origin, int count, gcm_type *type, int target, ptrdiff_t at, int target_count,
                gcm_type *target_type, ompi_win_t *win, ompi_request_t **request) {
  const gcm_operation_call call = {.verb = GCM_PUT,
                                   .target = target,
                                   .at = at,
                                   .count = target_count,
                                   .type = target_type,
                                   .origin = side(origin, count, type)};
  return run(win, &call, request);
}

static int rget(void *origin, int count, gcm_type *type, int target, ptrdiff_t at, int target_count,
                gcm_type *target_type, ompi_win_t *win, ompi_request_t **request) {
  const gcm_operation_call call = {.verb = GCM_GET,
                                   .target = target,
                                   .at = at,
                                   .count = target_count,
                                   .type = target_type,
                                   .result = side(origin, count, type)};
  return run(win, &call, request);
}

static int raccumulate(const void *origin, int count, gcm_type *type, int target, ptrdiff_t at, int target_count,
                       gcm_type *target_type, ompi_op_t *op, ompi_win_t *win, ompi_request_t **request) {
  const gcm_operation_call call = {.verb = GCM_ACCUMULATE,
                                   .target = target,
                                   .at = at,
                                   .count = target_count,
                                   .type = target_type,
                                   .op = op,
                                   .origin = side(origin, count, type)};
  return run(win, &call, request);
}

/* With MPI_NO_OP there is no origin. */
static int rget_accumulate(const void *origin, int count, gcm_type *type, void *result, int result_count,
                           gcm_type *result_type, int target, ptrdiff_t at, int target_count, gcm_type *target_type,
                           ompi_op_t *op, ompi_win_t *win, ompi_request_t **request) {
  const gcm_operation_call call = {
      .verb = GCM_GET_ACCUMULATE,
      .target = target,
      .at = at,
      .count = target_count,
      .type = target_type,
      .op = op,
      .origin = op == MPI_NO_OP ? (gcm_window_data){NULL, 0, NULL} : side(origin, count, type),
      .result = side(result, result_count, result_type)};
  return run(win, &call, request);
}

static int put(const void *origin, int count, gcm_type *type, int target, ptrdiff_t at, int target_count,
               gcm_type *target_type, ompi_win_t *win) {
  return rput(origin, count, type, target, at, target_count, target_type, win, NULL);
}

static int get(void *origin, int count, gcm_type *type, int target, ptrdiff_t at, int target_count,
               gcm_type *target_type, ompi_win_t *win) {
  return rget(origin, count, type, target, at, target_count, target_type, win, NULL);
}

static int accumulate(const void *origin, int count, gcm_type *type, int target, ptrdiff_t at, int target_count,
                      gcm_type *target_type, ompi_op_t *op, ompi_win_t *win) {
  return raccumulate(origin, count, type, target, at, target_count, target_type, op, win, NULL);
}

static int get_accumulate(const void *origin, int count, gcm_type *type, void *result, int result_count,
                          gcm_type *result_type, int target, ptrdiff_t at, int target_count, gcm_type *target_type,
                          ompi_op_t *op, ompi_win_t *win) {
  return rget_accumulate(origin, count, type, result, result_count, result_type, target, at, target_count, target_type,
                         op, win, NULL);
}

static int fetch_and_op(const void *origin, void *result, gcm_type *type, int target, ptrdiff_t at, ompi_op_t *op,
                        ompi_win_t *win) {
  return rget_accumulate(origin, 1, type, result, 1, type, target, at, 1, type, op, win, NULL);
}

static int compare_and_swap(const void *origin, const void *compared, void *result, gcm_type *type, int target,
                            ptrdiff_t at, ompi_win_t *win) {
  enum { kMostBytes = 32 };
  const gcm_operation_call call = {.verb = GCM_SWAP,
                                   .target = target,
                                   .at = at,
                                   .count = 1,
                                   .type = type,
                                   .origin = side(origin, 1, type),
                                   .result = side(result, 1, type),
                                   .compared = compared};
  if (type->super.size > kMostBytes || !ompi_datatype_is_predefined(type)) return MPI_ERR_TYPE;
  return run(win, &call, NULL);
}

void gcm_put_accesses(gcm_window_functions *functions) {
  functions->osc_put = put;
  functions->osc_get = get;
  functions->osc_accumulate = accumulate;
  functions->osc_get_accumulate = get_accumulate;
  functions->osc_fetch_and_op = fetch_and_op;
  functions->osc_compare_and_swap = compare_and_swap;
  functions->osc_rput = rput;
  functions->osc_rget = rget;
  functions->osc_raccumulate = raccumulate;
  functions->osc_rget_accumulate = rget_accumulate;
}
