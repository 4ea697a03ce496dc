# usage: run-linear.sh CC SOURCE_DIR BUILD_DIR PYTHON OBJECT PROGRAM: links and
# runs one program of linear.mlir in both modes of messages, and compares.
set -e
cc=$1 source=$2 build=$3 python=$4 object=$5 program=$6
inputs=$source/test/Conversion/Inputs
$cc -O1 -DPROGRAM=$program -I $source/runtime/include $inputs/main.c $object \
  $build/lib/libpipesched_rt.a -lpthread -lm -ldl -o ./$program
$python $inputs/train-linear.py init ./$program $program-in 3
for messages in buffered rendezvous; do
  ./$program --steps=3 --state-in=$program-in --state-out=$program-$messages \
    --messages=$messages > $program.log
  grep temporaries $program.log
  $python $inputs/train-linear.py compare ./$program $program-$messages 3
done
