#!/bin/sh
# Compiles the MPI runtime of compiled schedules as a static library.
#
# Usage: build-mpi.sh MPICC LIBRARY [FLAG...]
#
#   MPICC    the compiler of the MPI that will run the program, such as mpicc
#   LIBRARY  the file to write, such as libpipesched_rt_mpi.a
#   FLAG     further flags of the compiler
#
# Link a compiled schedule with it by the same MPICC:
#
#   mpicc main.c schedule.o libpipesched_rt_mpi.a -lm -lpthread -ldl -o train
set -eu

if [ $# -lt 2 ]; then
  sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2
  exit 2
fi
mpicc=$1
library=$2
shift 2
command -v "$mpicc" >/dev/null || {
  echo "error: $mpicc not found: name the compiler of your MPI" >&2
  exit 1
}

root=$(cd "$(dirname "$0")" && pwd)
objects=$(mktemp -d "$library.XXXXXX")
trap 'rm -rf "$objects"' EXIT
trap 'exit 1' HUP INT TERM
for source in Blas Copies Files Log Mpi MpiGroups MpiMain \
  Options Reduce Training Worker; do
  "$mpicc" -std=c11 -O2 -fPIC -fvisibility=hidden -pthread \
    -I"$root/include" "$@" -c "$root/lib/$source.c" -o "$objects/$source.o"
done
rm -f "$library"
ar rcs "$library" "$objects"/*.o
