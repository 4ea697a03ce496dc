#!/usr/bin/env python3
"""How large pages are, and how long a browser takes to open and to redraw them.

Usage: .venv/bin/python benchmarks/pages.py [--microbatches LIST] [--runs N]

1F1B on 64 workers in headless Chromium (CHROMIUM names another one than Debian's). `equal` stages
have the same times; `stages` have times of their own; `cells` each cell has, which packs worst.
"""

import argparse
import os
import random
import re
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import pipesched
from pipesched import Simulation
from playwright.sync_api import Browser, sync_playwright

WORKERS = 64
TIMES = "F=18.522ms,B=27.423ms,comm=0.601ms"
SWITCHES = ("critical", "idle", "messages", "memory")


def equal(microbatches: int) -> Simulation:
    schedule = pipesched.generate("1f1b", workers=WORKERS, microbatches=microbatches)
    return schedule.simulate(times=TIMES, transport="delay")


def of_stages(microbatches: int) -> Simulation:
    draw = random.Random(0)
    lists = (
        f"{name}=[" + ",".join(f"{draw.uniform(low, high):.9f}ms" for _ in range(WORKERS)) + "]"
        for name, low, high in (("F", 17, 20), ("B", 25, 30))
    )
    schedule = pipesched.generate("1f1b", workers=WORKERS, microbatches=microbatches)
    return schedule.simulate(times=f"{','.join(lists)},comm=0.601ms", transport="delay")


def of_cells(microbatches: int) -> Simulation:
    """Instructions state their work; dgx-h100 makes times of it."""
    draw = random.Random(0)
    schedule = pipesched.generate("1f1b", workers=WORKERS, microbatches=microbatches)
    text = schedule.transform("convert-pipe-to-exec").to_text()
    text = re.sub(
        r"(?m)( = compute .*)$",
        lambda found: f"{found[1]} flops {draw.randrange(10**13, 2 * 10**13)}",
        text,
    )
    text = re.sub(r"(?m)( = send .*)$", r"\1 bytes 16777216", text)
    program = pipesched.Schedule.from_text(text)
    return program.simulate(system="dgx-h100", transport="delay")


CASES: dict[str, Callable[[int], Simulation]] = {
    "equal": equal,
    "stages": of_stages,
    "cells": of_cells,
}


def opened(browser: Browser, file: Path, runs: int) -> dict[str, float]:
    """Medians: seconds until all is drawn, by the clock and of CPU time of the page's process; ms
    to draw all of it again with every switch on.
    """
    found: dict[str, list[float]] = defaultdict(list)
    for _ in range(runs):
        context = browser.new_context(viewport={"width": 1600, "height": 1000})
        page = context.new_page()
        metrics = context.new_cdp_session(page)
        metrics.send("Performance.enable")
        page.goto(file.as_uri())
        page.wait_for_selector("html[data-opened]", state="attached", timeout=300_000)
        listed = metrics.send("Performance.getMetrics")["metrics"]
        found["cpu"] += [entry["value"] for entry in listed if entry["name"] == "ProcessTime"]
        found["open"].append(page.evaluate("pipeschedPage.openedMs") / 1e3)
        for name in SWITCHES:
            page.evaluate(f"pipeschedPage.panels[0].toggle('{name}', true)")
        redraw = "(({panels: [panel]}) => (panel.drawNow(), panel.drawnInMs))(pipeschedPage)"
        page.evaluate(redraw)
        found["redraw"] += [page.evaluate(redraw) for _ in range(5)]
        page.evaluate("pipeschedPage.panels[0].zoom(50)")
        found["zoomed"] += [page.evaluate(redraw) for _ in range(5)]
        context.close()
    return {name: statistics.median(values) for name, values in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--microbatches", default="512,7813")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--times", default=",".join(CASES))
    arguments = parser.parse_args()
    print("| cells | times of | MB | write | open | CPU | redraw, all shown | redraw, zoomed |")
    print("|---|---|---|---|---|---|---|---|")
    with sync_playwright() as play, tempfile.TemporaryDirectory() as folder:
        browser = play.chromium.launch(
            executable_path=os.environ.get("CHROMIUM", "/usr/bin/chromium"), args=["--no-sandbox"]
        )
        for microbatches in map(int, arguments.microbatches.split(",")):
            for name in arguments.times.split(","):
                simulation = CASES[name](microbatches)
                begin = time.process_time()
                text = pipesched.page([simulation])
                wrote = time.process_time() - begin
                file = Path(folder) / "page.html"
                file.write_text(text)
                found = opened(browser, file, arguments.runs)
                print(
                    f"| {2 * WORKERS * microbatches:,} | {name} | {len(text) / 1e6:.2f}"
                    f" | {wrote:.1f} s | {found['open']:.2f} s | {found['cpu']:.2f} s"
                    f" | {found['redraw']:.0f} ms"
                    f" | {found['zoomed']:.0f} ms |",
                    flush=True,
                )
        browser.close()


if __name__ == "__main__":
    main()
