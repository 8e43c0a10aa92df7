# GC_CHECK_NVTX: NVTX's header, with which tools such as Nsight Systems are shown what the library does. It needs no
# library. Looked for where the compiler looks, beside nvcc, and in /usr/local/cuda, also without --with-cuda.
# Answers HAVE_NVTX (conditional), NVTX_CPPFLAGS, GC_NVTX (1 or empty), gc_nvtx_summary. REQUIRES: GC_CHECK_CUDA before.
AC_DEFUN([GC_CHECK_NVTX],[
  gc_nvtx_summary="no (nvtx3/nvToolsExt.h is not there)"
  NVTX_CPPFLAGS=
  GC_NVTX=
  AC_MSG_CHECKING([for NVTX's header])
  gc_save_CPPFLAGS=$CPPFLAGS
  for gc_dir in '' ${gc_cuda_dir:+"$gc_cuda_dir/include"} /usr/local/cuda/include; do
    AS_IF([test -z "$GC_NVTX"],[
      CPPFLAGS="$gc_save_CPPFLAGS ${gc_dir:+-isystem $gc_dir}"
      AC_COMPILE_IFELSE([AC_LANG_PROGRAM([[#include <nvtx3/nvToolsExt.h>]],[[nvtxDomainRangePop(0)]])],[
        GC_NVTX=1
        NVTX_CPPFLAGS="-DHAVE_NVTX=1 ${gc_dir:+-isystem $gc_dir}"
        gc_nvtx_summary=${gc_dir:-yes}
      ])
    ])
  done
  CPPFLAGS=$gc_save_CPPFLAGS
  AC_MSG_RESULT([$gc_nvtx_summary])
  AC_SUBST([NVTX_CPPFLAGS])
  AC_SUBST([GC_NVTX])
  AM_CONDITIONAL([HAVE_NVTX],[test -n "$GC_NVTX"])
])
