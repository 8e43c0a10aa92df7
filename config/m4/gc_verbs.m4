# GC_CHECK_VERBS: verbs' headers; answers AM_CONDITIONAL HAVE_VERBS and gc_verbs_summary. The library is opened at run time.
AC_DEFUN([GC_CHECK_VERBS],[
  AC_ARG_WITH([verbs],[AS_HELP_STRING([--with-verbs],
    [RDMA between nodes (default: where infiniband/verbs.h of rdma-core 32 or newer is found)])],[],[with_verbs=auto])
  gc_verbs=no
  AS_IF([test "$with_verbs" != no],[AC_LANG_PUSH([C++])
    AC_CACHE_CHECK([for verbs' headers],[gc_cv_verbs],[
      AC_COMPILE_IFELSE([AC_LANG_PROGRAM([[#include <infiniband/verbs.h>]],
        [[ibv_gid_entry entry = {}; return _ibv_query_gid_ex(nullptr, 1, 0, &entry, 0, sizeof entry);]])],
        [gc_cv_verbs=yes],[gc_cv_verbs=no])])
    gc_verbs=$gc_cv_verbs
    AC_LANG_POP([C++])])
  AS_IF([test "$with_verbs" = yes && test "$gc_verbs" = no],
    [AC_MSG_ERROR([infiniband/verbs.h of rdma-core 32 or newer is missing: install it (Debian, Ubuntu: apt-get install libibverbs-dev)])])
  AM_CONDITIONAL([HAVE_VERBS],[test "$gc_verbs" = yes])
  AS_CASE([$with_verbs:$gc_verbs],
    [*:yes],[gc_verbs_summary="yes; libibverbs.so.1 is opened at run time"],
    [no:*],[gc_verbs_summary="no, as asked; tcp carries what goes between nodes"],
    [gc_verbs_summary="no: apt-get install libibverbs-dev, then configure again; else tcp carries what goes between nodes"])
  AS_IF([test "$gc_verbs" = yes],[GC_VERBS=ON],[GC_VERBS=OFF])
  AC_SUBST([GC_VERBS])
])
