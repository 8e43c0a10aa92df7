#!/bin/bash
# In the guest of test/vm/run: functions of the C API, checked, with a rank on each of the named hosts, over verbs.
# usage: functions.sh HOST...
set -u
id=$(mktemp -u /run/vm/id.XXXXXX)
log=$(mktemp)
rank=0
for host in "$@"; do
  timeout 100 onhost "$host" "$GC_BUILD/test/vm/functions" $rank $# "$id" >>"$log" 2>&1 &
  rank=$((rank + 1))
done
wait
cat "$log"
[[ $(grep -c "rank . of $#: 0 failures" "$log") == $# ]] || { echo "some rank failed"; exit 1; }
grep -q "links over verbs between nodes" "$log" || { echo "it did not go over verbs"; exit 1; }
