#!/bin/bash
# The label mpi against Open MPI 5.0, in the Debian 13 that contrib/openmpi5 made. usage: openmpi5.sh SOURCE
set -u
if [[ ! -e ${GPUCOLL_DEBIAN13:-/nonexistent}/.gpucoll-ready ]]; then
  echo "skipped: GPUCOLL_DEBIAN13 names no directory that contrib/openmpi5 has made"
  exit 77
fi
exec "$1/contrib/openmpi5" "$GPUCOLL_DEBIAN13"
