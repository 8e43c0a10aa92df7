# A Debian or Ubuntu system of its own in a directory, for contrib/openmpi5, contrib/try-packages and contrib/try-programs (sourced, bash). Expects
# `root`, the top of the source tree, contrib/common.sh, and `system`, the directory as an absolute path. Needs root and
# debootstrap. Nothing outside of the directory is changed.

# Runs a command in the system. Mounts end with the command: they are in a namespace of its own.
inside() {
  unshare --mount bash -c '
    mount -t proc proc "$0/proc" && mount -t sysfs sys "$0/sys" && mount --rbind /dev "$0/dev" && exec chroot "$0" "$@"' \
    "$system" "$@"
}

# make_system RELEASE PACKAGE...: unless it is there. environment: GC_DEBIAN_MIRROR, GC_UBUNTU_MIRROR
make_system() {
  local release=$1
  shift
  [[ ! -e $system/.gpucoll-ready ]] || return 0
  command -v debootstrap >/dev/null || fail "debootstrap is missing: apt-get install debootstrap"
  say "Making $release in $system"
  case $release in
  noble)  # Ubuntu's keys and scripts may be missing here.
    debootstrap --no-check-gpg --variant=minbase --components=main,universe --include=ca-certificates "$release" "$system" \
      "${GC_UBUNTU_MIRROR:-http://archive.ubuntu.com/ubuntu}" /usr/share/debootstrap/scripts/gutsy ;;
  *) debootstrap --variant=minbase "$release" "$system" "${GC_DEBIAN_MIRROR:-http://deb.debian.org/debian}" ;;
  esac
  inside apt-get update -q
  inside env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$@"
  touch "$system/.gpucoll-ready"
}

# Copies what git knows, and what is new. A file that has not changed stays as it is, so that make has little to do; one
# that has gets the time of the copy, as make may have run since it was changed.
copy_source() {
  local file to
  while IFS= read -r -d '' file; do
    to=$system/gpucoll/source/$file
    [[ -e $root/$file ]] && ! cmp -s "$root/$file" "$to" || continue
    mkdir -p "${to%/*}"
    cp "$root/$file" "$to"
  done < <(cd "$root" && git ls-files -z --cached --others --exclude-standard)
}

# build_inside PREFIX SUBSET TARGETS...: each TARGETS is what one make builds, as `all` is made by a make of its own.
build_inside() {
  inside bash -euc '
    prefix=$1 subset=$2
    shift 2
    cd /gpucoll/source
    [[ -x configure ]] || autoreconf -fi >/dev/null 2>&1
    mkdir -p ../build && cd ../build
    [[ -e Makefile ]] || ../source/configure --quiet --with-cuda=no --prefix="$prefix"
    for targets; do make -s -j"$(nproc)" GPUCOLL_KERNEL_SUBSET="$subset" $targets; done' bash "$@"
}
