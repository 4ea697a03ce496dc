"""Checks the loss of every step of a run, and that it took at least the given ms.

Usage: slowest.py MS LOSS < OUTPUT of pipesched-run or of an executable
"""

import re
import sys

least, loss = float(sys.argv[1]), sys.argv[2]
text = sys.stdin.read()
steps = re.findall(r"^step \d+: loss (\S+), ([\d.]+) ms$", text, re.M)
assert steps, text
for found, ms in steps:
    assert found == loss, f"loss {found}, wanted {loss}"
    assert float(ms) >= least, f"{ms} ms, wanted {least}"
print(f"all steps take at least {least:g} ms")
