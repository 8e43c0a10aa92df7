# GC_CHECK_CXX20: the C++ compiler takes -std=c++20 and has the parts of the library that gpucoll uses.
AC_DEFUN([GC_CHECK_CXX20],[
  AC_LANG_PUSH([C++])
  gc_saved_CXXFLAGS=$CXXFLAGS
  CXXFLAGS="$CXXFLAGS -std=c++20"
  AC_CACHE_CHECK([whether $CXX supports C++20],[gc_cv_cxx20],[
    AC_COMPILE_IFELSE([AC_LANG_PROGRAM([[
      #include <bit>
      #include <concepts>
      #include <span>
      template <std::integral T> constexpr T twice(T x) { return x + x; }
    ]],[[std::span<const int> s; return twice(static_cast<int>(s.size())) + std::countr_zero(1u);]])],
    [gc_cv_cxx20=yes],[gc_cv_cxx20=no])])
  CXXFLAGS=$gc_saved_CXXFLAGS
  AC_LANG_POP([C++])
  AS_IF([test "$gc_cv_cxx20" = no],
    [AC_MSG_ERROR([$CXX does not compile C++20: install g++ 12 or newer (Debian, Ubuntu: apt-get install g++) or set CXX])])
])

# GC_TRY_CXXFLAG(FLAG, THEN): runs THEN where the C++ compiler takes FLAG.
AC_DEFUN([GC_TRY_CXXFLAG],[
  AC_LANG_PUSH([C++])
  gc_saved_CXXFLAGS=$CXXFLAGS
  CXXFLAGS="$CXXFLAGS -Werror $1"
  AC_MSG_CHECKING([whether $CXX takes $1])
  AC_COMPILE_IFELSE([AC_LANG_PROGRAM([])],[gc_takes_flag=yes],[gc_takes_flag=no])
  AC_MSG_RESULT([$gc_takes_flag])
  CXXFLAGS=$gc_saved_CXXFLAGS
  AC_LANG_POP([C++])
  AS_IF([test "$gc_takes_flag" = yes],[$2])
])

# GC_SANITIZERS: --enable-asan, --enable-tsan, --enable-ubsan for everything that is built.
# AM_CONDITIONAL TSAN_VARIANTS: whether single tests are built with ThreadSanitizer, and as mutants, beside the plain
# ones: unless all is built with a sanitizer, or --disable-variants.
AC_DEFUN([GC_SANITIZERS],[
  AC_ARG_ENABLE([asan],[AS_HELP_STRING([--enable-asan],[build all with AddressSanitizer])],[],[enable_asan=no])
  AC_ARG_ENABLE([tsan],[AS_HELP_STRING([--enable-tsan],[build all with ThreadSanitizer])],[],[enable_tsan=no])
  AC_ARG_ENABLE([ubsan],[AS_HELP_STRING([--enable-ubsan],[build all with UndefinedBehaviorSanitizer; findings are fatal])],
    [],[enable_ubsan=no])
  AS_IF([test "$enable_asan" != no && test "$enable_tsan" != no],
    [AC_MSG_ERROR([--enable-asan and --enable-tsan exclude each other: choose one])])
  AC_ARG_ENABLE([mutants],[AS_HELP_STRING([--enable-mutants],[let the tests turn host code into its mutants])],[],
    [enable_mutants=no])
  AM_CONDITIONAL([HOST_MUTANTS],[test "$enable_mutants" != no])
  AS_IF([test "$enable_mutants" != no],[GC_HOST_MUTANTS=yes],[GC_HOST_MUTANTS=no])
  AC_SUBST([GC_HOST_MUTANTS])
  AC_ARG_ENABLE([variants],
    [AS_HELP_STRING([--disable-variants],[no tests with ThreadSanitizer, no mutants beside the plain tests])],[],
    [enable_variants=yes])
  GC_SANITIZER_NAMES=
  GC_SANITIZER_FLAGS=
  AS_IF([test "$enable_asan" != no],[AS_VAR_APPEND([GC_SANITIZER_NAMES],["address "])
    AS_VAR_APPEND([GC_SANITIZER_FLAGS],[" -fsanitize=address"])])
  AS_IF([test "$enable_tsan" != no],[AS_VAR_APPEND([GC_SANITIZER_NAMES],["thread "])
    AS_VAR_APPEND([GC_SANITIZER_FLAGS],[" -fsanitize=thread"])])
  # Not enum: a C caller may pass any number as one, which the C API checks; without -fstrict-enums that is defined.
  AS_IF([test "$enable_ubsan" != no],[AS_VAR_APPEND([GC_SANITIZER_NAMES],["undefined "])
    AS_VAR_APPEND([GC_SANITIZER_FLAGS],[" -fsanitize=undefined -fno-sanitize=enum -fno-sanitize-recover=undefined"])])
  AS_IF([test -n "$GC_SANITIZER_FLAGS"],[AS_VAR_APPEND([GC_SANITIZER_FLAGS],[" -fno-omit-frame-pointer"])])
  AC_SUBST([GC_SANITIZER_NAMES])
  AC_SUBST([GC_SANITIZER_FLAGS])
  AS_IF([test -z "$GC_SANITIZER_FLAGS" && test "$enable_variants" != no],[GC_TSAN_VARIANTS=yes],[GC_TSAN_VARIANTS=no])
  AC_SUBST([GC_TSAN_VARIANTS])
  AM_CONDITIONAL([TSAN_VARIANTS],[test "$GC_TSAN_VARIANTS" = yes])
])

