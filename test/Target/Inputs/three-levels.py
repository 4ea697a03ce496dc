"""GPipe and 1F1B, all sizes up to 16 by 16: with free messages the bubble ratio is
(D-1)/(N+D-1) by formula, table and execution; activation peaks are N and min(N, D-r).

usage: three-levels.py PIPESCHED_OPT PIPESCHED_TRANSLATE
"""

import json
import subprocess
import sys

opt, translate = sys.argv[1:]
SIZES = [(D, N) for D in range(1, 17) for N in range(1, 17)]
PEAKS = {"gpipe": lambda D, N, r: N, "1f1b": lambda D, N, r: min(N, D - r)}


def report_of(family):
    problems = "".join(
        f"pipe.schedule @d{D}_n{N} workers {D} microbatches {N} {{ path on {list(range(D))} }}\n"
        for D, N in SIZES
    )
    module = subprocess.run(
        [opt, f"--pass-pipeline=builtin.module(pipe-schedule-{family})"],
        input=problems.encode(),
        stdout=subprocess.PIPE,
        check=True,
    ).stdout
    return json.loads(
        subprocess.run(
            [translate, "--export-report"], input=module, stdout=subprocess.PIPE, check=True
        ).stdout
    )


for family, peak in PEAKS.items():
    entries = report_of(family)
    assert len(entries) == len(SIZES)
    for (D, N), entry in zip(SIZES, entries):
        wanted = (D - 1) / (N + D - 1)
        found = (
            entry["formula"]["bubble_ratio"],
            entry["formula"]["bubble_ratio_general"],
            entry["table"]["bubble_ratio"],
            entry["execution"]["idle_ratio"],
        )
        assert found == (wanted,) * 4, f"{family} {D} x {N}: {found}, not {wanted}"
        peaks = [peak(D, N, r) for r in range(D)]
        assert entry["table"]["peak_activations"] == peaks, f"{family} {D} x {N}"
        assert entry["formula"]["peak_activations"] == max(peaks), f"{family} {D} x {N}"
    print(f"{family}: {len(entries)} sizes agree")
