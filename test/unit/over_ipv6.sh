#!/bin/sh
# Runs a command that listens and connects at ::1 alone. usage: over_ipv6.sh COMMAND...
set -eu
grep -qE '^0{31}1 ' /proc/net/if_inet6 || { echo "skipped: this machine has no IPv6"; exit 77; }
exec env GPUCOLL_SOCKET_FAMILY=ipv6 GPUCOLL_SOCKET_IFNAME=lo "$@"
