#!/bin/bash
# A parameter with a bad value: one sentence that names it, and then an error of MPI_Init where gpucoll was asked for
# literally, or right results through host memory where it is used by default. usage: bad_parameter.sh MPIRUN PROGRAM
set -eu
mpirun=$1 program=$2
log=$(mktemp)
trap 'rm -f "$log"' EXIT
status=0
wrong() { echo "$*:" >&2; cat "$log" >&2; status=1; }
# run EXPECTED_STATUS SENTENCE mpirun-arguments...
run() {
  local expected=$1 sentence=$2 got attempt
  shift 2
  # mpirun now and then loses a message of Open MPI's own, and then says so.
  for attempt in 1 2 3 4 5 6 7 8; do
    got=0
    timeout 60 "$mpirun" --oversubscribe --bind-to none -np 2 "$@" "$program" >"$log" 2>&1 || got=1
    grep -q 'ORTE_ERROR_LOG.*show_help.c' "$log" || break
  done
  test "$got" = "$expected" || wrong "$* ended with $got instead of $expected"
  grep -q "$sentence" "$log" || wrong "$* does not say '$sentence'"
}

run 1 "parameter timeout: 'abc' is not" --mca coll gpucoll --mca coll_gpucoll_timeout abc
run 1 "parameter device: 'amu' is none of auto|cuda|emu" --mca coll gpucoll --mca coll_gpucoll_device amu
run 1 "parameter channels: 'abc' is not" --mca coll gpucoll -x GPUCOLL_CHANNELS=abc
run 0 "parameter timeout: '2000000' is not off or a whole number" --mca coll_gpucoll_timeout 2000000
run 0 "device buffers of this process go through host memory" --mca coll_gpucoll_timeout abc
# A name that a parameter no longer has, through MCA and through the environment; and numbers that have been words.
run 1 "the parameter linger_us is named resident_us now" --mca coll gpucoll --mca coll_gpucoll_linger_us 10
run 1 "the parameter teams is named shared_gpu now" --mca coll gpucoll -x GPUCOLL_TEAMS=0
run 0 "the parameter kept_launches is named plan_cache now" --mca coll_gpucoll_kept_launches 16
run 1 "parameter copy_engine_bytes: '1' is not auto, off or a size" --mca coll gpucoll -x GPUCOLL_COPY_ENGINE_BYTES=1
run 0 "0 failures" --mca coll gpucoll --mca coll_gpucoll_one_shot_bytes off --mca coll_gpucoll_channels auto
run 0 "0 failures" --mca coll gpucoll --mca coll_gpucoll_channels 3 --mca coll_gpucoll_buffer_bytes 64K
run 0 "0 failures" --mca coll gpucoll --mca coll_gpucoll_priority -1
run 1 "MPI_INIT failed\|MPI_Init" --mca coll gpucoll --mca coll_gpucoll_fallback none
exit $status
