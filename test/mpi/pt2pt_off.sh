#!/bin/bash
# Runs a program of a test as a rank, and that with the parameter pt2pt off if it is the one named.
# usage: mpirun ... pt2pt_off.sh RANK PROGRAM...
[[ $OMPI_COMM_WORLD_RANK != "$1" ]] || export OMPI_MCA_coll_gpucoll_pt2pt=0
shift
exec "$@"
