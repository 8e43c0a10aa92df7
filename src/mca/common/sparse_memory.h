/* Host memory for runs that lie far apart, without the address space between them: a type with absolute addresses may
 * lead from a program's heap to a device's memory, which are 40 TiB apart. Address spaces have such room only where
 * nothing lies in the middle of it.
 *
 * Thread safety: any. Ownership: the caller gives back what it has taken, with the same runs.
 */
#ifndef GPUCOLL_MCA_COMMON_SPARSE_MEMORY_H
#define GPUCOLL_MCA_COMMON_SPARSE_MEMORY_H

#include "abi/abi.h"

/* Returns an address that stands for `buffer`: at the offset of each run from it there is memory. NULL: none was found.
 * REQUIRES: the runs have a count of 1. */
void *gcm_take_sparse_memory(const void *buffer, const gc_runs *runs, size_t n);
void gcm_give_sparse_memory(void *memory, const gc_runs *runs, size_t n);

#endif
