"""Times of cells by other implementations against ours, to 1e-9.

usage: timed-goldens.py FOLDER PIPESCHED_OPT PIPESCHED_TRANSLATE

A file has a line `rank,action,start,end` per cell; its name has the durations, in
units of which one is a microsecond here. Rows are imported as PyTorch's CSV.
"""

import csv
import json
import pathlib
import re
import subprocess
import sys

folder, opt, translate = sys.argv[1:]


def run(*command, stdin=""):
    return subprocess.run(
        command, input=stdin.encode(), stdout=subprocess.PIPE, check=True
    ).stdout.decode()


def times_of(name):
    """The profile that the name of a file says."""
    if match := re.search(r"_F(\d+)_I(\d+)_W(\d+)_C(\d+)$", name):
        return "F={}us,I={}us,W={}us,comm={}us".format(*match.groups())
    comm = re.search(r"_p2p([\d.]+)", name).group(1)
    return f"F=1us,B=2us,comm={comm}us"


def timeline(name, rows):
    """(start, end) by cell, in microseconds."""
    schedule = run(translate, "--import-torch-csv", stdin="\n".join(map(",".join, rows)))
    with_times = run(
        opt,
        f'--pass-pipeline=builtin.module(pipe-attach-profile{{times="{times_of(name)}"}})',
        stdin=schedule,
    )
    sends = "sync" if name.endswith("_sync") else "async"
    trace = json.loads(
        run(
            translate,
            "--export-chrome-trace",
            "--transport=delay",
            f"--forward-sends={sends}",
            stdin=with_times,
        )
    )
    return {
        event["name"]: (event["ts"], event["ts"] + event["dur"])
        for event in trace["traceEvents"]
        if event["ph"] == "X" and event["tid"] == 0
    }


for path in sorted(pathlib.Path(folder).glob("*.csv")):
    with open(path) as file:
        cells = list(csv.DictReader(file))
    rows = [[] for _ in range(1 + max(int(cell["rank"]) for cell in cells))]
    for cell in cells:
        rows[int(cell["rank"])].append(cell["action"])
    found = timeline(path.stem, rows)
    assert len(found) == len(cells) > 0, path.stem
    for cell in cells:
        for ours, theirs in zip(found[cell["action"]], (cell["start"], cell["end"])):
            wanted = float(theirs)
            assert abs(ours - wanted) <= 1e-9 * max(1, abs(wanted)), (
                f"{path.stem} {cell['action']}: {ours}, not {wanted}"
            )
    print(f"{path.stem}: {len(cells)} cells agree")
