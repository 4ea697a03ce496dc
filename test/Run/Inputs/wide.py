#!/usr/bin/env python3
"""Runs every schedule family at several sizes, and compares with the unpipelined model.

Usage: wide.py RUN GENERATOR [FAMILY...]

RUN is pipesched-run, GENERATOR writes perceptrons (examples/stages/mlp.py). Each case trains two
steps with --check under rendezvous, half of them under buffered messages too, and one case of each
family with recomputation, and with offload. Prints a line per case and the number of cases; fails
if one does.
"""

import itertools
import re
import subprocess
import sys

FAMILIES = """gpipe 1f1b eager-1f1b interleaved-1f1b looped-bfs chimera hanayo zb-h1 zb-h2 zb-v
zb-auto v-half v-min interleaved-zb dualpipe dualpipe-v mpmd-circular greedy""".split()
SIZES = [(2, 8), (4, 12), (8, 24)]
# The families that fill memory by an option, and the option.
OPTIONS = {"zb-auto": ["--memory=6"]}
NEEDS = re.compile(r"needs (\d+); take another")


class Models:
    """Perceptrons of unequal stages, by number of stages."""

    def __init__(self, generator):
        self.generator = generator
        self.texts = {}

    def get(self, stages):
        if stages not in self.texts:
            widths = ",".join(str(3 + 5 * i % 7) for i in range(stages + 1))
            command = [sys.executable, self.generator, "--stages", str(stages), "--widths", widths]
            command += ["--backward", "both", "--microbatches", "8", "--workers", str(stages)]
            self.texts[stages] = subprocess.run(
                command, check=True, capture_output=True, text=True
            ).stdout
        return self.texts[stages]


class Runner:
    def __init__(self, run, models):
        self.run = run
        self.models = models
        self.failed = 0
        self.count = 0

    def start(self, stages, options):
        command = [self.run, "-", "--steps=2", "--check", *options]
        return subprocess.run(
            command, input=self.models.get(stages), capture_output=True, text=True, timeout=600
        )

    def train(self, family, workers, microbatches, *more):
        """Trains with as many stages as the family needs on these workers."""
        options = [f"--schedule={family}", f"--workers={workers}", *OPTIONS.get(family, [])]
        options += [f"--microbatches={microbatches}", *more]
        stages = workers
        done = self.start(stages, options)
        needed = NEEDS.search(done.stderr)
        if needed:
            stages = int(needed[1])
            done = self.start(stages, options)
        self.count += 1
        verdict = "passed" if done.returncode == 0 and "check: passed" in done.stdout else "FAILED"
        print(verdict, family, f"D={workers} N={microbatches} stages={stages}", *more, flush=True)
        if verdict == "FAILED":
            self.failed += 1
            print(done.stdout, done.stderr, flush=True)


def main():
    run, generator, *families = sys.argv[1:]
    runner = Runner(run, Models(generator))
    for family in families or FAMILIES:
        for (workers, microbatches), messages in itertools.product(
            SIZES, ("rendezvous", "buffered")
        ):
            if messages == "rendezvous" or workers == 4:
                runner.train(family, workers, microbatches, f"--messages={messages}")
        for change in ("pipe-add-recompute", "pipe-add-offload"):
            runner.train(family, 4, 12, f"--pipeline={change}")
    print(f"{runner.count} cases, {runner.failed} failed")
    return 1 if runner.failed else 0


if __name__ == "__main__":
    sys.exit(main())
