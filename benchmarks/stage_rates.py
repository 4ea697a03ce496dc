#!/usr/bin/env python3
"""Measures how fast compiled stages compute, beside NumPy and PyTorch, all on one core.

Usage: stage_rates.py RUN [--repeats N] [--types T,..] [--shapes MxNxK,..] [--no-block]

RUN is pipesched-run. Products of matrices: those of a transformer layer with 1,024 tokens of width
768, and squares; `nt` and `tn` have the second or the first matrix transposed, as backwards do.
The blocks are layers of a GPT and of a Llama, exported by `pipesched.frontends`, forward and
backward, which needs PyTorch and torch-mlir. Prints GFLOP/s of the fastest of `--repeats` runs,
which take turns where they can, and ratios: above 1, compiled stages are faster.
"""

import argparse
import itertools
import json
import os
import pathlib
import subprocess
import tempfile
import time

for library in ("OPENBLAS", "OMP", "MKL"):
    os.environ[f"{library}_NUM_THREADS"] = "1"

import numpy as np  # noqa: E402 (reads the variables above)

try:
    import torch

    torch.set_num_threads(1)
except ImportError:
    torch = None

SHAPES = (
    "256x256x256,512x512x512,1024x1024x1024,1024x2304x768,1024x768x768,1024x3072x768,"
    "1024x768x3072,1024x1024x64"
)
TYPES = {"f32": np.float32, "f64": np.float64}

MATMUL = """
func.func @data() -> (tensor<{a}> {{pipe.input}}) {{
  %one = arith.constant 1.0 : {type}
  %empty = tensor.empty() : tensor<{a}>
  %x = linalg.fill ins(%one : {type}) outs(%empty : tensor<{a}>) -> tensor<{a}>
  return %x : tensor<{a}>
}}
func.func @same(%x: tensor<{a}> {{pipe.input}}) -> (tensor<{a}> {{pipe.output}}) {{
  return %x : tensor<{a}>
}}
func.func @same_back(%dy: tensor<{a}> {{pipe.output_gradient}})
    -> (tensor<{a}> {{pipe.input_gradient}}) {{
  return %dy : tensor<{a}>
}}
func.func @forward(%w: tensor<{b}> {{pipe.param = "w"}}, %x: tensor<{a}> {{pipe.input}})
    -> (tensor<{c}> {{pipe.output}}) {{
  %zero = arith.constant 0.0 : {type}
  %empty = tensor.empty() : tensor<{c}>
  %clear = linalg.fill ins(%zero : {type}) outs(%empty : tensor<{c}>) -> tensor<{c}>
  %y = linalg.matmul indexing_maps = [affine_map<(m, n, k) -> ({a_map})>,
      affine_map<(m, n, k) -> ({b_map})>, affine_map<(m, n, k) -> (m, n)>]
      ins(%x, %w : tensor<{a}>, tensor<{b}>) outs(%clear : tensor<{c}>) -> tensor<{c}>
  return %y : tensor<{c}>
}}
func.func @backward(%w: tensor<{b}> {{pipe.param = "w"}}, %x: tensor<{a}> {{pipe.input}},
    %dy: tensor<{c}> {{pipe.output_gradient}})
    -> (tensor<{a}> {{pipe.input_gradient}}, tensor<{b}> {{pipe.gradient = "w"}}) {{
  return %x, %w : tensor<{a}>, tensor<{b}>
}}
func.func @loss(%y: tensor<{c}> {{pipe.output}})
    -> (tensor<{type}> {{pipe.loss}}, tensor<{c}> {{pipe.output_gradient}}) {{
  %zero = arith.constant dense<0.0> : tensor<{type}>
  return %zero, %y : tensor<{type}>, tensor<{c}>
}}
pipe.schedule @matmul workers 1 microbatches 1 {{
  path on [0, 0]
  stage 0 forward @same backward @same_back
  stage 1 forward @forward backward @backward
  data @data
  loss @loss
  worker 0 runs [0F0 1F0 1B0 0B0]
}}
"""


