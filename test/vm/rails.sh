#!/bin/bash
# In the guest of test/vm/run with 4 devices: functions of the C API, checked, on 2 ranks with two RDMA devices each, all of
# which must carry data.
set -u
id=$(mktemp -u /run/vm/id.XXXXXX)
log=$(mktemp)
for rank in 0 1; do
  GPUCOLL_HOST_ID=host$rank GPUCOLL_VERBS_DEVICE=rxe$((2 * rank + 1)),rxe$((2 * rank + 2)) \
    timeout 100 "$GC_BUILD/test/vm/functions" $rank 2 "$id" >>"$log" 2>&1 &
done
wait
cat "$log"
[[ $(grep -c "rank . of 2: 0 failures" "$log") == 2 ]] || { echo "some rank failed"; exit 1; }
grep -q "links over verbs between nodes" "$log" || { echo "it did not go over verbs"; exit 1; }
for device in rxe1 rxe2 rxe3 rxe4; do
  packets=$(cat /sys/class/infiniband/$device/ports/1/hw_counters/sent_pkts)
  echo "$device has sent $packets packets"
  ((packets > 50)) || { echo "$device carries no data"; exit 1; }
done
