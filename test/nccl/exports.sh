#!/usr/bin/env bash
# Checks that libnccl.so.2 exports what NCCL's does, no more and no less. usage: exports.sh LIBRARY SYMBOLS
set -euo pipefail
library=$1 symbols=$2
expected=$(sed -n 's/^GC_NCCL_SYMBOL(\(.*\))/\1\np\1/p' "$symbols"; echo ncclResetDebugInitInternal)
# Sanitizers add a few names of their own.
found=$(nm -D --defined-only "$library" | awk '{ print $3 }' | grep -v '^_*\(asan\|ubsan\|tsan\|lsan\|sancov\)_')
diff <(sort <<<"$expected") <(sort <<<"$found") || { echo "$library does not export what is expected (<)" >&2; exit 1; }
readelf -d "$library" | grep -q 'SONAME.*\[libnccl.so.2\]' || { echo "$library is not named libnccl.so.2" >&2; exit 1; }
readelf -d "$library" | grep -q NODELETE || { echo "$library may be unloaded while threads run" >&2; exit 1; }
