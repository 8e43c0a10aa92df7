#!/usr/bin/env bash
# Checks that each room of src includes the rooms that its line of rooms.txt names, and no others.
# usage: rooms.sh SOURCE_TREE
# Then it adds an include that is not allowed to a copy of src, takes away all of a room that are, and expects that the
# check finds both.
set -euo pipefail
tree=$1
table=$tree/test/unit/rooms.txt

# Prints "FILE:LINE: ROOM may not include ROOM (HEADER)" for each include that the table does not allow, each room
# without a line in the table, and then each room that a line names in vain. A header is looked for from src, then beside
# the file that includes it.
check() {  # check SRC
  find "$1" -path '*/stub/*' -prune -o -type f \( -name '*.h' -o -name '*.c' -o -name '*.cpp' -o -name '*.cu' -o -name '*.def' \) -print0 | sort -z |
    xargs -0 awk -v src="$1/" -v table="$table" '
      function room_of(path) { sub(/\/[^\/]*$/, "", path); return path }
      function exists(path,   line, found) { found = (getline line < path) >= 0; close(path); return found }
      BEGIN {
        while ((getline line < table) > 0) {
          if (line ~ /^#/ || line == "") continue
          split(line, part, /: */)
          known[part[1]] = 1
          count = split(part[2], names, / +/)
          for (i = 1; i <= count; ++i) if (names[i] != "") allowed[part[1], names[i]] = line_number++
        }
      }
      FNR == 1 {
        room = room_of(substr(FILENAME, length(src) + 1))
        if (!(room in known) && !(room in told)) { print "src/" room " has no line in test/unit/rooms.txt"; told[room] = 1 }
      }
      match($0, /^ *# *include "[^"]+"/) {
        header = $0
        sub(/^[^"]*"/, "", header); sub(/".*/, "", header)
        if (!exists(src header)) next  # beside the file, generated, or not ours
        other = room_of(header)
        used[room, other] = 1
        if (other != room && !((room, other) in allowed))
          print FILENAME ":" FNR ": " room " may not include " other " (" header ")"
      }
      END {
        for (pair in allowed) {
          split(pair, names, SUBSEP)
          if (!(pair in used)) vain[allowed[pair]] = names[1] " includes nothing of " names[2] ", which test/unit/rooms.txt lets it include"
        }
        for (i = 0; i < line_number; ++i) if (i in vain) print vain[i]
      }'
}

found=$(check "$tree/src")
[[ -z $found ]] || { printf '%s\n' "$found"; exit 1; }

copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
cp -r "$tree/src" "$copy/src"
echo '#include "core/peer/peers.h"' >>"$copy/src/net/bootstrap/socket.h"
sed -i '/# *include "mca\/pt2pt\//d' "$copy"/src/mca/osc/*.[ch]
mkdir "$copy/src/attic" && : >"$copy/src/attic/empty.h" && echo >>"$copy/src/attic/empty.h"
expected="src/attic has no line in test/unit/rooms.txt
$copy/src/net/bootstrap/socket.h:$(wc -l <"$copy/src/net/bootstrap/socket.h"): net/bootstrap may not include core/peer (core/peer/peers.h)
mca/osc includes nothing of mca/pt2pt, which test/unit/rooms.txt lets it include"
found=$(check "$copy/src")
[[ $found == "$expected" ]] || { printf 'rooms.sh does not find what is not allowed, but this:\n%s\n' "$found"; exit 1; }
echo "$(grep -c : "$table") rooms include what they may"
