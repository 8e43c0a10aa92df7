#!/bin/bash
# Runs a program of a test as a rank of one of several nodes, all of them on this machine (parameter host_id).
# usage: mpirun ... as_nodes.sh NODES PROGRAM...
#   NODES: one letter for each rank; ranks with equal letters are on one node: aab
nodes=$1
shift
export GPUCOLL_HOST_ID=${nodes:OMPI_COMM_WORLD_RANK:1}
exec "$@"
