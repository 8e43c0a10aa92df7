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
  flags=
  case $source in *openacc*) flags=-fopenacc ;; esac
  # shellcheck disable=SC2086 # flags may be empty
  mpifort -Wall $flags -J "$build/examples" -o "$program" "$source" -L"$library" -lgpucoll -Wl,-rpath,"$library" ;;
*.rs)
  rustc --version >/dev/null 2>&1 || skip "there is no rustc"
  flags=
  case $source in *mpi_*) flags="-L $(mpicc --showme:libdirs | cut -d ' ' -f 1) -l mpi" ;; esac
  # shellcheck disable=SC2086 # several words
  rustc -D warnings -O -o "$program" "$source" -L "$library" -l gpucoll -C link-arg=-Wl,-rpath,"$library" $flags ;;
esac
"$@" "$program"
