#!/bin/sh
# A judge for pipesched-reduce, with the path of pipesched-opt as its argument:
# its exit status is 1 if the table of the file still has a cycle of waits.
! "$1" --pipe-verify "$2" 2>&1 | grep -q deadlock
