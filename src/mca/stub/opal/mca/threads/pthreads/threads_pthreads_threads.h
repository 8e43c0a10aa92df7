/* Stands in for a header of Open MPI 5.0 that its devel packages leave out. Searched after the real headers. */
#ifndef GPUCOLL_STUB_THREADS_PTHREADS_THREADS_H
#define GPUCOLL_STUB_THREADS_PTHREADS_THREADS_H

#include <sched.h>

/* Declared, and called by macros, in a header that is there. */
static inline void opal_thread_yield(void) { (void)sched_yield(); }

#endif
