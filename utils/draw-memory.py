#!/usr/bin/env python3
"""Draws the activation memory of each worker over time, from Chrome traces.

Usage: draw-memory.py [--against TRACE] TRACE

TRACE is the output of `pipesched-translate --export-chrome-trace` for a schedule with a model. Each
worker has its own panel; the memory of the other trace is dashed. The picture goes to standard
output as SVG.
"""

import argparse
import json
import sys

COLUMNS = 4
PANEL = (200, 110)  # width, height
MARGIN = (58, 24)  # left of, and above, a panel
STYLE = """<style>
  text { font: 11px sans-serif; fill: #333 }
  path { fill: none; stroke-width: 1.5; stroke: #1f6fb4 }
  .other { stroke: #888; stroke-width: 1; stroke-dasharray: 4 2 }
  .frame { stroke: #bbb; stroke-width: 1 }
  @media (prefers-color-scheme: dark) { text { fill: #ccc } .frame { stroke: #555 } }
</style>"""


def read(name):
    """Returns the changes of memory of each worker, (us, GiB), and the end of its schedule."""
    with open(name, encoding="utf-8") as file:
        trace = json.load(file)
    events = trace["traceEvents"] if isinstance(trace, dict) else trace
    steps, end = {}, 0.0
    for event in events:
        if event["ph"] == "C" and event["name"].startswith("activation memory"):
            steps.setdefault(event["pid"], []).append((event["ts"], event["args"]["GiB"]))
        elif event["ph"] == "X":
            end = max(end, event["ts"] + event["dur"])
    if not steps:
        sys.exit(f"{name}: has no activation memory; the schedule needs a model")
    return steps, end


def curve(steps, end, most, kind):
    """Draws a step function in its panel, from its first to its last change."""
    width, height = PANEL

    def place(us, size):
        return f"{us / end * width:.1f}", f"{height - size / most * height:.1f}"

    points, before = [], 0.0
    for us, size in steps:
        x, y = place(us, size)
        points.append(f"{x} {place(us, before)[1]}L{x} {y}")
        before = size
    return f'<path class="{kind}" d="M{"L".join(points)}"/>'


def panel(worker, curves, most, seconds):
    """Draws the panel of one worker, with its axes."""
    width, height = PANEL
    x = MARGIN[0] + worker % COLUMNS * (width + MARGIN[0])
    y = MARGIN[1] + worker // COLUMNS * (height + 2 * MARGIN[1])
    return "\n".join(
        [
            f'<g transform="translate({x} {y})">',
            f'<path class="frame" d="M0 0V{height}H{width}"/>',
            f'<text x="4" y="-6">worker {worker}</text>',
            f'<text x="-4" y="8" text-anchor="end">{most:.0f} GiB</text>',
            f'<text x="{width}" y="{height + 13}" text-anchor="end">{seconds:.2f} s</text>',
            *curves,
            "</g>",
        ]
    )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--against")
    parser.add_argument("trace")
    arguments = parser.parse_args()
    traces = [(*read(arguments.trace), "found")]
    if arguments.against:
        traces.insert(0, (*read(arguments.against), "other"))
    end = max(last for _, last, _ in traces)
    most = max(size for steps, _, _ in traces for row in steps.values() for _, size in row)
    workers = sorted({worker for steps, _, _ in traces for worker in steps})
    rows = -(-len(workers) // COLUMNS)
    width = MARGIN[0] + min(COLUMNS, len(workers)) * (PANEL[0] + MARGIN[0])
    height = rows * (PANEL[1] + 2 * MARGIN[1])
    print(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}">')
    print(STYLE)
    for number, worker in enumerate(workers):
        curves = [
            curve(steps[worker], end, most, kind) for steps, _, kind in traces if worker in steps
        ]
        print(panel(number, curves, most, end / 1e6))
    print("</svg>")


if __name__ == "__main__":
    main()
