/* The arguments of each collective as a struct, generated from collectives.def: for a call that is begun later.
 *
 * Thread safety: plain data. Ownership: buffers are the caller's. Pointers to arrays only say which array it was:
 * GCM_FIELDS gives the copies of kept_arrays.h. MPI lets the caller free types and operations at once: Open MPI retains
 * those of nonblocking requests until they are complete, and kept_objects.h those of persistent ones.
 */
#ifndef GPUCOLL_MCA_COLL_ARGUMENTS_H
#define GPUCOLL_MCA_COLL_ARGUMENTS_H

#include "mca/coll/kept_arrays.h"

/* GCM_MEMBERS(int a, char b) is `int a; char b;`. GCM_FIELDS(s, kept, a, b) is `(s).a, (s).b`, but with the copies that
 * are `kept` in place of arrays. */
#define GCM_PICK(a, b, c, d, e, f, g, h, i, chosen, ...) chosen
#define GCM_MEMBERS(...)                                                                                    \
  GCM_PICK(__VA_ARGS__, GCM_MEMBERS9, GCM_MEMBERS8, GCM_MEMBERS7, GCM_MEMBERS6, GCM_MEMBERS5, GCM_MEMBERS4, \
           GCM_MEMBERS3, GCM_MEMBERS2, GCM_MEMBERS1, )                                                      \
  (__VA_ARGS__)
#define GCM_MEMBERS1(a) a;
#define GCM_MEMBERS2(a, ...) \
  a;                         \
  GCM_MEMBERS1(__VA_ARGS__)
#define GCM_MEMBERS3(a, ...) \
  a;                         \
  GCM_MEMBERS2(__VA_ARGS__)
#define GCM_MEMBERS4(a, ...) \
  a;                         \
  GCM_MEMBERS3(__VA_ARGS__)
#define GCM_MEMBERS5(a, ...) \
  a;                         \
  GCM_MEMBERS4(__VA_ARGS__)
#define GCM_MEMBERS6(a, ...) \
  a;                         \
  GCM_MEMBERS5(__VA_ARGS__)
#define GCM_MEMBERS7(a, ...) \
  a;                         \
  GCM_MEMBERS6(__VA_ARGS__)
#define GCM_MEMBERS8(a, ...) \
  a;                         \
  GCM_MEMBERS7(__VA_ARGS__)
#define GCM_MEMBERS9(a, ...) \
  a;                         \
  GCM_MEMBERS8(__VA_ARGS__)
#define GCM_FIELD(kept, field) \
  _Generic((field),                                                                \
      const int *: gcm_kept_array(kept, (const void *)(uintptr_t)(field)),         \
      const MPI_Aint *: gcm_kept_array(kept, (const void *)(uintptr_t)(field)),    \
      gcm_type *const *: gcm_kept_array(kept, (const void *)(uintptr_t)(field)),   \
      default: (field))
#define GCM_FIELDS(s, kept, ...)                                                                                   \
  GCM_PICK(__VA_ARGS__, GCM_FIELDS9, GCM_FIELDS8, GCM_FIELDS7, GCM_FIELDS6, GCM_FIELDS5, GCM_FIELDS4, GCM_FIELDS3, \
           GCM_FIELDS2, GCM_FIELDS1, )                                                                             \
  (s, kept, __VA_ARGS__)
#define GCM_FIELDS1(s, kept, a) GCM_FIELD(kept, (s).a)
#define GCM_FIELDS2(s, kept, a, ...) GCM_FIELD(kept, (s).a), GCM_FIELDS1(s, kept, __VA_ARGS__)
#define GCM_FIELDS3(s, kept, a, ...) GCM_FIELD(kept, (s).a), GCM_FIELDS2(s, kept, __VA_ARGS__)
#define GCM_FIELDS4(s, kept, a, ...) GCM_FIELD(kept, (s).a), GCM_FIELDS3(s, kept, __VA_ARGS__)
#define GCM_FIELDS5(s, kept, a, ...) GCM_FIELD(kept, (s).a), GCM_FIELDS4(s, kept, __VA_ARGS__)
#define GCM_FIELDS6(s, kept, a, ...) GCM_FIELD(kept, (s).a), GCM_FIELDS5(s, kept, __VA_ARGS__)
#define GCM_FIELDS7(s, kept, a, ...) GCM_FIELD(kept, (s).a), GCM_FIELDS6(s, kept, __VA_ARGS__)
#define GCM_FIELDS8(s, kept, a, ...) GCM_FIELD(kept, (s).a), GCM_FIELDS7(s, kept, __VA_ARGS__)
#define GCM_FIELDS9(s, kept, a, ...) GCM_FIELD(kept, (s).a), GCM_FIELDS8(s, kept, __VA_ARGS__)

typedef union gcm_arguments {
#define GCM_COLLECTIVE(name, PARAMETERS, ARGUMENTS, has_bytes, plan, engine) \
  struct gcm_arguments_##name {                                              \
    GCM_MEMBERS PARAMETERS                                                   \
  } name;
#include "mca/coll/collectives.def"
} gcm_arguments;

#endif
