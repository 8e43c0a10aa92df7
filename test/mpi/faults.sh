#!/bin/bash
# Faults under MPI: each ends in time, with a sentence that says who and what.
# usage: faults.sh MPIRUN PROGRAM GROUP...: those of the groups mismatches, resources, lateness, deaths, teams,
# refusals, departures, reports, through_host
# With GC_NODES, the ranks are on several nodes (as_nodes.sh).
set -u
mpirun=$1 folder=$(mktemp -d)
log=$folder/log program=$folder/faults  # a name by which to know the processes of this test
trap 'rm -rf "$folder"' EXIT
if [[ -n ${GC_NODES:-} ]]; then
  ln -s "$2" "$folder/faults_of_nodes"
  printf '#!/bin/sh\nexec "%s/as_nodes.sh" "%s" "%s" "$@"\n' "$(dirname "$(realpath "$0")")" "$GC_NODES" \
    "$folder/faults_of_nodes" >"$program"
  chmod +x "$program"
else
  ln -s "$2" "$program"
fi
shift 2
status=0
wrong() { echo "$*:" >&2; cat "$log" >&2; status=1; }
# run SENTENCE mpirun-arguments...: the last one is the fault. A rank that a busy machine has stopped for long is rightly
# told of instead of the fault: then once more, and at most three times in all.
run() {
  local sentence=$1 ended
  shift
  for _ in 1 2 3; do
    timeout 100 "$mpirun" --oversubscribe --bind-to none --mca coll gpucoll "$@" >"$log" 2>&1
    ended=$?
    grep -q "$sentence" "$log" && break
    grep "did not run for .* as if it was stopped\|sent no sign of life for" "$log" || break
    cat "$log"
    echo "a rank was stopped: ${*:3}"
  done
  test $ended != 124 || wrong "$* did not end"
  grep -q "$sentence" "$log" || wrong "$* does not say '$sentence'"
}
passed() {
  grep -q "faults: .* 0 failures" "$log" || wrong "$1 failed"
}
survived() {  # survived FAULT RANK...
  for rank in "${@:2}"; do
    grep -q "rank $rank survived, 0 failures" "$log" || wrong "rank $rank did not survive $1"
  done
}
share_devices() { export GPUCOLL_EMU_EXCLUSIVE=1 GPUCOLL_EMU_DEVICES=$1; }
own_devices() { unset GPUCOLL_EMU_EXCLUSIVE GPUCOLL_EMU_DEVICES; }

check_mismatches() {
  run "calls it with 4 x int32, sum, but rank 1 with 5 x int32, sum" -np 3 "$program" counts
  passed counts
  run "calls it with 20 bytes, root 0, but rank 1 with 20 bytes, root 1" -np 3 "$program" roots
  passed roots
  grep -q "rank 0 calls it with 8 x int32, sum, but rank 1 with other counts for some ranks" "$log" ||
    wrong "different counts of a reduce_scatter are not told"
  run "rank 0 calls MPI_Allreduce, but rank 1 (process [^)]*) calls MPI_Allgather" -np 3 "$program" functions
  passed functions
  for devices in 1 3; do
    [[ $devices == 1 ]] && share_devices 1
    run "on MPI_COMM_WORLD rank 0 calls MPI_Allreduce, but rank 1 (process [^)]*) calls MPI_Iallreduce: a blocking" \
      -np 3 "$program" forms
    passed "forms on $devices devices"
    own_devices
  done
  run "calls it with 4 x int32, sum, but rank 1 with 5 x int32, sum" -np 3 "$program" counts nonblocking
  passed "nonblocking counts"
  run "rank 0 calls MPI_Iallreduce, but rank 1 (process [^)]*) calls MPI_Iallgather" \
    -np 3 "$program" functions nonblocking
  passed "nonblocking functions"
  run "calls it with 16 bytes, root 0, but rank 1 with 12 bytes, root 0" -np 3 "$program" lengths
  passed lengths
  for form in "" nonblocking; do
    run "rank 0 sends 12 bytes to rank 2, which receives 8" -np 4 "$program" long_message $form
    passed "long_message $form"
  done
  run "an intercommunicator .* calls it with 4 x int32, sum, but rank [0-9] with 5 x int32, sum" \
    -np 3 "$program" across
  passed across
  # One program, whatever mpirun does with several.
  run "rank 1 has the parameter channels 2, but rank 0 has 1: set it equal on all ranks" \
    -np 2 sh -c 'GPUCOLL_CHANNELS=$((OMPI_COMM_WORLD_RANK + 1)) exec "$0" same' "$program"
  passed "the run with different parameters"
}

check_resources() {
  # AddressSanitizer's own memory counts, too.
  if [[ ${GC_SANITIZERS:-} != *address* ]]; then
    run "this rank has no 67108864 bytes of memory left to list where the data of a device buffer lie" \
      -np 2 "$program" no_list
    passed no_list
  fi
  run "0 failures" -np 2 "$program" many
  passed many
  # UBSan looks at objects through pipes, and takes one that it cannot make for a broken object.
  local descriptors=200
  [[ ${GC_SANITIZERS:-} == *undefined* ]] && descriptors=$(ulimit -n)
  (ulimit -n "$descriptors" && run "0 failures" -np 2 "$program" at_once && passed at_once && exit $status) || status=1
}

