"""Checks the requirements of viewers for a Chrome trace: slices of a thread do not overlap, flows
start at a slice, lead forward and end in a slice.

usage: check-trace.py < TRACE.json
"""

import collections
import json
import sys

events = json.load(sys.stdin)["traceEvents"]
slices = collections.defaultdict(list)
flows = collections.defaultdict(list)
for event in events:
    if event["ph"] == "X":
        slices[event["pid"], event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
    elif event["ph"] in "stf":
        flows[event["id"]].append(event)

for track, spans in slices.items():
    spans.sort()
    for (_, end), (begin, _) in zip(spans, spans[1:]):
        assert begin >= end - 1e-9, f"slices of {track} overlap at {begin}"
for steps in flows.values():
    kinds = "".join(step["ph"] for step in steps)
    assert kinds in ("sf", "stf"), kinds
    times = [step["ts"] for step in steps]
    assert times == sorted(times), times
    assert steps[-1]["bp"] == "e"
    for step in steps:
        spans = slices[step["pid"], step["tid"]]
        assert any(begin <= step["ts"] <= end for begin, end in spans), step

processes = {event["pid"] for event in events if event.get("name") == "process_name"}
cells = sum(len(spans) for (_, thread), spans in slices.items() if thread == 0)
print(f"{len(processes)} processes, {cells} cells, {len(flows)} messages")
