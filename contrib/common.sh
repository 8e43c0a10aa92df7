# Shared by contrib/demo, contrib/check and .ci/run (sourced, bash). Expects `root`, the top of the source tree.

build=$root/build
prefix=$root/prefix
build_packages=(autoconf automake libtool make gcc g++ libopenmpi-dev openmpi-bin libhwloc-dev libibverbs-dev
  libcli11-dev libfmt-dev nlohmann-json3-dev)
test_packages=(clang cmake gfortran iproute2 libclang-rt-dev libgtest-dev lua5.4 pkg-config python3 python3-matplotlib python3-mpi4py tcl)

# Tests at a time, in half cores: two that are mostly waiting, as for mpirun's start, share a core.
export CTEST_PARALLEL_LEVEL=${CTEST_PARALLEL_LEVEL:-$((2 * $(nproc)))}

say() { printf '\n==> %s\n' "$*"; }
fail() { printf '%s: %s\n' "${0##*/}" "$*" >&2; exit 1; }

# Installs those of the named Debian packages that are missing. Elsewhere it leaves them to configure to find.
install_packages() {
  local package missing=()
  if ! command -v dpkg-query >/dev/null; then
    say "This is no Debian or Ubuntu: looking for the packages is left to configure"
    return
  fi
  for package in "$@"; do
    dpkg-query -W -f '${db:Status-Status}\n' "$package" 2>/dev/null | grep -qx installed || missing+=("$package")
  done
  ((${#missing[@]})) || return 0
  local as_root=()
  if ((EUID != 0)); then
    command -v sudo >/dev/null || fail "these packages are missing and need root to install: ${missing[*]}"
    as_root=(sudo)
  fi
  say "Installing packages: ${missing[*]}"
  "${as_root[@]}" apt-get update -q
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${missing[@]}"
}

# Number of GPUs that the driver shows.
gpu_count() {
  command -v nvidia-smi >/dev/null || { echo 0; return; }
  nvidia-smi -L 2>/dev/null | grep -c '^GPU ' || true
}

# "90" or "80 90": what the GPUs of this machine are.
gpu_architectures() {
  nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | tr -d '. ' | sort -un | xargs
}

have_nvcc() { command -v nvcc >/dev/null || test -x /usr/local/cuda/bin/nvcc; }

# Prints the configure arguments for this machine: CUDA only where a GPU can run it, and for that GPU only.
configure_arguments() {
  if (($(gpu_count) > 0)) && have_nvcc; then
    printf '%s\n' --with-cuda "--with-cuda-arch=$(gpu_architectures)"
  else
    printf '%s\n' --with-cuda=no
  fi
}

# As many compilers as there are cores, but no more than memory carries (1.5 GB each).
job_count() {
  local cores memory
  cores=$(nproc)
  memory=$(awk '/^MemAvailable/ { print int($2 / 1500000) }' /proc/meminfo)
  ((memory < 1)) && memory=1
  echo $((cores < memory ? cores : memory))
}

# configure_tree DIRECTORY ARGUMENT...: makes ./configure where it is missing, and runs it in DIRECTORY where it has
# not run with these arguments before. Later changes of the build files are noticed by make itself.
configure_tree() {
  local directory=$1
  shift
  if [[ ! -x $root/configure ]]; then
    say "Making ./configure (autoreconf)"
    (cd "$root" && autoreconf -fi 2>&1 | grep -v 'installing\|copying file\|putting ' || true)
    [[ -x $root/configure ]] || fail "autoreconf failed: run it in $root to see why"
  fi
  mkdir -p "$directory"
  if [[ -f $directory/Makefile && "$(cat "$directory/.arguments" 2>/dev/null)" == "$*" ]]; then return; fi
  say "Configuring in $directory: $*"
  # Objects do not depend on compiler flags: after other arguments they are made anew.
  [[ ! -f $directory/Makefile ]] || make --no-print-directory -s -C "$directory" clean >/dev/null 2>&1 || true
  rm -f "$directory/.arguments"
  (cd "$directory" && "$root/configure" --quiet "$@") || fail "configure failed; its reasons are above and in $directory/config.log"
  printf '%s' "$*" >"$directory/.arguments"
}

# list_skips LOG: from CTest's LastTest.log, each test that was left out, or cases of it, and why. Who skips says so in a
# line "skipped: REASON"; GoogleTest has "FILE:LINE: Skipped" and the reason in the next line.
list_skips() {
  awk '
    function tell(reason) { if (!told[test, reason]++) { if (!any++) print "Skipped:"; print "  " test ": " reason } }
    /^[0-9]+\/[0-9]+ Test: / { test = $3 }
    follows { tell($0); follows = 0 }
    sub(/^skipped: /, "") { tell($0) }
    /^[^ ]+:[0-9]+: Skipped$/ { follows = 1 }
    END { if (!any) print "No test was skipped." }' "$1"
}

# build_tree DIRECTORY [TARGET...]
build_tree() {
  local directory=$1
  shift
  make --no-print-directory -C "$directory" -j"$(job_count)" "$@" || fail "the build failed"
}
