#!/bin/sh
# with_python.sh COMMAND...: runs a command that needs /usr/bin/python3; skipped (77) where there is none.
[ -x /usr/bin/python3 ] || { echo "skipped: there is no /usr/bin/python3"; exit 77; }
exec "$@"
