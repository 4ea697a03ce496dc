#!/usr/bin/env python3
"""Compares costs of a transformer: closed formula, described model, and functions of stages.

Usage: transformer_costs.py OPT GENERATOR [SIZES...]

OPT is pipesched-opt, GENERATOR writes transformers (examples/stages/transformer.py). SIZES are
HIDDEN,HEADS,FEEDFORWARD,SEQUENCE,MICROBATCH,VOCABULARY. Three stages of one layer each give the
costs of the embedding, a layer and the head in F, I and W; pipe-attach-model of the same sizes
gives them again. Prints a table for each size, of one microbatch; fails if FLOPs of products differ
from each other, or bytes of products by anything except the sums to which functions add them.
"""

import collections
import itertools
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ELEMENT = 4  # bytes of f32
BLOCK = re.compile(r'block "([^"]*)".*\{((?:\n *kernel .*)*)')
KERNEL = re.compile(r'kernel "([^"]*)"(?: x (\d+))? on (\w+)(.*)')
WORK = re.compile(r"\b([FIW]) <(\d+) flops, (\d+) bytes>")
FIELDS = ["hidden", "heads", "mlp", "sequence", "microbatch-size", "vocabulary"]
NORMS = {"embedding": 0, "layer": 2, "head": 1}


class Work(collections.Counter):
    """FLOPs and bytes by kind of kernel and phase. The sum over gradient times scale in the I of a
    norm is a product of a matrix and a vector: it has a separate kind."""

    def __init__(self, text=""):
        super().__init__()
        for name, times, engine, phases in KERNEL.findall(text):
            kind = "product" if engine == "matrix" else "other"
            if engine == "matrix" and name.endswith("linalg.generic"):
                kind = "norm"
            if engine not in ("matrix", "vector"):
                continue  # messages among accelerators
            for phase, flops, size in WORK.findall(phases):
                self[kind, phase, "flops"] += int(times or 1) * int(flops)
                self[kind, phase, "bytes"] += int(times or 1) * int(size)


def blocks(opt, text, pipeline):
    command = [opt, f"--pass-pipeline=builtin.module({pipeline})"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr)
    return {name: Work(kernels) for name, kernels in BLOCK.findall(done.stdout)}


def of_functions(opt, generator, size):
    options = ["--stages=3", "--layers=1,1,1", "--backward=split"]
    options += [f"--{field}={value}" for field, value in size.items()]
    command = [sys.executable, generator, *options]
    model = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    first, layer, last = blocks(opt, model, "pipe-attach-stage-costs").values()
    first.subtract(layer)
    last.subtract(layer)
    return {"embedding": first, "layer": layer, "head": last}


def of_description(opt, size):
    model = {
        "name": "m", "description": "m", "layers": 3,
        "hidden": size["hidden"], "feedforward": size["mlp"], "sequence": size["sequence"],
        "vocabulary": size["vocabulary"], "attention_heads": size["heads"],
        "key_value_heads": size["heads"], "attention": "unfused", "activation": "gelu",
        "norm": "layer", "learned_positions": True, "bytes_per_element": ELEMENT,
    }  # fmt: skip
    schedule = "pipe.schedule @s workers 3 microbatches 8 { path on [0, 1, 2] }"
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "model.json"
        file.write_text(json.dumps(model))
        options = f"file={file} microbatch-size={size['microbatch-size']}"
        return blocks(opt, schedule, f"pipe-attach-model{{{options}}}")


def of_formula(size):
    """FLOPs of products, and elements of their results (docs/CostModel.md)."""
    h, f, s, v = size["hidden"], size["mlp"], size["sequence"], size["vocabulary"]
    tokens = size["microbatch-size"] * s
    scores = tokens * s * size["heads"]
    linear = 8 * tokens * h * h + 4 * tokens * h * f
    attention, one, head = 4 * tokens * s * h, tokens * h, 2 * tokens * h * v
    return {
        "embedding": {"F": (0, 0), "I": (0, 0), "W": (0, 0)},
        "layer": {
            "F": (linear + attention, 6 * one + tokens * f + scores),
            "I": (linear + 2 * attention, 8 * one + tokens * f + scores),
            "W": (linear, 4 * h * h + 2 * h * f),
        },
        "head": {"F": (head, tokens * v), "I": (head, one), "W": (head, h * v)},
    }


def compare(opt, generator, size):
    """Prints the table of a size, and returns the number of wrong rows."""
    tokens = size["microbatch-size"] * size["sequence"]
    functions, described = of_functions(opt, generator, size), of_description(opt, size)
    formula = of_formula(size)
    print(", ".join(f"{field} {value}" for field, value in size.items()))
    print(f"{'':11}{'FLOPs of products':>33}{'bytes of products':>22}{'bytes of others':>22}")
    columns = ["formula"] + ["described", "functions"] * 3
    print(f"{'':11}" + "".join(f"{column:>11}" for column in columns))
    wrong = 0
    for part, phase in itertools.product(functions, "FIW"):
        flops, results = formula[part][phase]
        works = described[part], functions[part]
        row = [work[key] for key in (("product", phase, "flops"), ("product", phase, "bytes"),
                                     ("other", phase, "bytes")) for work in works]  # fmt: skip
        norm = 2 * tokens * size["hidden"] * NORMS[part] if phase == "I" else 0
        right = row[:2] == [flops, flops] and row[3] - row[2] == ELEMENT * results
        right = right and functions[part]["norm", phase, "flops"] == norm
        wrong += not right
        numbers = "".join(f"{number:11}" for number in (flops, *row))
        print(f"{part:9} {phase}{numbers}{'' if right else '  WRONG'}")
    return wrong


def main():
    opt, generator, *sizes = sys.argv[1:]
    wrong = 0
    for text in sizes or ["32,4,128,16,2,64"]:
        size = dict(zip(FIELDS, map(int, text.split(",")), strict=True))
        wrong += compare(opt, generator, size)
    print(f"{wrong} rows are wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
