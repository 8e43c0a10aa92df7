#!/bin/bash
# Each cause of slow calls is counted for each call, and told once, on the ranks that see it; nothing where all is fast.
# usage: causes.sh MPIRUN PROGRAM
mpirun=$1 program=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
log=$folder/log
status=0

# Each rank writes into files of its own, as mpirun cuts large pieces and mixes those of two ranks. Through pipes:
# the program limits the size of its files.
# shellcheck disable=SC2016
by_rank='set -o pipefail
  { "$1" "$2" 2>&3 | cat >"$0.out.$OMPI_COMM_WORLD_RANK"; } 3>&1 | cat >"$0.err.$OMPI_COMM_WORLD_RANK"'

for run in $("$program"); do
  timeout 120 "$mpirun" --oversubscribe --bind-to none -np 2 --mca coll gpucoll --mca coll_gpucoll_verbose 1 \
    bash -c "$by_rank" "$folder/said" "$program" "$run" >"$log" 2>&1
  ended=$?
  cat "$folder"/said.* >>"$log"
  rm -f "$folder"/said.*
  ((ended == 0)) || { echo "$run has failed:"; cat "$log"; status=1; }
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