# GC_CHOOSE_TOOLS: AM_CONDITIONAL TOOLS, answers GC_TOOLS: whether gpucoll-perf, gpucoll-info and gpucoll-tune are built, and
# what is tested with them. They alone need CLI11, fmt and nlohmann-json, and take a quarter of the time to compile.
AC_DEFUN([GC_CHOOSE_TOOLS],[
  AC_ARG_ENABLE([tools],[AS_HELP_STRING([--disable-tools],[the library and the plugin only])],[],[enable_tools=yes])
  AS_IF([test "$enable_tools" != no],[GC_CHECK_TOOL_HEADERS])
  AC_SUBST([GC_TOOLS],[$enable_tools])
  AM_CONDITIONAL([TOOLS],[test "$enable_tools" != no])
])

# GC_CHECK_HWLOC: header and library; answers HWLOC_LIBS.
AC_DEFUN([GC_CHECK_HWLOC],[
  gc_hwloc=yes
  AC_CHECK_HEADER([hwloc.h],[],[gc_hwloc=no])
  AC_CHECK_LIB([hwloc],[hwloc_topology_init],[HWLOC_LIBS=-lhwloc],[gc_hwloc=no])
  AC_SUBST([HWLOC_LIBS])
  AS_IF([test "$gc_hwloc" = no],
    [AC_MSG_ERROR([hwloc is missing: install its development files (Debian, Ubuntu: apt-get install libhwloc-dev)])])
])

# GC_CHECK_TOOL_HEADERS: an error that says what to install, where a header is missing that the tools need.
AC_DEFUN([GC_CHECK_TOOL_HEADERS],[
  AC_LANG_PUSH([C++])
  gc_missing=
  for gc_header in CLI/CLI.hpp fmt/format.h nlohmann/json.hpp; do
    AC_MSG_CHECKING([for $gc_header])
    AC_PREPROC_IFELSE([AC_LANG_SOURCE([[#include <$gc_header>]])],[AC_MSG_RESULT([yes])],
      [AC_MSG_RESULT([no]); AS_VAR_APPEND([gc_missing],[" $gc_header"])])
  done
  AC_LANG_POP([C++])
  AS_IF([test -n "$gc_missing"],[AC_MSG_ERROR([the tools need$gc_missing: install libcli11-dev, libfmt-dev and nlohmann-json3-dev, or configure with --disable-tools])])
])

# GC_CHECK_TEST_TOOLS: what `make check` needs on top; the build itself does not.
AC_DEFUN([GC_CHECK_TEST_TOOLS],[
  AC_PATH_PROG([CTEST],[ctest],[no])
  AC_LANG_PUSH([C++])
  AC_CHECK_HEADER([gtest/gtest.h],[gc_gtest=yes],[gc_gtest=no])
  AC_LANG_POP([C++])
  gc_check_missing=
  AS_IF([test "$CTEST" = no],[AS_VAR_APPEND([gc_check_missing],[" cmake"])])
  AS_IF([test "$gc_gtest" = no],[AS_VAR_APPEND([gc_check_missing],[" libgtest-dev"])])
  AC_SUBST([GC_CHECK_MISSING],[${gc_check_missing# }])
  AM_CONDITIONAL([CAN_CHECK],[test -z "$gc_check_missing"])
  AS_IF([test -z "$gc_check_missing"],[gc_check_summary=possible],
    [gc_check_summary="not possible: apt-get install$gc_check_missing, then configure again"])
])
