# GC_CHECK_CUDA: nvcc, the static runtime library and the architectures to build for.
#
# --with-cuda         yes where nvcc is found; =DIR names the toolkit and makes it an error where it does not work
# --with-cuda-arch    "80 90": machine code for each and, for GPUs to come, PTX of the newest
# Answers HAVE_CUDA (conditional), NVCC, NVCC_CCBIN, NVCC_GENCODE, CUDA_CPPFLAGS, CUDA_LIBS, GC_CUDA_ARCHS.
AC_DEFUN([GC_CHECK_CUDA],[
  AC_ARG_WITH([cuda],[AS_HELP_STRING([--with-cuda@<:@=DIR@:>@],[CUDA toolkit (where nvcc is found); "no": the emulated device only])],
    [],[with_cuda=auto])
  AC_ARG_WITH([cuda-arch],[AS_HELP_STRING([--with-cuda-arch=LIST],
    [architectures, such as "80 90" (those of 70 80 90 100 that nvcc knows)])],[],[with_cuda_arch=auto])
  AC_ARG_VAR([NVCC],[CUDA compiler])
  AC_ARG_VAR([NVCCFLAGS],[further flags for nvcc])
  gc_cuda_problem=
  gc_cuda_archs=
  AS_CASE([$with_cuda],
    [no],[gc_cuda_problem="switched off"],
    [auto|yes],[GC_FIND_CUDA([$PATH:/usr/local/cuda/bin])],
    [GC_FIND_CUDA([$with_cuda/bin])])
  AS_IF([test -z "$gc_cuda_problem"],[GC_CUDA_ARCHITECTURES])
  AS_IF([test -z "$gc_cuda_problem"],[GC_CUDA_TRY])
  AS_IF([test -n "$gc_cuda_problem"],[
    AS_CASE([$with_cuda],[no|auto],[],[AC_MSG_ERROR([$gc_cuda_problem])])
    AS_IF([test "$with_cuda" = auto],[AC_MSG_NOTICE([building without CUDA: $gc_cuda_problem])])
    gc_cuda_archs=
    gc_cuda_summary="no ($gc_cuda_problem)"
  ],[
    gc_cuda_summary="$gc_cuda_dir, architectures $gc_cuda_archs"
  ])
  AM_CONDITIONAL([HAVE_CUDA],[test -z "$gc_cuda_problem"])
  AC_SUBST([GC_CUDA_ARCHS],[$gc_cuda_archs])
])

# Sets NVCC, gc_cuda_dir, CUDA_CPPFLAGS, CUDA_LIBS, NVCC_CCBIN or gc_cuda_problem. $1: where to look for nvcc.
AC_DEFUN([GC_FIND_CUDA],[
  AC_PATH_PROG([NVCC],[nvcc],[no],[$1])
  # The host compiler is the word of CXX that is no launcher.
  NVCC_CCBIN=
  for gc_word in $CXX; do
    AS_CASE([$gc_word],[ccache|distcc|*/ccache|*/distcc],[],[test -n "$NVCC_CCBIN" || NVCC_CCBIN=$gc_word])
  done
  AC_SUBST([NVCC_CCBIN])
  AS_IF([test "$NVCC" = no],[
    gc_cuda_problem="nvcc is not in $1: install the CUDA toolkit 12.2 or newer, name it by --with-cuda=DIR, or use --with-cuda=no"
  ],[
    # The last word, as NVCC may start with ccache.
    gc_nvcc_path=`command -v "${NVCC##* }"`
    gc_nvcc_path=`readlink -f "$gc_nvcc_path"`
    gc_cuda_dir=`AS_DIRNAME(["$gc_nvcc_path"])`
    gc_cuda_dir=`AS_DIRNAME(["$gc_cuda_dir"])`
    # Only for what asks: all else is compiled as without CUDA, and found by ccache there.
    CUDA_CPPFLAGS=-DHAVE_CUDA=1
    AS_IF([test "$gc_cuda_dir" != /usr],[AS_VAR_APPEND([CUDA_CPPFLAGS],[" -isystem $gc_cuda_dir/include"])])
    CUDA_LIBS=
    for gc_dir in "$gc_cuda_dir/lib64" "$gc_cuda_dir/lib" "$gc_cuda_dir/targets/x86_64-linux/lib" \
                  "$gc_cuda_dir/targets/sbsa-linux/lib" "$gc_cuda_dir/lib/x86_64-linux-gnu"; do
      AS_IF([test -z "$CUDA_LIBS" && test -f "$gc_dir/libcudart_static.a"],[
        # The static one: the application may bring another version, and a machine without a GPU has none.
        CUDA_LIBS="-L$gc_dir -lcudart_static -ldl -lrt -lpthread"])
    done
    AS_IF([test -z "$CUDA_LIBS"],
      [gc_cuda_problem="libcudart_static.a is not under $gc_cuda_dir: install the development files of CUDA's runtime library"])
    AC_SUBST([CUDA_CPPFLAGS])
    AC_SUBST([CUDA_LIBS])
  ])
])

