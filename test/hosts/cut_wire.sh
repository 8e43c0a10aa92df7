#!/bin/bash
# The wire of host 1 is cut under way: the rank on host 0 says so within its timeout, and names the other's host.
# The calls are pipelined: between single calls gpucoll-perf waits in MPI_Barrier, where gpucoll cannot tell of the cut.
set -u
log=$(mktemp)
timeout 100 "$GC_MPIRUN" --oversubscribe --bind-to none --host 10.77.0.1,10.77.0.2 -np 2 -x GPUCOLL_DEVICE \
  -x GPUCOLL_TIMEOUT=4 -x GPUCOLL_VERBOSE=2 --mca coll ^gpucoll "$GC_BUILD/tools/gpucoll-perf" allreduce --api --pipelined -c 0 \
  -b 8 -e 4M -f 524288 -n 4000 \
  >"$log" 2>&1 &
mpirun=$!
for _ in {1..600}; do
  grep -qE "^ +8 " "$log" && break
  sleep 0.1
done
sleep 3  # The calls of 4 MiB are under way by now, also on a busy machine, and last several seconds more.
"$GC_FAULT" 1 down
for _ in {1..150}; do
  grep -q "error: rank 1 (process .* on host node1) sent no sign of life for .* the network between the hosts" "$log" && break
  sleep 0.2
done
kill -9 $mpirun 2>/dev/null
cat "$log"
grep -q "error: rank 1 (process .* on host node1) sent no sign of life" "$log"
status=$?
rm -f "$log"
exit $status
