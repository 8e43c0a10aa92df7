#!/bin/bash
# Ranks on two hosts connect over IPv6: where both have nothing else, where one has both families, where an interface is
# named by its subnet, and by addresses that only their wire knows. Hosts of which one has IPv4 alone and the other one
# IPv6 alone say so. (Open MPI's launcher goes on over IPv4.)
set -u
grep -q '^fd77' /proc/net/if_inet6 || { echo "skipped: this machine has no IPv6"; exit 77; }
log=$(mktemp)
trap 'rm -f "$log"' EXIT
run() { # run SETTING_OF_HOST_0 SETTING_OF_HOST_1 COMPONENT COMMAND...
  local settings=(env GPUCOLL_DEVICE="$GPUCOLL_DEVICE" GPUCOLL_TIMEOUT=20 GPUCOLL_VERBOSE=1)
  timeout 60 "$GC_MPIRUN" --oversubscribe --bind-to none --mca coll "$3" --mca op ^avx \
    --host 10.77.0.1 -np 1 "${settings[@]}" "GPUCOLL_SOCKET_$1" "${@:4}" : \
    --host 10.77.0.2 -np 1 "${settings[@]}" "GPUCOLL_SOCKET_$2" "${@:4}" >"$log" 2>&1
}
says() { grep -qE "$1" "$log" || { echo "it does not say '$1':"; cat "$log"; exit 1; }; }
perf() { run "$1" "$2" ^gpucoll "$GC_BUILD/tools/gpucoll-perf" allreduce --api -b 4 -e 300K -f 17 -n 2 -w 1 -d int32; }

perf FAMILY=ipv6 FAMILY=ipv6 || { cat "$log"; exit 1; }
says "listens for other nodes at \[fd77::1\]:[0-9]+$"
says "listens for other nodes at \[fd77::2\]:[0-9]+$"
perf FAMILY=auto IFNAME=fd77::/64 || { cat "$log"; exit 1; }
says "listens for other nodes at 10\.77\.0\.1:[0-9]+ and \[fd77::1\]:[0-9]+$"
says "listens for other nodes at \[fd77::2\]:[0-9]+$"
run FAMILY=ipv6 FAMILY=auto gpucoll "$GC_BUILD/test/mpi/nodes" 1 || { cat "$log"; exit 1; }
says "nodes: .* 0 failures"
says "links over .*tcp between nodes"
perf IFNAME=fe80::/10 IFNAME=fe80::/10 || { cat "$log"; exit 1; }
says "listens for other nodes at \[fe80::[0-9a-f:]+\]:[0-9]+$"
perf FAMILY=ipv6 FAMILY=ipv4 && { echo "nobody noticed the families"; cat "$log"; exit 1; }
says "listens at \[fd77::1\]:[0-9]+, and this process has no IPv6 address"
perf FAMILY=auto IFNAME=fd78::/64 && { echo "nobody noticed the subnet"; cat "$log"; exit 1; }
says "'fd78::/64' fits no network interface .* wire \(10.77.0.2, fd77::2"
