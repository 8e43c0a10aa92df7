#!/bin/sh
# Checks that the two environment modules of a build tree can be read and set the same, and that Spack's recipe is Python.
# usage: modulefiles.sh SOURCE BUILD PREFIX
set -eu
source=$1 build=$2 prefix=$3
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
make --no-print-directory -s -C "$build" modulefiles >/dev/null
lua=$(ls "$build"/contrib/modulefiles/*.lua)
tcl=${lua%.lua}

command -v tclsh >/dev/null || { echo "skipped: there is no tclsh (package tcl)"; exit 77; }
cat >"$directory/read.tcl" <<'END'
proc module-whatis {text} {}
proc conflict {name} {puts "conflict $name"}
proc prepend-path {name value} {puts "prepend $name $value"}
proc setenv {name value} {puts "set $name $value"}
source [lindex $argv 0]
END
tclsh "$directory/read.tcl" "$tcl" >"$directory/tcl"
grep -qx "prepend PATH $prefix/bin" "$directory/tcl" || { echo "the module for Tcl names no $prefix/bin:"; cat "$directory/tcl"; exit 1; }
! grep -n '@[A-Za-z_]*@' "$tcl" "$lua" || { echo "make has left a name open"; exit 1; }

lua_command=$(command -v lua5.4 || command -v lua || true)
test -n "$lua_command" || { echo "skipped: there is no lua (package lua5.4)"; exit 77; }
cat >"$directory/read.lua" <<'END'
function help() end
function whatis() end
function conflict(name) print("conflict " .. name) end
function prepend_path(name, value) print("prepend " .. name .. " " .. value) end
function setenv(name, value) print("set " .. name .. " " .. value) end
dofile(arg[1])
END
"$lua_command" "$directory/read.lua" "$lua" >"$directory/lua"
diff "$directory/tcl" "$directory/lua" || { echo "the modules for Tcl and Lua set different things"; exit 1; }

command -v python3 >/dev/null || { echo "skipped: there is no python3"; exit 77; }
python3 -c 'import sys; compile(open(sys.argv[1]).read(), sys.argv[1], "exec")' "$source/contrib/spack/package.py"
