/* The functions of windows that read or write buffers of the origin. */
#include "base/mutant.h"
#include "mca/osc/operations.h"

/* ---- what is staged ---- */

static GCM_INLINE bool is_staged(const void *buffer, int count, gcm_type *type) {
  return gcm_is_out_of_reach(buffer, (size_t)count, type);
}
/* With MPI_NO_OP there is no origin. */
static GCM_INLINE bool is_staged_origin(const gcm_op *op, const void *origin, int count, gcm_type *type) {
  return op != MPI_NO_OP && is_staged(origin, count, type);
}

static gcm_side origin_of(const gcm_op *op, const void *origin, int count, gcm_type *type) {
  return gcm_where(is_staged_origin(op, origin, count, type), gcm_reads(origin, gcm_uniform(1, count, type)));
}

/* Where fewer data come from the target, the others stay as they were. */
static gcm_side result_of(void *result, int count, gcm_type *type, int target_count, const gcm_type *target_type) {
  const size_t room = (size_t)count * type->super.size, bytes = (size_t)target_count * target_type->super.size;
  gcm_side side = gcm_writes(result, gcm_uniform(1, count, type));
  side.load = bytes < room && !gc_mutant(515);
  return gcm_where(is_staged(result, count, type), side);
}

/* ---- operations without a request ---- */

static int begun(gcm_operation *ours, int rc) {
  if (rc == MPI_SUCCESS) {
    gcm_operation_begun(ours);
  } else {
    gcm_abandon(&ours->staged);
    gcm_operation_release(ours);
  }
  return rc;
}

/* Defines look_and_NAME(), which goes to the component, or to stage_and_NAME(). */
#define GCM_LOOK(name, PARAMETERS, ARGUMENTS, device)          \
  static int look_and_##name PARAMETERS {                      \
    if (device) return stage_and_##name ARGUMENTS;             \
    return gcm_window_functions_of(win)->osc_##name ARGUMENTS; \
  }
/* Defines both. HAND_OVER(staged) puts host memory in the place of buffers. */
#define GCM_OPERATION(name, PARAMETERS, ARGUMENTS, device, send_side, recv_side, HAND_OVER) \
  static GCM_NOINLINE int stage_and_##name PARAMETERS {                                     \
    const gcm_plan plan = {.send = send_side, .recv = recv_side};                           \
    gcm_operation *ours;                                                                    \
    const int rc = gcm_operation_new(&ours, win, target, &plan);                            \
    if (rc != MPI_SUCCESS) return rc;                                                       \
    HAND_OVER(&ours->staged);                                                               \
    return begun(ours, gcm_window_functions_of(win)->osc_##name ARGUMENTS);                 \
  }                                                                                         \
  GCM_LOOK(name, PARAMETERS, ARGUMENTS, device)
/* Does so for functions with a request. */
#define GCM_REQUEST_OPERATION(name, PARAMETERS, ARGUMENTS, device, send_side, recv_side, HAND_OVER)     \
  static GCM_NOINLINE int stage_and_##name PARAMETERS {                                                 \
    const gcm_plan plan = {.send = send_side, .recv = recv_side};                                       \
    gcm_window_request *ours;                                                                           \
    const int rc = gcm_window_request_new(&ours, win, target, &plan);                                   \
    if (rc != MPI_SUCCESS) return rc;                                                                   \
    HAND_OVER(&ours->operation.staged);                                                                 \
    return gcm_window_request_begun(ours, gcm_window_functions_of(win)->osc_##name ARGUMENTS, request); \
  }                                                                                                     \
  GCM_LOOK(name, PARAMETERS, ARGUMENTS, device)

#define GCM_NONE ((gcm_side){.buffer = NULL})
#define GCM_READ_ORIGIN origin_of(MPI_REPLACE, origin, count, type)
#define GCM_ORIGIN_OF_OP origin_of(op, origin, count, type)
#define GCM_WRITTEN_ORIGIN result_of(origin, count, type, target_count, target_type)
#define GCM_RESULT result_of(result, result_count, result_type, target_count, target_type)
#define GCM_HAND_ORIGIN(staged) origin = gcm_handed(&(staged)->send, origin)
#define GCM_HAND_WRITTEN_ORIGIN(staged) origin = gcm_handed(&(staged)->recv, origin)
#define GCM_HAND_BOTH(staged) \
  GCM_HAND_ORIGIN(staged);    \
  result = gcm_handed(&(staged)->recv, result)
/* osc/ucx reads an origin also with MPI_NO_OP, if there is one. */
#define GCM_HAND_FETCH(staged) \
  GCM_HAND_BOTH(staged);       \
  if (op == MPI_NO_OP) origin = NULL

#define GCM_PUT_PARAMETERS \
  const void *origin, int count, gcm_type *type, int target, ptrdiff_t at, int target_count, gcm_type *target_type
#define GCM_GET_PARAMETERS \
  void *origin, int count, gcm_type *type, int target, ptrdiff_t at, int target_count, gcm_type *target_type
#define GCM_GET_ACCUMULATE_PARAMETERS                                                                               \
  const void *origin, int count, gcm_type *type, void *result, int result_count, gcm_type *result_type, int target, \
      ptrdiff_t at, int target_count, gcm_type *target_type, gcm_op *op, ompi_win_t *win
