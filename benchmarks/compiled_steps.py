#!/usr/bin/env python3
"""Measures steps of compiled schedules whose cells last as long as a profile says.

Usage: compiled_steps.py RUN [--unit MS] [--steps N]

RUN is pipesched-run. Every cell of examples/stages/mlp.mlir sleeps until its time is over
(`--pace`), so that two cores are enough for four workers. Stages are uneven: the first and the last
take more. Prints for each family the median measured step next to the predicted one; the rest is
the overhead of messages, waits and threads. Other load on the machine wakes threads late: `chrt -r
5` in front of the command keeps it out.
"""

import argparse
import json
import pathlib
import re
import subprocess
import tempfile

MODEL = pathlib.Path(__file__).parent.parent / "examples" / "stages" / "mlp.mlir"
FAMILIES = {  # and the workers for the four stages of the model
    "gpipe": 4,
    "1f1b": 4,
    "eager-1f1b": 4,
    "zb-h1": 4,
    "zb-h2": 4,
    "chimera": 4,
    "dualpipe": 4,
    "interleaved-1f1b": 2,
    "zb-v": 2,
    "hanayo": 2,
}
SHARES = {  # of the unit, by stage
    "F": [1.5, 1.0, 1.0, 1.3],
    "B": [2.6, 2.0, 2.0, 2.4],
    "I": [1.4, 1.1, 1.1, 1.3],
    "W": [1.2, 0.9, 0.9, 1.1],
    "O": [0.2, 0.2, 0.2, 0.2],
}
STEP = re.compile(r"^step \(median\) +\d+ +([\d.]+) us +([\d.]+) us +([-+][\d.]+) %", re.M)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", help="pipesched-run")
    parser.add_argument("--unit", type=float, default=10.0, help="ms of a forward (default 10)")
    parser.add_argument("--steps", type=int, default=6, help="of each family (default 6)")
    arguments = parser.parse_args()
    profile = {
        phase: [f"{share * arguments.unit:g}ms" for share in shares]
        for phase, shares in SHARES.items()
    }
    with tempfile.TemporaryDirectory() as folder:
        times = pathlib.Path(folder, "times.json")
        times.write_text(json.dumps(profile | {"comm": "0us"}), encoding="utf-8")
        print(f"{'family':<20}{'measured':>12}{'predicted':>12}{'difference':>12}")
        for family, workers in FAMILIES.items():
            command = [arguments.run, str(MODEL), f"--schedule={family}", f"--workers={workers}"]
            command += ["--microbatches=8", f"--profile={times}", "--pace"]
            command += [f"--steps={arguments.steps}"]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            measured, predicted, difference = STEP.search(done.stdout).groups()
            print(
                f"{family:<20}{float(measured) / 1e3:>9.1f} ms{float(predicted) / 1e3:>9.1f} ms"
                f"{difference:>10} %",
                flush=True,
            )


if __name__ == "__main__":
    main()
