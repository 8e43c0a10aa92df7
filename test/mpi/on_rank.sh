#!/bin/bash
# Runs a program of a test as a rank, and sets a variable of the environment if the rank is the one named.
# usage: mpirun ... on_rank.sh RANK VARIABLE=VALUE PROGRAM...
rank=$1 setting=$2
shift 2
[[ $OMPI_COMM_WORLD_RANK != "$rank" ]] || export "$setting"
exec "$@"
