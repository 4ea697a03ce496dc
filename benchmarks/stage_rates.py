#!/usr/bin/env python3
"""Compares the speed of compiled stages with PyTorch, both on one core.

Usage: stage_rates.py RUN [--repeats N] [--sizes WIDTHxHEADSxTOKENSxBATCH,..]

RUN is pipesched-run. The blocks are layers of a GPT and of a Llama, exported by
`pipesched.frontends`, forward and backward, which needs PyTorch and torch-mlir. Prints the times of
the fastest of `--repeats` runs, and ratios: above 1, compiled stages are faster.
"""

import argparse
import itertools
import json
import pathlib
import subprocess
import tempfile
import time

import torch

torch.set_num_threads(1)


def run_times(run, text, repeats, parameters):
    """The shortest time of each instruction of the only worker, in seconds."""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder, "model.mlir")
        file.write_text(text, encoding="utf-8")
        measured = pathlib.Path(folder, "measured.json")
        command = [run, str(file), f"--steps={repeats + 1}", f"--write-measurement={measured}"]
        command.append(f"--parameters={parameters}")
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        worker = json.loads(measured.read_text(encoding="utf-8"))["workers_ns"][0]
    spans = zip(worker["start"], worker["end"])
    times = [[end - start for start, end in zip(*step)] for step in spans]
    return [min(each) / 1e9 for each in zip(*times)]


def shortest(function, repeats):
    times = []
    for _ in range(repeats + 1):
        begin = time.perf_counter()
        function()
        times.append(time.perf_counter() - begin)
    return min(times)


def block_of(width, heads, tokens):
    from torch import nn
    from torch.nn import functional

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x):
            batch = x.shape[0]
            parts = self.qkv(self.first(x)).view(batch, tokens, 3, heads, width // heads)
            q, k, v = parts.permute(2, 0, 3, 1, 4)
            y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(y.transpose(1, 2).reshape(batch, tokens, width))
            return x + self.down(functional.gelu(self.up(self.second(x))))

    return Block()


def llama_of(width, heads, tokens):
    from torch import nn
    from torch.nn import functional

    size, inner = width // heads, width * 8 // 3 // 64 * 64
    angles = torch.outer(torch.arange(tokens), 10000.0 ** (-torch.arange(0, size, 2) / size))

    class Llama(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.RMSNorm(width), nn.RMSNorm(width)
            for name in "qkvo":
                setattr(self, name, nn.Linear(width, width, bias=False))
            for name in ("gate", "up"):
                setattr(self, name, nn.Linear(width, inner, bias=False))
            self.down = nn.Linear(inner, width, bias=False)
            self.register_buffer("cos", torch.cat(2 * [angles.cos()], -1), persistent=False)
            self.register_buffer("sin", torch.cat(2 * [angles.sin()], -1), persistent=False)

        def rotate(self, x):
            left, right = x.chunk(2, -1)
            return x * self.cos + torch.cat([-right, left], -1) * self.sin

        def forward(self, x):
            split = (x.shape[0], tokens, heads, size)
            y = self.first(x)
            q, k, v = (of(y).view(split).transpose(1, 2) for of in (self.q, self.k, self.v))
            q, k = self.rotate(q), self.rotate(k)
            y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.o(y.transpose(1, 2).reshape(x.shape))
            y = self.second(x)
            return x + self.down(functional.silu(self.gate(y)) * self.up(y))

    return Llama()


def print_block(arguments):
    import pipesched
    from pipesched.frontends.torch import export

    heads = [f"{who} {phase}, ms" for who in ("compiled", "PyTorch") for phase in "FB"]
    print("\n| block | " + " | ".join(heads) + " | beside PyTorch |")
    print("|---" * 6 + "|")
    models = {"GPT": block_of, "Llama": llama_of}
    cases = itertools.product(models.items(), arguments.sizes)
    for (kind, make), (width, heads, tokens, batch) in cases:
        torch.manual_seed(0)
        model = torch.nn.Sequential(make(width, heads, tokens))
        x, target = torch.randn(2, batch, tokens, width).unbind()
        schedule = pipesched.generate("gpipe", workers=1, microbatches=1, name="block")
        loss = torch.nn.functional.mse_loss
        made = export(model, schedule, (x, target), loss=loss, compare=False)
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "block.mlir")
            made.save(file)
            text = file.read_text(encoding="utf-8")
            folder = file.with_suffix(".parameters")
            times = run_times(arguments.run, text, arguments.repeats, folder)
        forward = shortest(lambda: model(x), arguments.repeats)

        def step():
            torch.nn.functional.mse_loss(model(x), target).backward()

        both = shortest(step, arguments.repeats)
        print(
            f"| {kind}, {batch} x {tokens} tokens of {width}, {heads} heads "
            f"| {times[0] * 1e3:.1f} | "
            f"{times[1] * 1e3:.1f} | {forward * 1e3:.1f} | {(both - forward) * 1e3:.1f} | "
            f"{both / (times[0] + times[1]):.2f} |",
            flush=True,
        )


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("run")
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--sizes", default="256x4x128x4,768x12x256x2")
    arguments = parser.parse_args()
    sizes = arguments.sizes.split(",")
    arguments.sizes = [[int(part) for part in size.split("x")] for size in sizes]
    print_block(arguments)


if __name__ == "__main__":
    main()
