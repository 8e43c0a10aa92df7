#!/bin/sh
# Starts one process for each rank on this machine and waits for all. usage: run_ranks.sh SIZE [PROGRAM]
size=${1:?usage: run_ranks.sh SIZE [PROGRAM]}
program=${2:-./one_process_per_rank}
directory=$(mktemp -d) || exit 1
trap 'rm -rf "$directory"' EXIT

rank=0
processes=
while [ "$rank" -lt "$size" ]; do
  "$program" "$rank" "$size" "$directory/id" &
  processes="$processes $!"
  rank=$((rank + 1))
done

failed=0
for process in $processes; do
  wait "$process" || failed=1
done
exit $failed
