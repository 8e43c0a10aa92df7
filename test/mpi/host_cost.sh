#!/bin/bash
# Instructions that the component adds to one host-buffer MPI_Allreduce, counted by callgrind inside our two
# libraries: waiting for the other rank, which differs from run to run, is not in them.
# usage: host_cost.sh BUILD PLUGIN_PATH [LIMIT]
#
# On one rank there is nobody to publish to, so the limit is for two; rank 0 alone runs under callgrind. One rank is
# measured too: without waiting, the ratio to MPI's own instructions means something.
set -eu
build=$1 plugins=$2 limit=${3:-150}
calls=2000
command -v valgrind >/dev/null || { echo "valgrind is missing: apt-get install valgrind" >&2; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export OMPI_MCA_mca_base_component_path=$plugins OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_btl_vader_single_copy_mechanism=none

# measure FILE CALLS RANKS [mpirun arguments]: callgrind's profile of rank 0.
measure() {
  local file=$1 n=$2 ranks=$3 others=()
  shift 3
  test "$ranks" = 1 || others=(: -np $((ranks - 1)) "$build/test/mpi/host_cost" "$n")
  mpirun --oversubscribe --bind-to none "$@" \
    -np 1 valgrind --tool=callgrind --callgrind-out-file="$file" "$build/test/mpi/host_cost" "$n" "${others[@]}" \
    >"$file.log" 2>&1 || { cat "$file.log" >&2; exit 1; }
}
# compare RANKS: sets added and plain, instructions of one call in our libraries and in all without them.
compare() {
  for n in 1 2; do
    measure "$work/with$n" $((n * calls)) "$1" --mca coll gpucoll
    measure "$work/without$n" $((n * calls)) "$1" --mca coll ^gpucoll
  done
  added=$((($(inside "$work/with2") - $(inside "$work/with1")) / calls))
  plain=$((($(whole "$work/without2") - $(whole "$work/without1")) / calls))
  echo "host-buffer MPI_Allreduce of 8 bytes, $1 rank(s): $added instructions added to $plain$2, ratio" \
       "$(awk -v a=$added -v p=$plain 'BEGIN { printf "%.3f", (a + p) / p }')"
  test "$added" -gt 0 || { echo "the component was not called: is it in $plugins?" >&2; exit 1; }
}
# Instructions in our libraries, and in all. What is inlined into a function stands in lines without a library.
inside() {
  callgrind_annotate --threshold=100 "$1" | sed 's/,//g' |
    awk '(/gpucoll[.]so/ || /:gcm_/) && $1 ~ /^[0-9]+$/ { n += $1 } END { print n + 0 }'
}
whole() { callgrind_annotate "$1" | sed 's/,//g' | awk '/PROGRAM TOTALS/ { print $1; exit }'; }

compare 1 ""
compare 2 " (and waiting)"
test "$added" -le "$limit" || { echo "more than $limit" >&2; exit 1; }
