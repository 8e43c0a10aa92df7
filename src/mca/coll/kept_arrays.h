/* Copies of the counts, displacements and types of a nonblocking or persistent collective that may begin later.
 *
 * MPI has the caller keep its arrays until the call is complete or the request is freed. But the Fortran functions of
 * Open MPI 4.1 translate types, and counts of other sizes, into arrays of their own, and free these when they return.
 *
 * Thread safety: free between different objects. Ownership: the copies live from gcm_keep_arrays() to
 * gcm_let_arrays_go(). The types themselves are not retained: see kept_objects.h.
 */
#ifndef GPUCOLL_MCA_COLL_KEPT_ARRAYS_H
#define GPUCOLL_MCA_COLL_KEPT_ARRAYS_H

#include "mca/coll/plan.h"

enum { kMostKeptArrays = 7 }; /* counts, displacements and types of two sides, and MPI_Reduce_scatter's counts */

typedef struct gcm_kept_arrays {
  struct gcm_kept_array {
    const void *given; /* as the caller passed it; only compared */
    size_t bytes;
    void *copy;
  } arrays[kMostKeptArrays];
  size_t n;
} gcm_kept_arrays;

/* Copies the arrays of a call. recvcounts: MPI_Reduce_scatter's, one for each of `ranks`, or NULL. Returns MPI_SUCCESS
 * or MPI_ERR_NO_MEM, and then holds nothing. */
int gcm_keep_arrays(gcm_kept_arrays *kept, const gcm_plan *plan, const int *recvcounts, int ranks);
void gcm_let_arrays_go(gcm_kept_arrays *kept);

/* Returns the copy of an array that the caller passed, or the array itself where it has no part in the call. */
static inline const void *gcm_kept_array(const gcm_kept_arrays *kept, const void *given) {
  for (size_t i = 0; i < kept->n; i++)
    if (kept->arrays[i].given == given) return kept->arrays[i].copy;
  return given;
}

#endif
