#!/usr/bin/env bash
# Checks that the files which documents name exist, and that records have their form.
# usage: documents.sh SOURCE_TREE
# README.md, ARCHITECTURE.md, CONTRIBUTING.md and docs/ are read for relative links and for paths such as src/base; but
# for docs/adr and docs/measurements, which are frozen, also for names of source files such as `planner.cpp`.
# Then it spoils copies of a document and a record, and expects that the checks find it.
set -euo pipefail
tree=$1
known=$(mktemp) copy=$(mktemp -d)
trap 'rm -rf "$known" "$copy"' EXIT
{ (cd "$tree" && find src include test tools contrib config docs examples) || true; } |
  sed 's,/stub/.*,,' | sort -u >"$known"

# Prints "DOCUMENT: LINK leads nowhere" for each relative link of the documents DOCUMENT... below ROOT.
check_links() {  # check_links ROOT DOCUMENT...
  local root=$1 document link
  shift
  for document; do
    { grep -oE '\]\([^)#: ]+' "$root/$document" || true; } | sort -u | while IFS= read -r link; do
      link=${link#](}
      [[ -e $root/$(dirname "$document")/$link || -e $tree/$(dirname "$document")/$link ]] || echo "$document: $link leads nowhere"
    done
  done
}

# Prints "DOCUMENT: there is no NAME" for each path from the top, and each source file in backquotes, that is not there.
# docs/adr/0023 means the record of that number; src/coll/api*.cpp all files of that form.
check_names() {  # check_names ROOT DOCUMENT...
  local root=$1 document name pattern
  shift
  for document; do
    { grep -oE '(^|[^A-Za-z0-9_/.-])((src|include|test|tools|contrib|config|docs|examples)/[A-Za-z0-9_./*-]*[A-Za-z0-9_*/]|`[A-Za-z0-9_/*-]+[.](h|c|cpp|cu|def)`)' "$root/$document" || true; } |
      sed 's/^[^A-Za-z0-9_]*//; s/`//g; s,/$,,' | sort -u | while IFS= read -r name; do
        pattern=$(sed 's/[.]/[.]/g; s/[*]/[^\/]*/g' <<<"$name")
        [[ $name == docs/adr/[0-9]* ]] && pattern+='(-.*)?'
        grep -qE "(^|/)$pattern\$" "$known" || echo "$document: there is no $name"
      done
  done
}

# Prints "DOCUMENT: PARAMETER ..." for each parameter in backquotes, or after coll_gpucoll_, that params.def renames or lacks.
check_parameters() {  # check_parameters ROOT DOCUMENT...
  local root=$1 document name
  shift
  for document; do
    { grep -oE '`[a-z0-9_]+`' "$root/$document" || true; } | tr -d '`' | sort -u | while IFS= read -r name; do
      ! grep -q "^GC_PARAM_RENAMED($name," "$tree/src/base/params.def" || echo "$document: the parameter $name has a new name"
    done
    { grep -oE 'coll_gpucoll_[a-z0-9_]+' "$root/$document" || true; } | sort -u | while IFS= read -r name; do
      [[ $name == coll_gpucoll_x ]] || grep -v RENAMED "$tree/src/base/params.def" | grep "^GC_PARAM[A-Z_]*(${name#coll_gpucoll_}," >/dev/null ||
        echo "$document: there is no parameter ${name#coll_gpucoll_}"
    done
  done
}

# Prints "RECORD: ..." for each record without its status and date, or without one of its headings.
check_records() {  # check_records ROOT RECORD...
  local root=$1 record heading
  shift
  for record; do
    sed -n 3p "$root/$record" | grep -qE '^(Proposed|Accepted|Rejected|Replaced by [0-9]{4}), [0-9]{4}-[0-9]{2}-[0-9]{2}[.]' ||
      echo "$record: line 3 is no status with a date"
    for heading in Context Decision Consequences; do
      grep -qx "## $heading" "$root/$record" || echo "$record: there is no heading $heading"
    done
    grep -q "(${record##*/})" "$tree/docs/adr/README.md" || echo "$record: docs/adr/README.md does not list it"
  done
}

mapfile -t all < <(cd "$tree" && printf '%s\n' README.md ARCHITECTURE.md CONTRIBUTING.md && find docs -name '*.md' | sort)
mapfile -t current < <(printf '%s\n' "${all[@]}" | grep -vE '^docs/(adr|measurements)/')
mapfile -t records < <(cd "$tree" && printf '%s\n' docs/adr/[0-9]*.md)

found=$(check_links "$tree" "${all[@]}"; check_names "$tree" "${current[@]}"; check_parameters "$tree" "${current[@]}"; check_records "$tree" "${records[@]}")
[[ -z $found ]] || { printf '%s\n' "$found"; exit 1; }

mkdir -p "$copy/docs/adr"
{ cat "$tree/docs/tuning.md"; echo "[here](no-such.md), see src/attic/dust.h, \`attic.cpp\`, docs/adr/9999, coll_gpucoll_dust"; } >"$copy/docs/tuning.md"
grep -v '## Decision' "$tree/${records[0]}" >"$copy/${records[0]}"
expected="docs/tuning.md: no-such.md leads nowhere
docs/tuning.md: there is no attic.cpp
docs/tuning.md: there is no docs/adr/9999
docs/tuning.md: there is no src/attic/dust.h
docs/tuning.md: there is no parameter dust
${records[0]}: there is no heading Decision"
found=$(check_links "$copy" docs/tuning.md; check_names "$copy" docs/tuning.md; check_parameters "$copy" docs/tuning.md; check_records "$copy" "${records[0]}")
[[ $found == "$expected" ]] || { printf 'documents.sh does not find what is wrong, but this:\n%s\n' "$found"; exit 1; }
echo "${#all[@]} documents name what there is"
