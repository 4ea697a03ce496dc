# usage: check_time.py MODEL PIPESCHED_RUN: the processor time of a run with --check, compared with
# one without it.
import resource
import subprocess
import sys


def seconds(*options):
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    subprocess.run([sys.argv[2], sys.argv[1], "--schedule=1f1b", "--steps=1", *options],
                   stdout=subprocess.DEVNULL, check=True)
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before


ratio = seconds("--check") / seconds()
print("a check takes", f"{ratio:.1f} times as long" if ratio > 3 else "up to 3 times as long")
