#!/bin/bash
# In the guest of test/vm/run with 4 devices: two ranks with two RDMA devices each, of which one loses its cable in the middle of
# many allreduces. These and all that follow have right results, over the other one.
set -u
id=$(mktemp -u /run/vm/id.XXXXXX)
log=$(mktemp)
export GPUCOLL_VERBS_TIMEOUT=17 GPUCOLL_VERBS_RETRIES=3  # as in faults.sh
for rank in 0 1; do
  GPUCOLL_HOST_ID=host$rank GPUCOLL_VERBS_DEVICE=rxe$((2 * rank + 1)),rxe$((2 * rank + 2)) \
    timeout 300 "$GC_BUILD/test/vm/functions" $rank 2 "$id" stream >>"$log" 2>&1 &
done
for _ in {1..800}; do
  [[ $(grep -c "is under way" "$log") == 2 ]] && break
  sleep 0.1
done
fabric down h3
wait
cat "$log"
[[ $(grep -c "rank . of 2: 0 failures" "$log") == 2 ]] || { echo "some rank failed"; exit 1; }
for rank in 0 1; do
  device=rxe$((2 * rank + 1)) other=rxe$((2 * rank + 2))
  grep -q "a connection goes on over $other, port 1, without $device, port 1: " "$log" ||
    { echo "rank $rank does not say that it goes on without $device"; exit 1; }
done
