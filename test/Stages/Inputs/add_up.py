"""Reads remarks of exec-assign-buffers on standard input: the peak that the memory analysis
predicts and the terms after it must add up to the arena. Prints the number that did, and the terms.
"""

import re
import sys

FOUND = re.compile(r"predicts (\d+) bytes at \S+, the arena has (\d+) at [^:]*(?:: (.*))?$")
count, terms = 0, set()
for line in sys.stdin:
    found = FOUND.search(line)
    if not found:
        continue
    predicted, arena, listed = found.groups()
    total = int(predicted)
    for sign, number, name in re.findall(r"([+-]) (\d+) ([^,]+)", listed or ""):
        total += int(sign + number)
        terms.add(name)
    if total != int(arena):
        sys.exit(f"{total} is not {arena}: {line}")
    count += 1
print(f"{count} arenas:", *sorted(terms), sep="\n  ")
