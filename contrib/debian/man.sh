#!/bin/sh
# Makes man pages of the installed tools from their own --help. usage: man.sh ROOT MULTIARCH VERSION
set -eu
root=$1 version=$3
export LD_LIBRARY_PATH=$root/usr/lib/$2 GPUCOLL_DEVICE=emu
mkdir -p "$root/usr/share/man/man1"
page() {  # page TOOL PURPOSE
  help2man --no-info --no-discard-stderr --section=1 --source="gpucoll $version" --version-string="$1 $version" \
    --name="$2" --output="$root/usr/share/man/man1/$1.1" "$root/usr/bin/$1"
}
page gpucoll-perf "measure and check collectives and messages on GPU memory"
page gpucoll-info "show what gpucoll finds on this machine, and what is wrong with it"
page gpucoll-tune "measure how gpucoll's algorithms do on this machine"
page with-gpucoll "run a program written for NCCL on gpucoll"
