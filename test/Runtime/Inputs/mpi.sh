# The tests of one MPI: mpi.sh MPI CC RUNTIME FOLDER. MPI is mpich or openmpi; CC compiles the
# programs, RUNTIME is the folder runtime/ of the sources or of an installation.
set -eu

mpi=$1 cc=$2 runtime=$3
inputs=$(cd "$(dirname "$0")" && pwd)
rm -rf "$4" && mkdir -p "$4" && cd "$4"

# Open MPI starts no more processes than there are cores, and none for root, by default.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1

# run NUMBER PROGRAM [OPTION...]: a hang ends as a failure. A run takes a second, and half a minute
# where ten others want each core.
run() {
  number=$1
  shift
  timeout 600 "mpirun.$mpi" -n "$number" "$@"
}

# fail FAULT: runs the program that fails; prints its messages, without mpirun's.
fail() {
  echo "fault: $1"
  if FAULT=$1 run 3 ./faults --steps=3 > fault 2>&1; then
    echo "the job did not fail"
  elif [ $? = 124 ]; then
    echo "the job hangs"
  fi
  grep '^error: rank' fault || true
}

"$runtime/build-mpi.sh" "mpicc.$mpi" mpi.a
"$runtime/build-mpi.sh" "mpicc.$mpi" few.a -DPIPESCHED_RT_MPI_COUNT=100
for name in ring faults; do
  "$cc" -std=c11 -I"$runtime/include" -c "$inputs/$name.c" -o "$name.o"
  "mpicc.$mpi" "$name.o" mpi.a -pthread -o "$name"
done
"mpicc.$mpi" ring.o few.a -pthread -o few

for options in "" "--blocking --messages=buffered" --messages=buffered \
  --messages=rendezvous; do
  # shellcheck disable=SC2086 # options are words
  run 4 ./ring --steps=3 $options > steps
  echo "ring $options: $(grep -c '^step [0-2]: [0-9]* ns$' steps) steps"
done
run 4 ./few --steps=3 > steps
echo "few: $(grep -c '^step' steps) steps"
# The last worker is late in each step, so that a step which others began without it shows.
PAUSE_MS=900 run 4 ./ring --steps=3 --first-step=1 --state-out=a --log=l > steps
run 4 ./ring --steps=2 --first-step=4 --state-in=a --state-out=b > steps
od -An -td8 b.3
python3 "$inputs/read-log.py" 4 l

run 3 ./faults --steps=3 > steps
for fault in fail status short long busy peer request member; do
  fail "$fault"
done
fail kill
echo "a process that is stopped:"
FAULT=stop run 3 ./faults --steps=3 --timeout=2 > fault 2>&1 && echo "the job did not fail"
grep -o 'waited 2 s for .*; no answer from rank [0-9]*' fault | grep -o 'no answer.*' | sort -u
echo "2 processes:"
run 2 ./ring 2>&1 | grep '^error' || true
echo "wrong option:"
run 4 ./ring --stepps=1 2>&1 | grep '^error' || true
echo "no state:"
run 4 ./ring --state-in=none 2>&1 | grep -o 'cannot open' | head -1
run 4 ./ring --layout
