"""Compares the remark of pipe-optimize with the report of its schedule.

usage: optimized-times.py REMARKS REPORT

The makespan found must equal the timeline's, to the picosecond.
"""

import decimal
import json
import re
import sys

UNITS = {"s": 12, "ms": 9, "us": 6, "ns": 3, "ps": 0}

remarks, report = sys.argv[1:]
with open(remarks) as file:
    found = re.search(r"remark: @(\w+): makespan ([0-9.]+)([a-z]+),", file.read())
name, number, unit = found.groups()
wanted = decimal.Decimal(number).scaleb(UNITS[unit])
with open(report) as file:
    makespans = {entry["schedule"]: entry["execution"]["makespan_ps"] for entry in json.load(file)}
assert makespans[name] == wanted, f"{name}: {makespans[name]} ps, not {wanted}"
print(f"@{name} takes what was found")
