#!/bin/sh
# docs/PARAMETERS.md says what src/base/params.def says. usage: parameters_document.sh SOURCE PROGRAM
set -eu
if ! "$2" | diff -u "$1/docs/PARAMETERS.md" -; then
  echo "docs/PARAMETERS.md differs from src/base/params.def: run 'make update-docs'" >&2
  exit 1
fi
