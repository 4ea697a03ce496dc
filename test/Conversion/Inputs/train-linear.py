# Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Trains the stages of linear.mlir without a pipeline, and compares with a program.

usage: train-linear.py init|compare PROGRAM PREFIX STEPS: writes the first state of
each worker, or compares the last one; PROGRAM is the compiled program.
"""

import json
import struct
import subprocess
import sys

RATE = 0.0000152587890625


def matmul(a, b):
    return [[sum(x * y for x, y in zip(row, column)) for column in zip(*b)] for row in a]


def transposed(a):
    return [list(column) for column in zip(*a)]


def add(a, b, factor=1.0):
    return [[x + factor * y for x, y in zip(*rows)] for rows in zip(a, b)]


def first_weights(stage):
    return [[((3 * stage + 5 * i + 7 * j) % 9 - 4) / 4 for j in range(4)] for i in range(4)]


def train_step(weights, microbatches):
    """The gradients of a step, and the losses by microbatch."""
    gradients = [[[0.0] * 4 for _ in range(4)] for _ in weights]
    losses = []
    for microbatch in range(microbatches):
        inputs = [[[float(microbatch + i - j) for j in range(4)] for i in range(2)]]
        for w in weights:
            inputs.append(matmul(inputs[-1], w))
        dy = inputs.pop()
        losses.append(sum(v * v for row in dy for v in row) / 2)
        for stage in reversed(range(len(weights))):
            gradients[stage] = add(gradients[stage], matmul(transposed(inputs[stage]), dy))
            dy = matmul(dy, transposed(weights[stage]))
    return gradients, losses


def flat(tensor):
    return [float(v) for row in tensor for v in row]


def write_state(layout, prefix):
    for number, worker in enumerate(layout["workers"]):
        block = bytearray(worker["persistent"])
        for tensor in worker["tensors"]:
            if tensor["kind"] == "param":
                values = flat(first_weights(tensor["stage"]))
                struct.pack_into("16f", block, tensor["offset"], *values)
        with open(f"{prefix}.{number}", "wb") as file:
            file.write(block)


def compare(layout, prefix, steps):
    stages = 1 + max(t["stage"] for w in layout["workers"] for t in w["tensors"])
    weights = [first_weights(stage) for stage in range(stages)]
    for _ in range(steps):
        gradients, losses = train_step(weights, layout["microbatches"])
        weights = [add(w, g, -RATE) for w, g in zip(weights, gradients)]
    wanted = {"param": weights, "gradient": gradients}
    seen = [0.0] * len(losses)
    count = 0
    for number, worker in enumerate(layout["workers"]):
        with open(f"{prefix}.{number}", "rb") as file:
            block = file.read()
        assert len(block) == worker["persistent"], (number, len(block))
        for tensor in worker["tensors"]:
            size = tensor["bytes"] // 4
            found = struct.unpack_from(f"{size}f", block, tensor["offset"])
            if tensor["kind"] == "loss":
                seen = [a + b for a, b in zip(seen, found)]
                continue
            check(tensor, found, flat(wanted[tensor["kind"]][tensor["stage"]]))
            count += 1
    check("losses", seen, losses)
    print(f"{count} tensors and {len(losses)} losses are those of one process")


def check(what, found, wanted):
    largest = max(abs(v) for v in wanted)
    error = max(abs(a - b) for a, b in zip(found, wanted)) / largest
    assert error < 1e-5, (what, error, found, wanted)


def main():
    mode, program, prefix, steps = sys.argv[1:]
    text = subprocess.run([program, "layout"], check=True, capture_output=True, text=True).stdout
    layout = json.loads(text)
    if mode == "init":
        write_state(layout, prefix)
    else:
        compare(layout, prefix, int(steps))


if __name__ == "__main__":
    main()
