#!/usr/bin/env bash
# Checks that the files which documents name exist, and that records have their form.
# usage: documents.sh SOURCE_TREE
# README.md, ARCHITECTURE.md, CONTRIBUTING.md and docs/ are read for relative links and for paths such as src/base; but
# for docs/adr and docs/measurements, which are frozen, also for names of source files such as `planner.cpp`.
# Then it spoils copies of a document and a record, and expects that the checks find it.
set -euo pipefail
tree=$1
export LC_ALL=C  # of sort and comm alike
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
known=$copy/known renamed=$copy/renamed parameters=$copy/parameters
{ (cd "$tree" && find src include test tools contrib config docs examples) || true; } |
  sed 's,/stub/.*,,' | sort -u >"$known"
sed -n 's/^GC_PARAM_RENAMED(\([a-z0-9_]*\),.*/\1/p' "$tree/src/base/params.def" | sort >"$renamed"
{ echo x && grep -v RENAMED "$tree/src/base/params.def" | sed -n 's/^GC_PARAM[A-Z_]*(\([a-z0-9_]*\),.*/\1/p'; } | sort >"$parameters"

# Prints "DOCUMENT: LINK leads nowhere" for each relative link of the documents DOCUMENT... below ROOT.
check_links() {  # check_links ROOT DOCUMENT...
  local root=$1 document folder link
  shift
  for document; do
    folder=${document%"${document##*/}"}
    { grep -oE '\]\([^)#: ]+' "$root/$document" || true; } | sort -u | while IFS= read -r link; do
      link=$folder${link#](}
      [[ -e $root/$link || -e $tree/$link ]] || echo "$document: ${link#"$folder"} leads nowhere"
    done
  done
}

# Prints "DOCUMENT: there is no NAME" for each path from the top, and each source file in backquotes, that is not there.
# docs/adr/0023 means the record of that number, src/coll/api*.cpp all files of that form, and ROOM in test/unit/ROOM any.
check_names() {  # check_names ROOT DOCUMENT...
  local root=$1 document
  shift
  for document; do
    { grep -oE '(^|[^A-Za-z0-9_/.-])((src|include|test|tools|contrib|config|docs|examples)/[A-Za-z0-9_./*-]*[A-Za-z0-9_*/]|`[A-Za-z0-9_/*-]+[.](h|c|cpp|cu|def)`)' "$root/$document" || true; } |
      sed 's/^[^A-Za-z0-9_]*//; s/`//g; s,/$,,' | sort -u | awk -v document="$document" -v known="$known" '
        BEGIN {
          while ((getline path < known) > 0) {
            paths[++n] = path
            do there[path]; while (sub(/^[^\/]*\//, "", path))
          }
        }
        $0 in there || /\/[A-Z]+$/ { next }
        {
          pattern = $0
          gsub(/[.]/, "[.]", pattern)
          gsub(/[*]/, "[^/]*", pattern)
          if ($0 ~ /^docs\/adr\/[0-9]/) pattern = pattern "(-.*)?"
          for (i = 1; i <= n; ++i) if (paths[i] ~ "(^|/)" pattern "$") next
          print document ": there is no " $0
        }'
  done
}

# Prints "DOCUMENT: ..." for each parameter in backquotes that params.def renames, or after coll_gpucoll_ that it lacks.
check_parameters() {  # check_parameters ROOT DOCUMENT...
  local root=$1 document
  shift
  for document; do
    { grep -oE '`[a-z0-9_]+`' "$root/$document" || true; } | tr -d '`' | sort -u | comm -12 - "$renamed" |
      sed "s,.*,$document: the parameter & has a new name,"
    { grep -oE 'coll_gpucoll_[a-z0-9_]+' "$root/$document" || true; } | sed 's/^coll_gpucoll_//' | sort -u |
      comm -23 - "$parameters" | sed "s,.*,$document: there is no parameter &,"
  done
}

# Prints "RECORD: ..." for each record without its status and date, or without one of its headings, or that no list has.
check_records() {  # check_records ROOT RECORD...
  local root=$1 record text heading list
  shift
  list=$(<"$tree/docs/adr/README.md")
  local status=$'^# [^\n]*\n\n(Proposed|Accepted|Rejected|Replaced by [0-9]{4}), [0-9]{4}-[0-9]{2}-[0-9]{2}[.]'
  for record; do
    text=$(<"$root/$record")$'\n'
    [[ $text =~ $status ]] ||
      echo "$record: line 3 is no status with a date"
    for heading in Context Decision Consequences; do
      [[ $text == *$'\n'"## $heading"$'\n'* ]] || echo "$record: there is no heading $heading"
    done
    [[ $list == *"(${record##*/})"* ]] || echo "$record: docs/adr/README.md does not list it"
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
