#!/bin/bash
# MPI's messages of device memory between two hosts: large ones in pieces, and then those of all sizes.
set -u
log=$(mktemp)
trap 'rm -f "$log"' EXIT
run() { # run NAME ARGUMENTS...
  timeout 100 "$GC_MPIRUN" --oversubscribe --bind-to none --host 10.77.0.1,10.77.0.2 -np 2 -x GPUCOLL_DEVICE \
    -x GPUCOLL_TIMEOUT=30 --mca coll gpucoll "${@:2}" >"$log" 2>&1
  grep -q "^$1: .* 0 failures" "$log" || { cat "$log"; exit 1; }
}
run pieces "$GC_BUILD/test/mpi/pieces"
run pieces "$GC_BUILD/test/mpi/pieces" threads
run messages -x GPUCOLL_PT2PT_DIRECT_BYTES=113 "$GC_BUILD/test/mpi/messages"