check_lateness() {
  export GPUCOLL_TIMEOUT=4
  run "rank 0 waited 4 s .* rank 1 (process [^)]*) has not come" -np 3 "$program" late
  passed late
  run "rank 0 waited 4 s .* in MPI_Iallreduce on .* rank 1 (process [^)]*) has not come" \
    -np 3 "$program" late nonblocking
  passed "nonblocking late"
  run "rank [02] waited 4 s .* in a start of MPI_Allreduce_init on .* rank 1 (process [^)]*) has not come" \
    -np 3 "$program" late_start
  passed late_start
}

check_deaths() {
  for fault in killed killed_under_way killed_started killed_across; do
    run "rank 1 (process [^)]*) died" -np 3 --enable-recovery "$program" $fault
    survived "$fault" 0 2
  done
  for fault in killed_in_window killed_before_answer; do
    run "rank 1 of the window on .* has ended" -np 3 --enable-recovery "$program" $fault
    survived "$fault" 0 2
  done
  if [[ -n ${GC_NODES:-} ]]; then
    run "a message of .* from rank 1 .* failed: that process has ended before it was complete" \
      -np 3 --enable-recovery "$program" killed_in_pieces
    survived killed_in_pieces 0 2
  else
    for fault in killed_before_access killed_before_locks; do
      run "rank 1 of the window on .* has ended" -np 3 --enable-recovery "$program" $fault
      survived "$fault" 0 2
    done
  fi
  run "signal 9 (Killed)" -np 3 "$program" killed
}

# Ranks that share a device: rank 1 is led by rank 0 or leads rank 3.
check_teams() {
  local patience=$GPUCOLL_TIMEOUT
  for devices in 1 2; do
    share_devices $devices
    run "calls it with 4 x int32, sum, but rank 1 with 5 x int32, sum" -np 3 "$program" counts
    passed "counts on $devices devices"
    export GPUCOLL_TIMEOUT=4
    run "rank 0 waited 4 s .* rank 1 (process [^)]*) has not come" -np 3 "$program" late
    passed "late on $devices devices"
    run "rank [02] waited 4 s .* in a start of MPI_Allreduce_init on .* rank 1 (process [^)]*) has not come" \
      -np 3 "$program" late_start
    passed "late_start on $devices devices"
    export GPUCOLL_TIMEOUT=$patience
    for fault in killed killed_under_way killed_started; do
      run "rank 1 (process [^)]*) died" -np 4 --enable-recovery "$program" $fault
      survived "$fault on $devices devices" 0 2 3
    done
    own_devices
  done
  share_devices 2
  run "rank 3 (process [^)]*) died" \
    -np 4 --enable-recovery --mca coll_gpucoll_progress_thread 0 "$program" killed_in_turn nonblocking
  survived killed_in_turn 0 1 2
  ! grep -q "rank 1 (process [^)]*) died" "$log" || wrong "killed_in_turn names rank 1, which gave up"
  own_devices
}

check_refusals() {
  run "the buffer 0x[0-9a-f]* is in no allocation: it was freed before" -np 3 "$program" freed_messages
  passed freed_messages
  grep -q "40 bytes at 0x[0-9a-f]* are needed, but the allocation ends after 21" "$log" ||
    wrong "freed_messages does not tell of an allocation that ends"
  run "a start of MPI_Allgather_init: the buffer 0x[0-9a-f]* is in no allocation: it was freed before" -np 3 "$program" \
    freed_started
  passed freed_started
  grep -q "rank 1 (process [^)]*) gave up: .* is in no allocation" "$log" || wrong "freed_started is not told by others"
  for fault in freed_started_staged freed_messages_started; do
    GPUCOLL_TRANSPROT=tcp run "the buffer 0x[0-9a-f]* is in no allocation: it was freed before" -np 3 "$program" $fault
    passed $fault
    # Also where no communicator is made for the device, and by one rank where each makes one.
    [[ $(grep -c "warning: GPUCOLL_TRANSPROT is ignored" "$log") == 1 ]] ||
      wrong "$fault does not tell once of a variable that names no parameter"
  done
  run "rank 1 (process [^)]*) has refused MPI_Allgather on .* for its arguments" \
    -np 3 --mca mpi_param_check 0 "$program" own_lengths
  passed own_lengths
  for function in Iallgatherv Alltoall Ialltoallv Alltoallw_init Gather Igatherv Scatter_init Scatterv; do
    grep -q "MPI_$function: rank 1 sends 28 bytes to itself, but receives 16: make counts" "$log" ||
      wrong "rank 1 does not tell what disagrees in MPI_$function"
  done
  run "0 failures" -np 2 "$program" null_buffer
  passed null_buffer
  for form in "" nonblocking; do
    run "8000000000 bytes at 0x[0-9a-f]* are needed, but the allocation ends after 401" -np 3 "$program" overlong $form
    passed "overlong $form"
    run "the buffer 0x[0-9a-f]* is in no allocation: it was freed before" -np 3 "$program" freed $form
    passed "freed $form"
    grep -qi "rank 1 (process [^)]*) has refused MPI_I*allreduce on " "$log" ||
      wrong "freed $form is not told by others"
    run "the buffer 0x[0-9a-f]* is in no allocation: it was freed before, or count and type reach beyond its end" -np 3 \
      "$program" freed_gaps $form
    passed "freed_gaps $form"
    share_devices 2
    run "rank 0 sends 12 bytes to rank 2, which receives 8 bytes" -np 4 "$program" long_message $form
    passed "long_message $form of a team"
    own_devices
  done
  run "rank 1 (process [^)]*) has refused MPI_Neighbor_allgather on .* for its arguments" -np 4 "$program" \
    freed_among_neighbors
  passed freed_among_neighbors
  run "rank 1 (process [^)]*) has refused MPI_Allreduce on .* for its arguments" -np 3 "$program" null_buffer_of_one
  passed null_buffer_of_one
  grep -q "rank 1 calls MPI_Allreduce on .* with NULL" "$log" || wrong "NULL is not told"
  run "rank 1 (process [^)]*) has refused MPI_Bcast on .* for its arguments" -np 3 "$program" null_for_all_of_one
  passed null_for_all_of_one
  grep -q "rank 1 calls MPI_Bcast on .* with NULL" "$log" || wrong "NULL as the only buffer is not told"
}

