#!/usr/bin/env python3
"""Draws the measured steps of docs/images/run above each other with their predictions.

Usage: draw-measured.py [--check] FOLDER
       draw-measured.py --take OUT/NAME FOLDER

NAME.measurement.json has one step, NAME.times the times that the prediction is made from, NAME.svg
is drawn from both. --take copies the median step and the times from what `pipesched run -o OUT` has
written. --check prints the pictures that are not what is drawn, and fails if there are any.

It needs the Python package: .venv/bin/python utils/draw-measured.py docs/images/run
"""

import argparse
import dataclasses
import pathlib
import sys

from pipesched import Costs, Measurement


def median_step(measurement):
    """The measurement without its other steps."""
    step = measurement.median_step
    chosen = slice(step, step + 1)
    stamps = tuple(
        dataclasses.replace(
            each, **{f.name: getattr(each, f.name)[chosen] for f in dataclasses.fields(each)}
        )
        for each in measurement.stamps
    )
    return dataclasses.replace(measurement, numbers=measurement.numbers[chosen], stamps=stamps)


def take(source, folder):
    """Copies what a picture is drawn from."""
    measurement = Measurement.from_file(f"{source}.measurement.json")
    times = Measurement.from_file(f"{source}.calibration.json").profile(issue=True)
    folder.mkdir(parents=True, exist_ok=True)
    kept = median_step(measurement).to_json()
    (folder / f"{source.name}.measurement.json").write_text(kept + "\n")
    (folder / f"{source.name}.times").write_text(times + "\n")


def picture(file):
    """The predicted above the measured step."""
    times = file.with_name(file.name.replace(".measurement.json", ".times")).read_text().strip()
    return Measurement.from_file(file).compare(Costs(times=times)).to_svg()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--take", type=pathlib.Path)
    parser.add_argument("folder", type=pathlib.Path)
    arguments = parser.parse_args()
    if arguments.take:
        take(arguments.take, arguments.folder)
    stale = []
    for file in sorted(arguments.folder.glob("*.measurement.json")):
        drawn = file.with_name(file.name.replace(".measurement.json", ".svg"))
        if not arguments.check:
            drawn.write_text(picture(file), encoding="utf-8")
        elif not drawn.is_file() or drawn.read_text(encoding="utf-8") != picture(file):
            stale.append(drawn)
    for file in stale:
        print(f"{file}: not what utils/draw-measured.py draws")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
