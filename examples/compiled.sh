#!/bin/sh
# Compiles an example in Fortran or Rust against a build tree and runs it; skipped where there is no compiler.
# usage: compiled.sh SOURCE BUILD [LAUNCHER WITH ARGUMENTS...]
set -eu
source=$1 build=$2
shift 2
program=$build/examples/$(basename "$source" | tr . _)
library=$build/.libs
skip() { echo "skipped: $*"; exit 77; }
case $source in
*.f90)
  command -v mpifort >/dev/null || skip "there is no mpifort (libopenmpi-dev)"
  command -v "$(mpifort --showme:command)" >/dev/null || skip "there is no Fortran compiler (gfortran)"
  mpifort -Wall -J "$build/examples" -o "$program" "$source" -L"$library" -lgpucoll -Wl,-rpath,"$library" ;;
*.rs)
  rustc --version >/dev/null 2>&1 || skip "there is no rustc"
  rustc -D warnings -O -o "$program" "$source" -L "$library" -l gpucoll -C link-arg=-Wl,-rpath,"$library" ;;
esac
"$@" "$program"
