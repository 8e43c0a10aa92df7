#!/bin/sh
# Whether the tarball would have all that git knows, however the tree is configured. usage: tarball.sh SOURCE BUILD
set -eu
test -e "$1/.git" || { echo "skipped: this is no git checkout"; exit 77; }
listed=$(make --no-print-directory -s -C "$2" list-distributed)
known=$(git -C "$1" ls-files)
missing=$(echo "$known" | grep -vxF -e .gitignore -e "$listed" || true)
test -z "$missing" || { echo "these files are in no list of a Makefile, so the tarball lacks them:" $missing >&2; exit 1; }