def run_times(run, text, repeats, parameters=None):
    """The shortest time of each instruction of the only worker, in seconds."""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder, "model.mlir")
        file.write_text(text, encoding="utf-8")
        measured = pathlib.Path(folder, "measured.json")
        command = [run, str(file), f"--steps={repeats + 1}", f"--write-measurement={measured}"]
        if parameters:
            command.append(f"--parameters={parameters}")
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        worker = json.loads(measured.read_text(encoding="utf-8"))["workers_ns"][0]
    times = np.array(worker["end"], dtype=float) - np.array(worker["start"], dtype=float)
    return times.min(axis=0) / 1e9


def shortest(function, repeats):
    times = []
    for _ in range(repeats + 1):
        begin = time.perf_counter()
        function()
        times.append(time.perf_counter() - begin)
    return min(times)


def measure_matmul(arguments, kind, shape, order):
    m, n, k = shape
    sides = {"a": (k, m) if order == "tn" else (m, k), "b": (n, k) if order == "nt" else (k, n)}
    text = MATMUL.format(
        type=kind,
        c=f"{m}x{n}x{kind}",
        a_map="k, m" if order == "tn" else "m, k",
        b_map="n, k" if order == "nt" else "k, n",
        **{name: f"{rows}x{columns}x{kind}" for name, (rows, columns) in sides.items()},
    )
    random = np.random.default_rng(0)
    a, b = (random.random(sides[name]).astype(TYPES[kind]) for name in "ab")
    c = np.empty((m, n), TYPES[kind])
    left, right = (a.T if order == "tn" else a), (b.T if order == "nt" else b)
    times = {"compiled": run_times(arguments.run, text, arguments.repeats)[1]}
    times["NumPy"] = shortest(lambda: np.matmul(left, right, out=c), arguments.repeats)
    if torch:
        x, y, out = torch.from_numpy(left), torch.from_numpy(right), torch.from_numpy(c)
        times["PyTorch"] = shortest(lambda: torch.matmul(x, y, out=out), arguments.repeats)
    return times


def print_matmuls(arguments):
    others = ["NumPy"] + (["PyTorch"] if torch else [])
    heads = [f"{name}, GFLOP/s" for name in ("compiled", *others)]
    heads += [f"beside {name}" for name in others]
    print("| type | m x n x k | order | " + " | ".join(heads) + " |")
    print("|---" * (3 + len(heads)) + "|")
    for kind in arguments.types:
        for shape in arguments.shapes:
            for order in ("nn", "nt", "tn"):
                times = measure_matmul(arguments, kind, shape, order)
                work = 2e-9 * shape[0] * shape[1] * shape[2]
                cells = [f"{work / seconds:.0f}" for seconds in times.values()]
                cells += [f"{times[name] / times['compiled']:.2f}" for name in others]
                size = " x ".join(str(part) for part in shape)
                print(f"| {kind} | {size} | {order} | " + " | ".join(cells) + " |", flush=True)


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
    sizes = ((256, 4, 128, 4), (768, 12, 256, 2))
    models = {"GPT": block_of, "Llama": llama_of}
    for (kind, make), (width, heads, tokens, batch) in itertools.product(models.items(), sizes):
        torch.manual_seed(0)
        model = torch.nn.Sequential(make(width, heads, tokens))
        x, target = torch.randn(2, batch, tokens, width).unbind()
        schedule = pipesched.generate("gpipe", workers=1, microbatches=1, name="block")
        made = export(model, schedule, (x, target), loss=torch.nn.functional.mse_loss)
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
    parser.add_argument("--types", type=lambda text: text.split(","), default=list(TYPES))
    parser.add_argument("--shapes", default=SHAPES)
    parser.add_argument("--no-block", action="store_true")
    parser.add_argument("--no-matmul", action="store_true")
    arguments = parser.parse_args()
    arguments.shapes = [
        tuple(int(part) for part in shape.split("x")) for shape in arguments.shapes.split(",")
    ]
    if not arguments.no_matmul:
        print_matmuls(arguments)
    if torch and not arguments.no_block:
        print_block(arguments)


if __name__ == "__main__":
    main()
