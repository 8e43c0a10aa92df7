/* The arguments of each collective as a struct, generated from collectives.def: for a call that is begun later.
 *
 * Thread safety: plain data. Ownership: arrays, types and operations are the caller's. MPI lets the caller change
 * arrays only when a nonblocking call is complete or a persistent request is freed. It lets the caller free types and
 * operations at once: Open MPI retains those of nonblocking requests until they are complete, and kept_objects.h
 * those of persistent ones.
 */
#ifndef GPUCOLL_MCA_COLL_ARGUMENTS_H
#define GPUCOLL_MCA_COLL_ARGUMENTS_H

#include "mca/coll/plan.h"

/* GCM_MEMBERS(int a, char b) is `int a; char b;`, GCM_FIELDS(s, a, b) is `(s).a, (s).b`. */
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
#define GCM_FIELDS(s, ...)                                                                                         \
  GCM_PICK(__VA_ARGS__, GCM_FIELDS9, GCM_FIELDS8, GCM_FIELDS7, GCM_FIELDS6, GCM_FIELDS5, GCM_FIELDS4, GCM_FIELDS3, \
           GCM_FIELDS2, GCM_FIELDS1, )                                                                             \
  (s, __VA_ARGS__)
#define GCM_FIELDS1(s, a) (s).a
#define GCM_FIELDS2(s, a, ...) (s).a, GCM_FIELDS1(s, __VA_ARGS__)
#define GCM_FIELDS3(s, a, ...) (s).a, GCM_FIELDS2(s, __VA_ARGS__)
#define GCM_FIELDS4(s, a, ...) (s).a, GCM_FIELDS3(s, __VA_ARGS__)
#define GCM_FIELDS5(s, a, ...) (s).a, GCM_FIELDS4(s, __VA_ARGS__)
#define GCM_FIELDS6(s, a, ...) (s).a, GCM_FIELDS5(s, __VA_ARGS__)
#define GCM_FIELDS7(s, a, ...) (s).a, GCM_FIELDS6(s, __VA_ARGS__)
#define GCM_FIELDS8(s, a, ...) (s).a, GCM_FIELDS7(s, __VA_ARGS__)
#define GCM_FIELDS9(s, a, ...) (s).a, GCM_FIELDS8(s, __VA_ARGS__)

typedef union gcm_arguments {
#define GCM_COLLECTIVE(name, PARAMETERS, ARGUMENTS, has_bytes, plan, engine) \
  struct gcm_arguments_##name {                                              \
    GCM_MEMBERS PARAMETERS                                                   \
  } name;
#include "mca/coll/collectives.def"
} gcm_arguments;

#endif
