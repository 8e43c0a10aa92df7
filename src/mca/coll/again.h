/* Blocking calls that come again: the engine finds them by the arguments alone, before a plan is made of these.
 *
 * Thread safety: as the module's.
 */
#ifndef GPUCOLL_MCA_COLL_AGAIN_H
#define GPUCOLL_MCA_COLL_AGAIN_H

#include "mca/coll/arguments.h"

/* GCM_WORDS(a, b) are the words of gc_arguments. */
#define GCM_WORD(argument) ((uint64_t)(uintptr_t)(argument))
#define GCM_WORDS(...)                                                                                      \
  GCM_PICK(__VA_ARGS__, GCM_WORDS9, GCM_WORDS8, GCM_WORDS7, GCM_WORDS6, GCM_WORDS5, GCM_WORDS4, GCM_WORDS3, \
           GCM_WORDS2, GCM_WORDS1, )                                                                        \
  (__VA_ARGS__)
#define GCM_WORDS1(a) GCM_WORD(a)
#define GCM_WORDS2(a, ...) GCM_WORD(a), GCM_WORDS1(__VA_ARGS__)
#define GCM_WORDS3(a, ...) GCM_WORD(a), GCM_WORDS2(__VA_ARGS__)
#define GCM_WORDS4(a, ...) GCM_WORD(a), GCM_WORDS3(__VA_ARGS__)
#define GCM_WORDS5(a, ...) GCM_WORD(a), GCM_WORDS4(__VA_ARGS__)
#define GCM_WORDS6(a, ...) GCM_WORD(a), GCM_WORDS5(__VA_ARGS__)
#define GCM_WORDS7(a, ...) GCM_WORD(a), GCM_WORDS6(__VA_ARGS__)
#define GCM_WORDS8(a, ...) GCM_WORD(a), GCM_WORDS7(__VA_ARGS__)

/* Returns whether the arguments are numbers, buffers, types and operations: the program may change what lists say. */
static inline bool gcm_has_no_lists(uint32_t function) {
  return function == GC_FUNCTION_allgather || function == GC_FUNCTION_allreduce || function == GC_FUNCTION_alltoall ||
         function == GC_FUNCTION_bcast || function == GC_FUNCTION_exscan || function == GC_FUNCTION_gather ||
         function == GC_FUNCTION_reduce || function == GC_FUNCTION_reduce_scatter_block ||
         function == GC_FUNCTION_scan || function == GC_FUNCTION_scatter;
}

/* Runs a call that comes again as gcm_run_on_engine() does. GC_ANEW: the engine does not know it. arguments: NULL where
 * they have lists. */
static inline int gcm_run_again(gcm_module *module, const gc_arguments *arguments) {
  if (arguments == NULL || module->comm == NULL || gcm_process_closed()) return GC_ANEW;
  return gcm_abi->run_again(module->comm, arguments);
}

#endif
