#!/bin/bash
# Each cause of slow calls is told once for a hundred calls, on the ranks that see it, and nothing where all is fast.
# usage: causes.sh MPIRUN PROGRAM
mpirun=$1 program=$2 here=$(dirname "$0")
log=$(mktemp)
trap 'rm -f "$log"' EXIT
status=0

# Runs a case and compares which causes are told, once for each line.
expect() {  # expect CASE "CAUSE..." [VARIABLE=VALUE...]
  local name=$1 wanted=$2
  shift 2
  if ! env "$@" "$mpirun" --oversubscribe --bind-to none -np 2 --mca coll gpucoll --mca coll_gpucoll_verbose 1 \
    ${nodes:+"$here/as_nodes.sh" "$nodes"} "$program" "$name" >"$log" 2>&1; then
    cat "$log"
    status=1
  fi
  local told
  told=$(sed -n 's/.*\[\([a-z_]*\), told once\].*/\1/p' "$log" | sort | tr '\n' ' ')
  if [ "$told" != "${wanted:+$wanted }" ]; then
    echo "$name $*: told are '$told', not '$wanted'"
    cat "$log"
    status=1
  fi
}

expect fast ""
expect fast_message ""
expect user_operation "user_operation user_operation"
expect nonblocking_operation "user_operation user_operation"
expect misaligned "misaligned misaligned"
expect misaligned_on_one "misaligned other_rank"
expect several_devices "several_devices several_devices"
expect pinned_bytes "pinned_bytes pinned_bytes" GPUCOLL_PINNED_BYTES=64K
expect large "closed_memory closed_memory" GPUCOLL_EMU_EXPORTS=off
expect large "no_peer_access no_peer_access" GPUCOLL_EMU_PEERS=off
expect fast "shared_gpu_off shared_gpu_off" GPUCOLL_EMU_EXCLUSIVE=1 GPUCOLL_EMU_DEVICES=1 GPUCOLL_SHARED_GPU=off
expect tiny_message "message_tiny"
expect large_message "message_closed_memory" GPUCOLL_EMU_EXPORTS=off
expect large_message "message_off" GPUCOLL_PT2PT_DIRECT_BYTES=off
expect buffered_message "message_buffered"
expect partly_host_message "message_partly_host"
nodes=ab expect large_message "message_between_nodes"
nodes=ab expect fast "no_rdma no_rdma"
exit $status
