#!/bin/bash
# MPI's collectives on device memory, with ranks on several hosts: they run on the devices, over sockets. Then a rank is
# killed under way, and the others say so on all hosts.
set -u
log=$(mktemp)
trap 'rm -f "$log"' EXIT
run() { # run HOSTS RANKS ARGUMENTS...
  timeout 100 "$GC_MPIRUN" --oversubscribe --bind-to none --host "$1" -np "$2" -x GPUCOLL_DEVICE -x GPUCOLL_TIMEOUT=30 \
    -x GPUCOLL_VERBOSE=1 --mca coll gpucoll --mca op ^avx "${@:3}" >"$log" 2>&1
}
says() { grep -q "$1" "$log" || { echo "it does not say '$1':"; cat "$log"; exit 1; }; }
run 10.77.0.1:2,10.77.0.2:1 3 "$GC_BUILD/test/mpi/collectives" 20
says "collectives: .* 0 failures"
says "links over .*tcp between nodes"
run 10.77.0.1,10.77.0.2 2 "$GC_BUILD/test/mpi/nodes" 1
says "nodes: .* 0 failures"
# Rank 1 is alone on its host: a rank beside it would know that it died, and its sentence may reach the others first.
# mpirun does not end by itself where a process on another host has been killed.
run 10.77.0.1:2,10.77.0.2:1 3 --map-by node --enable-recovery "$GC_BUILD/test/mpi/faults" killed_under_way &
for _ in {1..400}; do
  [[ $(grep -c "rank [02] survived, 0 failures" "$log") == 2 ]] && break
  sleep 0.2
done
kill $! 2>/dev/null
says "error: rank 1 (process .* on host node1) died, or its host cannot be reached any more"
says "rank 0 survived, 0 failures"
says "rank 2 survived, 0 failures"
