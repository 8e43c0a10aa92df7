#!/bin/sh
# Every parameter of src/base/params.def is set by some test. usage: parameters_tested.sh SOURCE
set -eu
cd "$1"
status=0
for name in $(sed -n '/^GC_PARAM_RENAMED/d; s/^GC_PARAM[A-Z_]*(\([a-z0-9_]*\),.*/\1/p' src/base/params.def); do
  upper=$(echo "$name" | tr a-z A-Z)
  grep -rqE "GPUCOLL_$upper=|coll_gpucoll_$name |(set_param|Forced [a-z]+)\(\"$name\"|setenv\(\"GPUCOLL_$upper\"" test ||
    { echo "no test sets the parameter $name" >&2; status=1; }
done
exit $status