#define GCM_STAGED_BOTH is_staged_origin(op, origin, count, type) || is_staged(result, result_count, result_type)

GCM_OPERATION(put, (GCM_PUT_PARAMETERS, ompi_win_t *win),
              (origin, count, type, target, at, target_count, target_type, win), is_staged(origin, count, type),
              GCM_READ_ORIGIN, GCM_NONE, GCM_HAND_ORIGIN)
GCM_OPERATION(get, (GCM_GET_PARAMETERS, ompi_win_t *win),
              (origin, count, type, target, at, target_count, target_type, win), is_staged(origin, count, type),
              GCM_NONE, GCM_WRITTEN_ORIGIN, GCM_HAND_WRITTEN_ORIGIN)
GCM_OPERATION(accumulate, (GCM_PUT_PARAMETERS, gcm_op *op, ompi_win_t *win),
              (origin, count, type, target, at, target_count, target_type, op, win),
              is_staged_origin(op, origin, count, type), GCM_ORIGIN_OF_OP, GCM_NONE, GCM_HAND_ORIGIN)
GCM_OPERATION(get_accumulate, (GCM_GET_ACCUMULATE_PARAMETERS),
              (origin, count, type, result, result_count, result_type, target, at, target_count, target_type, op, win),
              GCM_STAGED_BOTH, GCM_ORIGIN_OF_OP, GCM_RESULT, GCM_HAND_BOTH)
GCM_OPERATION(fetch_and_op,
              (const void *origin, void *result, gcm_type *type, int target, ptrdiff_t at, gcm_op *op, ompi_win_t *win),
              (origin, result, type, target, at, op, win), is_staged(origin, 1, type) || is_staged(result, 1, type),
              origin_of(op, origin, 1, type), result_of(result, 1, type, 1, type), GCM_HAND_FETCH)

GCM_REQUEST_OPERATION(rput, (GCM_PUT_PARAMETERS, ompi_win_t *win, ompi_request_t **request),
                      (origin, count, type, target, at, target_count, target_type, win, request),
                      is_staged(origin, count, type), GCM_READ_ORIGIN, GCM_NONE, GCM_HAND_ORIGIN)
GCM_REQUEST_OPERATION(rget, (GCM_GET_PARAMETERS, ompi_win_t *win, ompi_request_t **request),
                      (origin, count, type, target, at, target_count, target_type, win, request),
                      is_staged(origin, count, type), GCM_NONE, GCM_WRITTEN_ORIGIN, GCM_HAND_WRITTEN_ORIGIN)
GCM_REQUEST_OPERATION(raccumulate, (GCM_PUT_PARAMETERS, gcm_op *op, ompi_win_t *win, ompi_request_t **request),
                      (origin, count, type, target, at, target_count, target_type, op, win, request),
                      is_staged_origin(op, origin, count, type), GCM_ORIGIN_OF_OP, GCM_NONE, GCM_HAND_ORIGIN)
GCM_REQUEST_OPERATION(rget_accumulate, (GCM_GET_ACCUMULATE_PARAMETERS, ompi_request_t **request),
                      (origin, count, type, result, result_count, result_type, target, at, target_count, target_type,
                       op, win, request),
                      GCM_STAGED_BOTH, GCM_ORIGIN_OF_OP, GCM_RESULT, GCM_HAND_BOTH)

/* ---- MPI_Compare_and_swap ---- */

/* Stages what is compared as an operation of its own, as a plan has one side that is read. */
static GCM_NOINLINE int stage_and_compare_and_swap(const void *origin, const void *compared, void *result,
                                                   gcm_type *type, int target, ptrdiff_t at, ompi_win_t *win) {
  const gcm_plan comparison = {.send = origin_of(MPI_REPLACE, compared, 1, type)};
  const gcm_plan swap = {.send = origin_of(MPI_REPLACE, origin, 1, type), .recv = result_of(result, 1, type, 1, type)};
  gcm_operation *compares, *swaps;
  int rc = gcm_operation_new(&compares, win, target, &comparison);
  if (rc != MPI_SUCCESS) return rc;
  rc = gcm_operation_new(&swaps, win, target, &swap);
  if (rc == MPI_SUCCESS) {
    GCM_HAND_BOTH(&swaps->staged);
    compared = gcm_handed(&compares->staged.send, compared);
    rc = gcm_window_functions_of(win)->osc_compare_and_swap(origin, compared, result, type, target, at, win);
    rc = begun(swaps, rc);
  }
  return begun(compares, rc);
}
GCM_LOOK(compare_and_swap,
         (const void *origin, const void *compared, void *result, gcm_type *type, int target, ptrdiff_t at,
          ompi_win_t *win),
         (origin, compared, result, type, target, at, win),
         is_staged(origin, 1, type) || is_staged(compared, 1, type) || is_staged(result, 1, type))

/* ---- in the table ---- */

#define GCM_OPERATIONS(f)                                                                                         \
  f(put) f(get) f(accumulate) f(rput) f(rget) f(raccumulate) f(get_accumulate) f(rget_accumulate) f(fetch_and_op) \
      f(compare_and_swap)

void gcm_stand_before_operations(gcm_window_functions *functions) { GCM_OPERATIONS(GCM_STAND_BEFORE) }
