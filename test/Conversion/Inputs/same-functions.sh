#!/bin/sh
# Usage: same-functions.sh OPT SCHEDULE.mlir [DIRECT [EXEC [BUFFERS [FUNC]]]]
# Compares the result of convert-pipe-to-func for a schedule with the result of
# the three passes in between; each has the options of its argument.
set -e
"$1" "$2" --convert-pipe-to-func="$3" -o "$2.direct"
"$1" "$2" --convert-pipe-to-exec="$4" --exec-assign-buffers="$5" \
  --convert-exec-to-func="$6" -o "$2.ops"
diff "$2.direct" "$2.ops" > /dev/null || { echo "$2: not the same"; exit 1; }
echo "$2: the same, $(grep -c 'func.func' "$2.ops") functions"
