#!/bin/sh
# Whether make compiles again what depends on GPUCOLL_KERNEL_SUBSET when it is told another one, and only then; by what
# it would do, not by doing it. usage: kernel_subset.sh SOURCE BUILD
set -eu
unset MAKEFLAGS MFLAGS MAKEOVERRIDES 2>/dev/null || true  # of the make that runs the tests
wrong() { echo "$*" >&2; exit 1; }
# compiles SUBSET: the sources that make would compile for the library, and what the tests know of the library.
compiles() {
  make --no-print-directory -n V=1 -C "$2" GPUCOLL_KERNEL_SUBSET="$1" libgpucoll.la \
    test/api/differential_test-reference.o | grep -o 'src/[a-z0-9_/]*[.]c[pu]p*\|test/[a-z_/]*[.]cpp' | sort -u
}

before=$(cat "$2/src/kernels/kernel_subset.stamp")
again=$(compiles "$before" "$2" | grep -v ^test || true)
test -z "$again" || wrong "with the same kernels, '$before', these are compiled again:" $again
other=i16
test "$before" != i16 || other="i16 f64"
found=$(compiles "$other" "$2")
wanted=$(cd "$1" && grep -l 'include "kernels/\(kernel_list\|shard\).h"' \
  src/kernels/*.cpp src/kernels/shards/*.cpp && echo test/api/reference.cpp)
! grep -q '^NVCC = .' "$2/Makefile" || wanted="$wanted $(cd "$1" && ls src/kernels/shards/kernels_*.cu)"
for file in $wanted; do
  echo "$found" | grep -qx "$file" || wrong "with other kernels $file is not compiled again"
done
for file in $found; do
  echo "$wanted" | tr ' ' '\n' | grep -qx "$file" || wrong "with other kernels $file is compiled again for nothing"
done
