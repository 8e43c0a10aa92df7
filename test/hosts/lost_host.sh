#!/bin/bash
# Host 1 vanishes, as one does that loses its power: its wire is cut, and no connection is closed. The rank on host 0
# says so long before its timeout, which is the default of half an hour, and names the rank, its host, the address and
# the interface.
set -u
log=$(mktemp)
timeout 150 "$GC_MPIRUN" --oversubscribe --bind-to none --host 10.77.0.1,10.77.0.2 -np 2 -x GPUCOLL_DEVICE \
  -x GPUCOLL_VERBOSE=2 --mca coll ^gpucoll "$GC_BUILD/tools/gpucoll-perf" allreduce --api --pipelined -c 0 \
  -b 8 -e 4M -f 524288 -n 4000 \
  >"$log" 2>&1 &
mpirun=$!
for _ in {1..300}; do
  grep -qE "^ +8 " "$log" && break
  sleep 0.1
done
sleep 1  # The calls of 4 MiB are under way by now and last several seconds.
"$GC_FAULT" 1 down
said="error: rank 1 (process .* on host node1) died, or its host cannot be reached any more (10.77.0.2:[0-9]* has not answered for 30 s over wire)"
for _ in {1..400}; do
  grep -q "$said" "$log" && break
  sleep 0.2
done
kill -9 $mpirun 2>/dev/null
cat "$log"
grep -q "$said" "$log"
status=$?
rm -f "$log"
exit $status
