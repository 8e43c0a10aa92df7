#!/bin/bash
# Two nodes that are none: ranks 0 and 1 in a PID namespace of their own, and 2 and 3. Open MPI's btl/vader tells
# processes by their ids alone, so tcp is between them. Once with the network, once with a transport that does not reach.
# usage: nodes.sh MPIRUN PROGRAM
set -u
if [[ ${1:-} == --enter ]]; then
  target=$2
  ((OMPI_COMM_WORLD_RANK >= 2)) && target=$3
  exec nsenter -t "$target" -p -m -u -- "${@:4}"
fi
mpirun=$1 program=$(realpath "$2")
holders=()
cleanup() {
  for pid in "${holders[@]}"; do kill -9 "$pid" 2>/dev/null; done # unshare ignores others
}
trap cleanup EXIT
# The namespaces live as long as a process of theirs, which is the only child of unshare.
targets=()
for _ in 1 2; do
  target=""
  unshare -p -u -f --kill-child --mount-proc sleep 300 >/dev/null 2>&1 &
  holders+=($!)
  for _ in {1..100}; do
    read -r target _ 2>/dev/null <"/proc/$!/task/$!/children"
    [[ -n $target && $(readlink "/proc/$target/exe") == */sleep ]] && break
    kill -0 $! 2>/dev/null || { echo "skipped: no namespaces can be made here"; exit 77; }
    sleep 0.1
  done
  targets+=("$target")
done
nsenter -t "${targets[0]}" -p -m -u -- hostname gpucoll-node-1 || { echo "skipped: namespaces cannot be entered"; exit 77; }
log=$(mktemp)
# usage: run TEXT_THAT_IS_LOGGED TRANSPORT ARGUMENTS_OF_THE_PROGRAM
run() {
  timeout 100 "$mpirun" --oversubscribe --bind-to none -np 4 --mca coll gpucoll --mca coll_gpucoll_verbose 1 \
    --mca btl self,tcp --mca coll_gpucoll_transport "$2" "$0" --enter "${targets[@]}" "$program" "${@:3}" >"$log" 2>&1
  local status=$?
  grep -q "nodes: .* 0 failures" "$log" || status=1
  grep -q "$1" "$log" || status=1
  ((status == 0)) || cat "$log" >&2
  return $status
}
run "tcp between nodes" auto 2 && run "the parameter transport does not reach" shm 2 staged
status=$?
rm -f "$log"
exit $status
