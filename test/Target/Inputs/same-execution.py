"""Compares two reports: the timed work must be the same, independent of its source.

usage: same-execution.py PIPE_REPORT EXEC_REPORT
"""

import json
import sys


def load(path):
    with open(path) as file:
        return json.load(file)


tables, programs = map(load, sys.argv[1:])
assert len(tables) == len(programs) > 0, "the reports differ in length"
for table, program in zip(tables, programs):
    name = table["schedule"]
    assert (table["kind"], program["kind"]) == ("schedule", "program"), name
    for key in ("schedule", "family", "workers", "stages", "microbatches", "memory"):
        assert table[key] == program[key], f"{name}: {key}"
    for key in table["execution"].keys() - {"receive_placement"}:
        wanted, found = table["execution"][key], program["execution"][key]
        assert wanted == found, f"{name}: {key} is {wanted} from pipe, {found} from exec"
print(f"{len(tables)} schedules are timed alike")
