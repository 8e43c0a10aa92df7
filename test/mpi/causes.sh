#!/bin/bash
# Each cause of slow calls is counted for each call, and told once, on the ranks that see it; nothing where all is fast.
# usage: causes.sh MPIRUN PROGRAM
mpirun=$1 program=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
log=$folder/log
status=0

for run in $("$program"); do
  timeout 60 "$mpirun" --oversubscribe --bind-to none -np 2 --mca coll gpucoll --mca coll_gpucoll_verbose 1 "$program" "$run" \
    >"$log" 2>&1 || { echo "$run has failed:"; cat "$log"; status=1; }
  sed -n 's/^expects //p' "$log" | sort >"$folder/wanted"
  sed -n 's/.* on \(case_\([a-z_]*\)\|\(the communicator of context\) [0-9]*\) .*\[\([a-z_]*\), told once\].*/\2\3 \4/p' "$log" |
    sort >"$folder/told"
  if ! diff "$folder/wanted" "$folder/told" >"$folder/differences"; then
    echo "$run: what is wanted (<) and what is told (>) differ"
    cat "$folder/differences" "$log"
    status=1
  fi
done
exit $status
