"""GPipe and 1F1B of the paper's model on its baseline system, transport `blocking`:
the same step to the picosecond (arXiv 2605.24006), for 8 to 64 microbatches.

usage: blocking-steps.py PIPESCHED_OPT PIPESCHED_TRANSLATE
"""

import json
import subprocess
import sys

opt, translate = sys.argv[1:]
SIZES = [(D, N) for D in (4, 8) for N in range(8, 65)]


def steps_of(family):
    problems = "".join(
        f"pipe.schedule @d{D}_n{N} workers {D} microbatches {N} {{ path on {list(range(D))} }}\n"
        for D, N in SIZES
    )
    passes = (
        f"pipe-schedule-{family}",
        "pipe-attach-model{name=paper-gpt microbatch-size=2}",
        "pipe-attach-system{name=baseline}",
    )
    module = subprocess.run(
        [opt, f"--pass-pipeline=builtin.module({','.join(passes)})"],
        input=problems.encode(),
        stdout=subprocess.PIPE,
        check=True,
    ).stdout
    report = subprocess.run(
        [translate, "--export-report", "--transport=blocking"],
        input=module,
        stdout=subprocess.PIPE,
        check=True,
    ).stdout
    return [entry["execution"] for entry in json.loads(report)]


for size, gpipe, one_f_one_b in zip(SIZES, steps_of("gpipe"), steps_of("1f1b"), strict=True):
    assert gpipe["exposed_communication_ps"] > 0, "messages cost nothing"
    found = gpipe["makespan_ps"], one_f_one_b["makespan_ps"]
    assert found[0] == found[1], f"workers, microbatches {size}: steps {found} ps"
print(f"{len(SIZES)} sizes take the same step")
