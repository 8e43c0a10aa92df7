#!/bin/bash
# In the guest of test/vm/run: the cable of a rank's RDMA device is pulled, and a rank is killed, both under way. The
# other rank says which peer it is, and what its device reports.
set -u
export GPUCOLL_TIMEOUT=30
failed=0
# under_way NAME COMMAND...: hurts two ranks that are in allreduces, waits until both have ended, and keeps what they say.
under_way() {
  local id=/run/vm/$1
  log=/run/vm/$1.log
  : >"$log"
  timeout 140 onhost h1 "$GC_BUILD/test/vm/functions" 0 2 "$id" endless >>"$log" 2>&1 &
  timeout 140 onhost h2 "$GC_BUILD/test/vm/functions" 1 2 "$id" endless >>"$log" 2>&1 &
  for _ in {1..800}; do
    [[ $(grep -c "is under way" "$log") == 2 ]] && break
    sleep 0.1
  done
  "${@:2}"
  wait
  cat "$log"
}
says() { grep -q "$1" "$log" || { echo "FAILED: it does not say '$1'"; failed=1; }; }

# Half a second, and 3 times more: a busy machine stops one of QEMU's processors for as long as that hardly ever.
export GPUCOLL_VERBS_TIMEOUT=17 GPUCOLL_VERBS_RETRIES=3
under_way link fabric down h2
# The device that has lost its cable gives up at once, the other one after its time-outs.
says "connection between rank . (process [0-9]* on host h.) and rank . (process [0-9]* on host h.) is broken: .*rxe., port 1, which is"
says "rank 0: allreduce failed: "
says "rank 1: allreduce failed: "
fabric up h2
unset GPUCOLL_VERBS_TIMEOUT GPUCOLL_VERBS_RETRIES

under_way killed pkill -9 -f "^$GC_BUILD/test/vm/functions 1 2 /run/vm/killed"
says "rank 0: allreduce failed: .*rank 1 (process .* on host h2) died"
exit $failed
