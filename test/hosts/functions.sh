#!/bin/bash
# Every function of the C API, checked, with ranks on several hosts. usage: functions.sh RANKS HOSTS
set -u
failed=0
for function in allreduce bcast reduce allgather reduce_scatter alltoall gather scatter sendrecv pair; do
  [[ $function == pair && $1 != 4 ]] && continue
  timeout 60 "$GC_MPIRUN" --oversubscribe --bind-to none --host "$2" -np "$1" -x GPUCOLL_DEVICE -x GPUCOLL_TIMEOUT=30 \
    --mca coll ^gpucoll "$GC_BUILD/tools/gpucoll-perf" "$function" --api -b 4 -e 300K -f 17 -n 2 -w 1 -d int32 ||
    { echo "$function failed"; failed=1; }
done
exit $failed