check_departures() {
  GPUCOLL_PROGRESS_THREAD=0 run "faults: .* 0 failures" -np 3 "$program" freed_early
  for form in "" nonblocking; do
    run "rank 1 (process [^)]*) has called MPI_Finalize, but rank [02] waits for it" -np 3 "$program" early $form
    survived "early $form" 0 1 2
    share_devices 2
    run "rank 1 (process [^)]*) has called MPI_Finalize, but rank [023] waits for it" -np 4 "$program" early $form
    survived "early $form of teams" 0 1 2 3
    own_devices
  done
  run "rank 1 (process [^)]*) has called MPI_Finalize, but rank [02] waits for it in a start" \
    -np 3 "$program" early_start
  survived early_start 0 1 2
  share_devices 2
  run "rank 1 (process [^)]*) has called MPI_Finalize, but rank [023] waits for it in a start" \
    -np 4 "$program" early_start
  survived "early_start of teams" 0 1 2 3
  own_devices
  run "MPI is being finalized while it is under way" -np 3 "$program" early_with_some
  survived early_with_some 0 1 2
  for devices in 2 8; do
    share_devices $devices
    run "MPI is being finalized while it is under way" -np 4 "$program" early_with_all
    survived "early_with_all on $devices devices" 0 1 2 3
    own_devices
  done
}

# Told once for each wait, by one rank, and no error.
check_reports() {
  export GPUCOLL_REPORT_AFTER=3 GC_LOG=$log
  local told="warning: rank 0 has waited 3 s (parameter report_after) in"
  run "$told collective 2, MPI_Allreduce, of .*, for rank 1 (process [^)]*), whose last was collective 1, MPI_Bcast$" \
    -np 3 "$program" long_in_coming
  passed long_in_coming
  for what in "collective 2, MPI_Ibcast, .*, whose last was collective 1, MPI_Allreduce_init$" \
    "a start of MPI_Allreduce_init, of .*, for rank 1 (process [^)]*)$"; do
    grep -q "$told $what" "$log" || wrong "it is not told: $what"
  done
  test "$(grep -c "parameter report_after" "$log")" == 3 || wrong "not three waits are told"
  export GPUCOLL_REPORT_AFTER=off
  unset GC_LOG
  run "0 failures" -np 3 "$program" long_in_coming
  ! grep -q "parameter report_after" "$log" || wrong "what was turned off is told"
}

# Calls that go through the host say why, once for each reason, on both ranks.
check_through_host() {
  run "MPI_Allreduce_init on .* goes through the host: the communicator.s persistent requests have all" \
    -np 2 --mca coll_gpucoll_verbose 1 "$program" through_host
  passed through_host
  for reason in "persistent requests" "no kernel for its type or operation" "is not aligned"; do
    test "$(grep -c "goes through the host: .*$reason" "$log")" == 2 || wrong "'$reason' is not told once"
  done
}

for group; do
  export GPUCOLL_TIMEOUT=90  # all is noticed long before
  unset GPUCOLL_REPORT_AFTER
  declare -F "check_$group" >/dev/null || { echo "there is no group '$group'" >&2; exit 2; }
  "check_$group"
done
# Processes that mpirun has killed may take a while to end.
for _ in {1..100}; do
  pgrep -f "^$program" >/dev/null || exit $status
  sleep 0.1
done
echo "processes are left:" >&2
pgrep -a -f "^$program" >&2
exit 1
