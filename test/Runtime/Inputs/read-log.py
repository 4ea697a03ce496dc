"""Prints the contents of a log of the runtime, and checks that its times are possible.

Usage: read-log.py WORKERS PREFIX
"""

import struct
import sys


def read(name):
    with open(name, "rb") as file:
        data = file.read()
    magic, worker, workers, first, steps, instructions = struct.unpack_from("<8siiqqq", data)
    assert magic == b"PSRTLOG1", magic
    times = struct.unpack_from(f"<{(len(data) - 40) // 8}q", data, 40)
    spans = list(zip(times[::2], times[1::2], strict=True))
    assert len(spans) == steps * (instructions + 1)
    count = steps * instructions
    by_step = [spans[i : i + instructions] for i in range(0, count, instructions)]
    return worker, workers, first, by_step, spans[count:]


def main():
    workers, prefix = int(sys.argv[1]), sys.argv[2]
    logs = [read(f"{prefix}.{worker}") for worker in range(workers)]
    for worker, (number, total, first, by_step, steps) in enumerate(logs):
        assert (number, total) == (worker, workers)
        for spans, (begin, end) in zip(by_step, steps, strict=True):
            for start, stop in spans:
                assert (start, stop) == (-1, -1) or begin <= start <= stop <= end
        ran = [sum(span != (-1, -1) for span in spans) for spans in by_step]
        print(f"worker {worker}: steps from {first}, instructions that ran: {ran}")
    # Steps start together: on one clock, each starts after all earlier ones have ended. Ranks
    # measure the differences of their clocks by messages, which wait for a core on a loaded
    # machine. The last worker is late by much more, so others would start long before it ends.
    blur = 50_000_000
    for step in range(len(logs[0][4]) - 1):
        ends = [steps[step][1] for *_, steps in logs]
        last = max(ends)
        assert last - min(ends) > 3 * blur, ends
        assert min(steps[step + 1][0] for *_, steps in logs) >= last - blur


main()
