#!/bin/sh
# expect.sh STATUS REGEX COMMAND...: passes when the command ends with this status (or any) and exactly one line of its output
# matches the extended regular expression.
status=$1 regex=$2
shift 2
output=$("$@" 2>&1)
got=$?
printf '%s\n' "$output"
matches=$(printf '%s\n' "$output" | grep -E -c -- "$regex")
[ "$status" = any ] || [ "$got" -eq "$status" ] || { echo "expect: exit status $got instead of $status"; exit 1; }
[ "$matches" -eq 1 ] || { echo "expect: $matches lines instead of 1 match $regex"; exit 1; }
