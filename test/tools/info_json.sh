#!/bin/sh
# info_json.sh BUILD: gpucoll-info --json, read by a program.
output=$("$1/tools/gpucoll-info" --json) || { echo "gpucoll-info failed"; exit 1; }
printf '%s' "$output" | "$1/test/tools/read_json"
