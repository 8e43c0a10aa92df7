#!/bin/bash
# Checks that contrib/check lists what was skipped, from a log as CTest writes it. usage: skips.sh SOURCE
set -eu
root=$1
source "$root/contrib/common.sh"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
cat >"$log" <<'END'
1/3 Testing: a.script
1/3 Test: a.script
Output:
----------------------------------------------------------
skipped: there is no such program
skipped: there is no such program
Test Passed.
2/3 Testing: a.program
2/3 Test: a.program
Output:
----------------------------------------------------------
../test/unit/a_test.cpp:12: Skipped
no GPU here
3/3 Testing: one.that.runs
3/3 Test: one.that.runs
END
expected='Skipped:
  a.script: there is no such program
  a.program: no GPU here'
got=$(list_skips "$log")
[[ $got == "$expected" ]] || { printf 'got:\n%s\nexpected:\n%s\n' "$got" "$expected"; exit 1; }
[[ $(list_skips /dev/null) == 'No test was skipped.' ]]
