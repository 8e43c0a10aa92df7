#!/bin/bash
# Runs a program of a test as a rank, and that without the plugin if it is the one named.
# usage: mpirun ... without_plugin.sh RANK PROGRAM...
[[ $OMPI_COMM_WORLD_RANK != "$1" ]] || export OMPI_MCA_coll=^gpucoll
shift
exec "$@"
