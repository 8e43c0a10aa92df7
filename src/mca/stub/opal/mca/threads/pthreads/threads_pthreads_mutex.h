/* Stands in for a header of Open MPI 5.0 that its devel packages leave out: the names by which other headers know the
 * locks of POSIX threads, on which such a build of Open MPI rests. Searched after the real headers.
 *
 * Invariants: the types have the size that Open MPI was built with, since they are members of its structures.
 */
#ifndef GPUCOLL_STUB_THREADS_PTHREADS_MUTEX_H
#define GPUCOLL_STUB_THREADS_PTHREADS_MUTEX_H

#include <pthread.h>
#include <stdbool.h>

typedef pthread_mutex_t opal_thread_internal_mutex_t;
typedef pthread_cond_t opal_thread_internal_cond_t;
#define OPAL_THREAD_INTERNAL_MUTEX_INITIALIZER PTHREAD_MUTEX_INITIALIZER
#define OPAL_THREAD_INTERNAL_COND_INITIALIZER PTHREAD_COND_INITIALIZER

#define opal_thread_internal_mutex_trylock(mutex) pthread_mutex_trylock(mutex)
#define opal_thread_internal_mutex_lock(mutex) ((void)pthread_mutex_lock(mutex))
#define opal_thread_internal_mutex_unlock(mutex) ((void)pthread_mutex_unlock(mutex))
#define opal_thread_internal_mutex_destroy(mutex) ((void)pthread_mutex_destroy(mutex))
/* Nobody here asks for a recursive one. */
#define opal_thread_internal_mutex_init(mutex, recursive) pthread_mutex_init(mutex, NULL)

#define opal_thread_internal_cond_init(cond) pthread_cond_init(cond, NULL)
#define opal_thread_internal_cond_signal(cond) ((void)pthread_cond_signal(cond))
#define opal_thread_internal_cond_broadcast(cond) ((void)pthread_cond_broadcast(cond))
#define opal_thread_internal_cond_destroy(cond) ((void)pthread_cond_destroy(cond))

#endif