# Sets gc_cuda_archs and NVCC_GENCODE, or gc_cuda_problem.
AC_DEFUN([GC_CUDA_ARCHITECTURES],[
  AC_MSG_CHECKING([for the CUDA architectures to build for])
  gc_known=`$NVCC --list-gpu-arch 2>/dev/null | sed -n 's/^compute_//p'`
  AS_IF([test "x$with_cuda_arch" != xauto],[gc_cuda_archs=`echo "$with_cuda_arch" | tr ',;' '  '`],[
    for gc_arch in 70 80 90 100; do
      for gc_have in $gc_known; do AS_IF([test $gc_arch = $gc_have],[AS_VAR_APPEND([gc_cuda_archs],["$gc_arch "])]); done
    done
  ])
  NVCC_GENCODE=
  gc_newest=
  for gc_arch in $gc_cuda_archs; do
    AS_IF([echo " "$gc_known" " | grep -q " $gc_arch "],[],
      [gc_cuda_problem="$NVCC does not know the architecture $gc_arch of --with-cuda-arch; it knows" $gc_known])
    AS_VAR_APPEND([NVCC_GENCODE],["-gencode=arch=compute_$gc_arch,code=sm_$gc_arch "])
    gc_newest=$gc_arch
  done
  AS_VAR_APPEND([NVCC_GENCODE],["-gencode=arch=compute_$gc_newest,code=compute_$gc_newest"])
  gc_cuda_archs=`echo $gc_cuda_archs`
  AC_SUBST([NVCC_GENCODE])
  AC_MSG_RESULT([$gc_cuda_archs])
  AS_IF([test -z "$gc_newest"],[gc_cuda_problem="$NVCC knows none of the architectures 70 80 90 100: install CUDA 12.2 or newer"])
])

# Compiles and links a little of everything that gpucoll needs of CUDA; sets gc_cuda_problem where it fails.
AC_DEFUN([GC_CUDA_TRY],[
  AC_MSG_CHECKING([whether $NVCC compiles and links])
  cat > conftest.cu <<'GC_EOF'
#include <cuda/atomic>
#include <cuda_runtime_api.h>
__global__ void kernel(unsigned* p) { cuda::atomic_ref<unsigned, cuda::thread_scope_system>(*p).store(1u); }
int main() { kernel<<<1, 1>>>(nullptr); return cudaGetLastError() != cudaSuccess; }
GC_EOF
  AS_IF([$NVCC -forward-unknown-to-host-compiler -ccbin=$NVCC_CCBIN -std=c++20 $NVCC_GENCODE -c conftest.cu -o conftest.cu.o \
           >&AS_MESSAGE_LOG_FD 2>&1 && \
         $CXX conftest.cu.o -o conftest.cuda $CUDA_LIBS >&AS_MESSAGE_LOG_FD 2>&1],
    [AC_MSG_RESULT([yes])],
    [AC_MSG_RESULT([no])
     gc_cuda_problem="$NVCC with $NVCC_CCBIN cannot build a small C++20 program (see config.log): install CUDA 12.2 or newer and a compiler that it supports"])
  rm -f conftest.cu conftest.cu.o conftest.cuda
])
