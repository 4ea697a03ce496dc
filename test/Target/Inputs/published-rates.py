"""Bubble rates of 1F1B against the published ones (Qi et al., ICLR 2024, tables 5 and 9).

usage: published-rates.py DATA.json PIPESCHED_OPT PIPESCHED_TRANSLATE
"""

import json
import subprocess
import sys

data, opt, translate = sys.argv[1:]
with open(data) as file:
    rows = json.load(file)["rows"]

passes = []
for number, row in enumerate(rows):
    name = f"row{number}"
    times = ",".join(f"{key}={value}ms" for key, value in row["profiled_ms"].items())
    passes += [
        f"pipe-create{{name={name} workers={row['workers']} microbatches={row['microbatches']}}}",
        f'pipe-attach-profile{{schedule={name} times="{times}"}}',
    ]
passes.append("pipe-schedule-1f1b")
module = subprocess.run(
    [opt, f"--pass-pipeline=builtin.module({','.join(passes)})"],
    input=b"module {}",
    stdout=subprocess.PIPE,
    check=True,
).stdout
report = subprocess.run(
    [translate, "--export-report", "--transport=delay"],
    input=module,
    stdout=subprocess.PIPE,
    check=True,
).stdout

entries = json.loads(report)
assert len(entries) == len(rows) > 0, "one entry per row"
for row, entry in zip(rows, entries):
    wanted = row["published_bubble_rate"]["1F1B"]
    found = round(entry["execution"]["span_bubble_ratio"], 4)
    print(f"{row['model']} {row['microbatches']} microbatches: {found} (published {wanted})")
    assert found == wanted, entry["schedule"]
