#!/bin/sh
# What the libraries show to the programs that load them, and what they demand. usage: exports.sh BUILD SOURCE
# -fvisibility=hidden alone does not keep C++ templates and static libraries back, so it is looked at.
set -eu
library=$1/.libs/libgpucoll.so
component=$1/.libs/mca_coll_gpucoll.so
stream_mpi=$1/.libs/libgpucoll-mpi.so
status=0
wrong() { echo "$*" >&2; status=1; }

# nm's third column, without versions; sanitizers and the linker add a few names of their own.
exports() { nm -D --defined-only "$1" | awk '{ print $3 }' | sed 's/@.*//' | grep -v '^_*\(asan\|ubsan\|tsan\|lsan\|sancov\)_' || true; }

for name in gpucoll_abi gpucollAllReduce gpucollCommInitRank gpucollMalloc gpucollCommRegister gpucollMemAlloc gpucollGetLastError; do
  exports "$library" | grep -qx "$name" || wrong "libgpucoll.so does not export $name"
done
strange=$(exports "$library" | grep -v '^gpucoll' || true)
test -z "$strange" || wrong "libgpucoll.so exports more than gpucoll*:" $strange
found=$(exports "$component")
test "$found" = mca_coll_gpucoll_component || wrong "mca_coll_gpucoll.so exports '$found', not just its component"

declared=$(grep -oE 'gpucoll(CommFromMPI|MPI[A-Za-z_]+)\(' "$2/include/gpucoll/mpi.h" | tr -d '(' | sort -u)
found=$(exports "$stream_mpi" | sort)
test "$found" = "$declared" || wrong "libgpucoll-mpi.so exports" $found "but gpucoll/mpi.h declares" $declared

# A login node has no driver: nothing of CUDA may be needed to load the library.
needed=$(readelf -d "$library" "$component" "$stream_mpi" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')
echo "$needed" | grep -q 'libcuda\|libcudart\|libnccl' && wrong "a library of CUDA is needed to load gpucoll:" $needed
readelf -d "$library" | grep -q 'NEEDED.*libmpi' && wrong "libgpucoll.so needs MPI"
for file in "$library" "$component" "$stream_mpi"; do
  readelf -d "$file" | grep -q NODELETE || wrong "$file may be unloaded while its threads run (no NODELETE)"
done
exit $status
