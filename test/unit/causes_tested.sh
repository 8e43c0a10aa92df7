#!/bin/sh
# Some test brings about each cause of slow calls in src/base/observe/causes.def. usage: causes_tested.sh SOURCE
set -eu
cd "$1"
status=0
for name in $(sed -n 's/^GC_CAUSE(\([a-z_]*\),.*/\1/p' src/base/observe/causes.def); do
  grep -rqE "on_(both|rank)\(([01], )?\"$name\"|slow_$name\b|cause\(.*Cause::$name\b" test ||
    { echo "no test brings about the cause $name" >&2; status=1; }
done
exit $status
