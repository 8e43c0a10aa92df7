#!/bin/bash
# In the guest of test/vm/run: MPI's collectives on device memory, by mpirun across emulated hosts, over verbs.
set -u
log=/run/vm/mpi.log
timeout 400 onhost h1 "$GC_MPIRUN" --oversubscribe --bind-to none --host h1,h2 --mca plm_rsh_agent vm-rsh -np 2 \
  --mca oob_tcp_if_include eth0 --mca btl self,tcp --mca btl_tcp_if_include eth0 --mca pml ob1 --mca coll gpucoll \
  -x GPUCOLL_TIMEOUT=60 -x GPUCOLL_VERBOSE=1 "$GC_BUILD/test/mpi/nodes" 1 >"$log" 2>&1
status=$?
cat "$log"
grep -q "links over verbs between nodes" "$log" || { echo "it did not go over verbs"; exit 1; }
exit $status
