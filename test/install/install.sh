#!/bin/bash
# Installs into an empty directory and uses what is there, as a stranger would. usage: install.sh SOURCE BUILD
set -eu
source_tree=$1 build=$2
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
wrong() { echo "$*" >&2; exit 1; }
setting() { sed -n "s/^$1 = //p" "$build/Makefile"; }

# With the kernels that are there: make would compile others.
make --no-print-directory -s -C "$build" install DESTDIR="$stage" \
  GPUCOLL_KERNEL_SUBSET="$(cat "$build/src/kernels/kernel_subset.stamp")" >"$stage/log" 2>&1 ||
  { cat "$stage/log"; exit 1; }
prefix=$(setting prefix)
for file in lib/libgpucoll.so include/gpucoll/gpucoll.h lib/pkgconfig/gpucoll.pc \
            lib/libgpucoll-mpi.so include/gpucoll/mpi.h lib/pkgconfig/gpucoll-mpi.pc bin/gpucoll-perf bin/gpucoll-info \
            bin/gpucoll-tune bin/with-gpucoll lib/gpucoll/nccl/libnccl.so.2; do
  test -e "$stage$prefix/$file" || wrong "make install did not install $file"
done
grep -q 'OMPI_MCA_mca_base_component_path=\|finds gpucoll by itself' "$stage/log" ||
  wrong "make install does not say how mpirun finds the plugin"
plugins=$(dirname "$(find "$stage" -name mca_coll_gpucoll.so)")
export LD_LIBRARY_PATH=$stage$prefix/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}

cat >"$stage/user.c" <<'END'
#include <gpucoll/gpucoll.h>
#include <stdio.h>
int main(void) {
  int version = 0;
  void *memory = NULL;
  if (gpucollGetVersion(&version) != gpucollSuccess || version != GPUCOLL_VERSION_CODE) return 1;
  if (gpucollMalloc(&memory, 1 << 20) != gpucollSuccess) { puts(gpucollGetLastError(NULL)); return 2; }
  return gpucollFree(memory) != gpucollSuccess;
}
END
export PKG_CONFIG_PATH=$stage$prefix/lib/pkgconfig PKG_CONFIG_SYSROOT_DIR=$stage
sanitize=$(setting GC_SANITIZER_FLAGS)
flags=$(pkg-config --cflags --libs gpucoll)
${CC:-cc} $sanitize "$stage/user.c" -o "$stage/user_c" $flags
${CXX:-c++} $sanitize -x c++ "$stage/user.c" -x none -o "$stage/user_cxx" $flags
"$stage/user_c" || wrong "the C program failed"
"$stage/user_cxx" || wrong "the C++ program failed"
if test -z "$sanitize"; then  # a sanitizer's library would have to be preloaded, too
  version=$("$stage$prefix/bin/with-gpucoll" python3 -c 'import ctypes; v = ctypes.c_int()
print(ctypes.CDLL("libnccl.so.2").ncclGetVersion(ctypes.byref(v)), v.value)' 2>"$stage/log")
  test "$version" = "0 22809" || wrong "a program under with-gpucoll gets '$version' from ncclGetVersion"
  grep -q "^with-gpucoll: .*/nccl/libnccl.so.2 takes the place of libnccl.so.2 for: python3 " "$stage/log" ||
    wrong "with-gpucoll does not say what it does"
fi
cat >"$stage/mpi_user.c" <<'END'
#include <gpucoll/mpi.h>
#include <stdio.h>
int main(int argc, char **argv) {
  int one = 1, sum = 0, size = 0;
  void *memory = NULL;
  MPI_Init(&argc, &argv);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (gpucollMalloc(&memory, sizeof sum) != gpucollSuccess || gpucollMemcpy(memory, &one, sizeof one) != gpucollSuccess ||
      gpucollMPIAllreduce(MPI_IN_PLACE, memory, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, NULL) != gpucollSuccess ||
      gpucollStreamSynchronize(NULL) != gpucollSuccess || gpucollMemcpy(&sum, memory, sizeof sum) != gpucollSuccess) {
    puts(gpucollGetLastError(NULL));
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Finalize();
  return sum != size;
}
END
mpi_flags=$(pkg-config --cflags --libs gpucoll-mpi)
OMPI_CC=${CC:-cc} "$(setting MPICC)" $sanitize "$stage/mpi_user.c" -o "$stage/mpi_user_c" $mpi_flags
OMPI_CXX=${CXX:-c++} "$(dirname "$(setting MPICC)")/mpicxx" $sanitize -x c++ "$stage/mpi_user.c" -x none -o "$stage/mpi_user_cxx" $mpi_flags
for program in mpi_user_c mpi_user_cxx; do
  "$(setting MPIRUN)" --oversubscribe --bind-to none -np 2 "$stage/$program" || wrong "the program $program failed"
done
examples=$(dirname "$(find "$stage" -name one_process.c)")
${CC:-cc} $sanitize "$examples/one_process.c" -o "$stage/one_process" $flags
GPUCOLL_DEVICE=emu "$stage/one_process" 2 || wrong "an installed example failed"

if test -z "$sanitize"; then  # ompi_info is not built with sanitizers and cannot load what is
  OMPI_MCA_mca_base_component_path=$plugins:$(setting OMPI_SYSTEM_PLUGIN_DIR) \
    ompi_info --parsable | grep -q '^mca:coll:gpucoll:' || wrong "ompi_info does not see the installed component"
  shown() {  # LEVEL PARAMETER: whether ompi_info shows the parameter up to this level
    OMPI_MCA_mca_base_component_path=$plugins:$(setting OMPI_SYSTEM_PLUGIN_DIR) \
      ompi_info --parsable --param coll gpucoll --level "$1" | grep -q "coll_gpucoll_$2:"
  }
  for at in "2 transport" "5 threads" "8 emu_strict"; do
    read -r level name <<<"$at"
    shown "$level" "$name" || wrong "ompi_info does not show $name at level $level"
    ! shown $((level - 1)) "$name" || wrong "ompi_info shows $name at level $((level - 1)) already"
  done
fi
OMPI_MCA_mca_base_component_path=$plugins:$(setting OMPI_SYSTEM_PLUGIN_DIR) \
  "$(setting MPIRUN)" --oversubscribe --bind-to none --mca coll gpucoll -np 2 \
  "$stage$prefix/bin/gpucoll-perf" allreduce -b 1K -e 4K -f 4 -n 2 -w 1
