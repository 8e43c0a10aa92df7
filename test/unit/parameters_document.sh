#!/bin/sh
# docs/PARAMETERS.md and docs/causes.md say what src/base/params.def and causes.def say.
# usage: parameters_document.sh SOURCE PROGRAM
set -eu
compare() {  # compare DOCUMENT ARGUMENT...
  document=$1
  shift
  "$program" "$@" | diff -u "$source/docs/$document" - && return
  echo "docs/$document differs from its table in src/base: run 'make update-docs'" >&2
  exit 1
}
source=$1 program=$2
compare PARAMETERS.md
compare causes.md causes
