#!/usr/bin/env python3
# Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compares compiled stage functions with the same graphs in NumPy.

Each function has several results, which share fills and are slices, reshapes, products and sums of
each other, rows and columns that numbers of another tensor name, and loops that move numbers one by
one. Numbers are small integers in f64, so that every result is exact. Functions of one batch are
compiled as one module.
"""

import argparse
import ctypes
import json
import pathlib
import random
import subprocess
import sys

import numpy as np

SHAPES = [(4, 6), (2, 2, 6), (6, 4), (24,), (6, 6), (4, 4)]
RUNTIME = """
void pipesched_rt_begin(void *c, int i) {}
void pipesched_rt_end(void *c, int i) {}
int pipesched_rt_fail(void *c, const char *t) { return 3; }
int pipesched_rt_fail_index(void *c, const char *t, long i, long n) { return 3; }
"""


def tensor(shape):
    return "tensor<" + "".join(f"{size}x" for size in shape) + "f64>"


def offsets(starts, sizes):
    return f"{list(starts)} {list(sizes)} {[1] * len(sizes)}"


class Graph:
    """The ops of one function, and the value of each in NumPy."""

    def __init__(self, rng, inputs):
        self.rng, self.lines, self.values = rng, [], []
        self.fills = {}
        for index, value in enumerate(inputs):
            self.values.append((f"%p{index}", value))

    def emit(self, text, value):
        name = f"%v{len(self.lines)}"
        self.lines.append(f"  {name} = {text}")
        self.values.append((name, value))
        return name

    def helper(self, text):
        name = f"%h{len(self.lines)}"
        self.lines.append(f"  {name} = {text}")
        return name

    def destination(self, shape, zero):
        """A fill or an empty tensor, often one that others use as well."""
        key = shape, zero
        if key in self.fills and self.rng.random() < 0.7:
            return self.fills[key]
        kind = tensor(shape)
        name = self.helper(f"tensor.empty() : {kind}")
        if zero:
            name = self.helper(f"linalg.fill ins(%zero : f64) outs({name} : {kind}) -> {kind}")
        self.fills[key] = name
        return name

    def pick(self, test=lambda shape: True):
        found = [pair for pair in self.values if test(pair[1].shape)]
        return self.rng.choice(found[-6:] if self.rng.random() < 0.6 else found) if found else None

    def matmul(self):
        name, a = self.pick(lambda shape: len(shape) == 2)
        other = self.pick(lambda shape: len(shape) == 2 and shape[0] == a.shape[1])
        if not other or np.abs(a).max() * np.abs(other[1]).max() > 1e9:
            return
        shape = (a.shape[0], other[1].shape[1])
        start, old = self.destination(shape, True), np.zeros(shape)
        same = self.pick(lambda found: found == shape)
        if same and self.rng.random() < 0.3:
            start, old = same
        kind = tensor(shape)
        self.emit(f"linalg.matmul ins({name}, {other[0]} : {tensor(a.shape)}, "
                  f"{tensor(other[1].shape)}) outs({start} : {kind}) -> {kind}",
                  old + a @ other[1])

    def elementwise(self):
        name, a = self.pick()
        other, b = self.pick(lambda shape: shape == a.shape)
        op, compute = self.rng.choice([("add", np.add), ("sub", np.subtract),
                                       ("max", np.maximum), ("min", np.minimum)])
        kind = tensor(a.shape)
        start = self.rng.choice([self.destination(a.shape, False),
                                 self.destination(a.shape, True), name, other])
        if self.rng.random() < 0.2 and op in ("add", "sub"):
            self.emit(f"arith.{op}f {name}, {other} : {kind}", compute(a, b))
            return
        self.emit(f"linalg.{op} ins({name}, {other} : {kind}, {kind}) outs({start} : {kind}) "
                  f"-> {kind}", compute(a, b))

    def accumulate(self):
        """A generic op that reads its output buffer."""
        name, a = self.pick()
        start, b = self.pick(lambda shape: shape == a.shape)
        dims = ", ".join(f"d{i}" for i in range(a.ndim))
        mapping = f"affine_map<({dims}) -> ({dims})>"
        loops = ", ".join(['"parallel"'] * a.ndim)
        kind, line = tensor(a.shape), len(self.lines)
        self.emit(f"linalg.generic {{indexing_maps = [{mapping}, {mapping}], iterator_types = "
                  f"[{loops}]}} ins({name} : {kind}) outs({start} : {kind}) {{\n"
                  f"  ^bb0(%a{line}: f64, %b{line}: f64):\n"
                  f"    %c{line} = arith.subf %b{line}, %a{line} : f64\n"
                  f"    linalg.yield %c{line} : f64\n  }} -> {kind}", b - a)

    def reshape(self):
        name, a = self.pick(lambda shape: shape in [(4, 6), (2, 2, 6)])
        if a.ndim == 2:
            self.emit(f"tensor.expand_shape {name} [[0, 1], [2]] output_shape [2, 2, 6] : "
                      f"{tensor(a.shape)} into {tensor((2, 2, 6))}", a.reshape(2, 2, 6))
        elif self.rng.random() < 0.5:
            self.emit(f"tensor.collapse_shape {name} [[0, 1], [2]] : {tensor(a.shape)} into "
                      f"{tensor((4, 6))}", a.reshape(4, 6))
        else:
            self.emit(f"tensor.collapse_shape {name} [[0, 1, 2]] : {tensor(a.shape)} into "
                      f"{tensor((24,))}", a.reshape(24))

    def transpose(self):
        name, a = self.pick(lambda shape: len(shape) == 2)
        shape = a.shape[::-1]
        start = self.destination(shape, self.rng.random() < 0.5)
        self.emit(f"linalg.transpose ins({name} : {tensor(a.shape)}) outs({start} : "
                  f"{tensor(shape)}) permutation = [1, 0]", a.T.copy())

    def broadcast(self):
        name, a = self.pick(lambda shape: len(shape) == 2)
        row = self.helper(f"tensor.extract_slice {name}{offsets((1, 0), (1, a.shape[1]))} : "
                          f"{tensor(a.shape)} to {tensor(a.shape[1:])}")
        start = self.destination(a.shape, self.rng.random() < 0.5)
        self.emit(f"linalg.broadcast ins({row} : {tensor(a.shape[1:])}) outs({start} : "
                  f"{tensor(a.shape)}) dimensions = [0]",
                  np.broadcast_to(a[1], a.shape).copy())

    def slice(self):
        """Puts a slice of one tensor into another or the same."""
        name, a = self.pick(lambda shape: len(shape) == 2)
        into, b = self.pick(lambda shape: len(shape) == 2)
        sizes = [self.rng.randint(1, min(m, n)) for m, n in zip(a.shape, b.shape)]
        start = [self.rng.randint(0, n - m) for n, m in zip(a.shape, sizes)]
        where = [self.rng.randint(0, n - m) for n, m in zip(b.shape, sizes)]
        part = self.helper(f"tensor.extract_slice {name}{offsets(start, sizes)} : "
                           f"{tensor(a.shape)} to {tensor(sizes)}")
        result = b.copy()
        result[where[0]:where[0] + sizes[0], where[1]:where[1] + sizes[1]] = \
            a[start[0]:start[0] + sizes[0], start[1]:start[1] + sizes[1]]
        self.emit(f"tensor.insert_slice {part} into {into}{offsets(where, sizes)} : "
                  f"{tensor(sizes)} into {tensor(b.shape)}", result)

    def pad(self):
        name, a = self.pick(lambda shape: len(shape) == 2)
        sizes = (a.shape[0] - 1, a.shape[1] - 2)
        part = self.helper(f"tensor.extract_slice {name}{offsets((1, 1), sizes)} : "
                           f"{tensor(a.shape)} to {tensor(sizes)}")
        line = len(self.lines)
        self.emit(f"tensor.pad {part} low[1, 0] high[0, 2] {{\n  ^bb0(%i{line}: index, "
                  f"%j{line}: index):\n    tensor.yield %zero : f64\n  }} : {tensor(sizes)} to "
                  f"{tensor(a.shape)}", np.pad(a[1:, 1:-1], ((1, 0), (0, 2))))

    def concat(self):
        name, a = self.pick(lambda shape: len(shape) == 2)
        other, b = self.pick(lambda shape: shape == a.shape)
        half = (a.shape[0], a.shape[1] // 2)
        left = self.helper(f"tensor.extract_slice {name}{offsets((0, half[1]), half)} : "
                           f"{tensor(a.shape)} to {tensor(half)}")
        right = self.helper(f"tensor.extract_slice {other}{offsets((0, 0), half)} : "
                            f"{tensor(a.shape)} to {tensor(half)}")
        kind = tensor(half)
        self.emit(f"tensor.concat dim(1) {left}, {right} : ({kind}, {kind}) -> "
                  f"{tensor(a.shape)}",
                  np.concatenate([a[:, half[1]:], b[:, :half[1]]], axis=1))

    def gather(self):
        """Takes rows or columns whose numbers are the first column of another tensor."""
        name, a = self.pick(lambda shape: len(shape) == 2)
        dim, count = self.rng.randint(0, 1), self.rng.choice([4, 6])
        found = self.pick(lambda shape: len(shape) == 2 and shape[0] >= count)
        if not found:
            return
        places, numbers = found[0], [int(found[1][i, 0]) % a.shape[dim] for i in range(count)]
        value = np.take(a, numbers, axis=dim)
        line, kind = len(self.lines), tensor(value.shape)
        taken = (f"%g{line}", f"%l{line}") if dim == 0 else (f"%k{line}", f"%g{line}")
        self.emit(f"""tensor.generate {{
  ^bb0(%k{line}: index, %l{line}: index):
    %a{line} = tensor.extract {places}[%{"kl"[dim]}{line}, %zero_index] : {tensor(found[1].shape)}
    %b{line} = arith.fptosi %a{line} : f64 to i64
    %c{line} = arith.index_cast %b{line} : i64 to index
    %n{line} = arith.constant {a.shape[dim]} : index
    %e{line} = arith.remsi %c{line}, %n{line} : index
    %f{line} = arith.addi %e{line}, %n{line} : index
    %g{line} = arith.remsi %f{line}, %n{line} : index
    %h{line} = tensor.extract {name}[{taken[0]}, {taken[1]}] : {tensor(a.shape)}
    tensor.yield %h{line} : f64
  }} : {kind}""", value)

    def loop(self):
        """Moves the rows of a tensor in reverse, as affine loops; every second one is added to the
        old value."""
        name, a = self.pick(lambda shape: len(shape) == 2)
        into, b = self.pick(lambda shape: shape == a.shape)
        kind, line = tensor(a.shape), len(self.lines)
        result = a[::-1].copy()
        result[::2] += b[::2]
        carried = f"iter_args(%s{line} = {into}) -> ({kind})"
        self.emit(f"""affine.for %i{line} = 0 to {a.shape[0]} {carried} {{
    %r{line} = affine.for %j{line} = 0 to {a.shape[1]} iter_args(%t{line} = %s{line}) -> ({kind}) {{
      %k{line} = affine.apply affine_map<(d0) -> ({a.shape[0] - 1} - d0)>(%i{line})
      %a{line} = tensor.extract {name}[%k{line}, %j{line}] : {kind}
      %b{line} = tensor.extract %t{line}[%i{line}, %j{line}] : {kind}
      %c{line} = affine.if affine_set<(d0) : (d0 mod 2 == 0)>(%i{line}) -> f64 {{
        %d{line} = arith.addf %a{line}, %b{line} : f64
        affine.yield %d{line} : f64
      }} else {{
        affine.yield %a{line} : f64
      }}
      %u{line} = tensor.insert %c{line} into %t{line}[%i{line}, %j{line}] : {kind}
      affine.yield %u{line} : {kind}
    }}
    affine.yield %r{line} : {kind}
  }}""", result)

    def grow(self, count):
        kinds = [self.matmul, self.matmul, self.elementwise, self.elementwise,
                 self.accumulate, self.reshape, self.reshape, self.transpose,
                 self.broadcast, self.slice, self.pad, self.concat,
                 self.gather, self.loop]
        for _ in range(count):
            self.rng.choice(kinds)()


class Function:
    """A schedule whose gradients are the results of its forward function."""

    def __init__(self, rng, number):
        self.number = number
        shapes = [(4, 6), (2, 2, 6)] + [rng.choice(SHAPES) for _ in range(rng.randint(1, 4))]
        rng.shuffle(shapes)
        self.inputs = [np.array([rng.randint(-3, 3) for _ in range(int(np.prod(shape)))],
                                dtype=float).reshape(shape) for shape in shapes]
        self.graph = Graph(rng, self.inputs)
        self.graph.grow(rng.randint(4, 14))
        self.results = []
        for shape in shapes:
            self.results.append(self.graph.pick(lambda found, shape=shape: found == shape))
        self.order = rng.sample(range(len(shapes)), len(shapes))

    def roles(self, index):
        """The first result is the output, which the loss gives back."""
        return ("pipe.output", "pipe.output_gradient") if index == 0 else \
            (f'pipe.residual = "r{index}"',) * 2

    def text(self):
        n, kinds = self.number, [tensor(value.shape) for value in self.inputs]
        params = ", ".join(f'%p{i}: {kind} {{pipe.param = "w{i}"}}'
                           for i, kind in enumerate(kinds))
        outs = ", ".join(f"{kinds[i]} {{{self.roles(i)[0]}}}" for i in self.order)
        taken = ", ".join(f"%r{i}: {kind} {{{self.roles(i)[1]}}}"
                          for i, kind in enumerate(kinds))
        gradients = ", ".join(f'{kind} {{pipe.gradient = "w{i}"}}'
                              for i, kind in enumerate(kinds))
        body = "\n".join(self.graph.lines)
        names = ", ".join(self.results[i][0] for i in self.order)
        types = ", ".join(kinds[i] for i in self.order)
        every = ", ".join(f"%r{i}" for i in range(len(kinds)))
        return f"""
pipe.schedule @s{n} workers 1 microbatches 1 {{
  path on [0]
  stage 0 forward @f{n} backward @b{n}
  data @data
  loss @l{n}
  worker 0 runs [0F0 0B0]
}}
func.func @f{n}({params}, %x: tensor<1xf64> {{pipe.input}}) -> ({outs}) {{
  %zero = arith.constant 0.0 : f64
  %zero_index = arith.constant 0 : index
{body}
  return {names} : {types}
}}
func.func @b{n}({taken}) -> ({gradients}) {{
  return {every} : {", ".join(kinds)}
}}
func.func @l{n}(%y: {kinds[0]} {{pipe.output}})
    -> (tensor<f64> {{pipe.loss}}, {kinds[0]} {{pipe.output_gradient}}) {{
  %zero = arith.constant dense<0.0> : tensor<f64>
  return %zero, %y : tensor<f64>, {kinds[0]}
}}
"""

    def check(self, library):
        """Runs the step; returns the names of results that differ."""
        step = library[f"s{self.number}_step"]
        size, layout = library[f"s{self.number}_size"], library[f"s{self.number}_layout"]
        size.restype, layout.restype = ctypes.c_int64, ctypes.c_char_p
        blocks = [ctypes.create_string_buffer(size(0, what) + 64) for what in (1, 2, 3)]
        starts = [(ctypes.addressof(block) + 63) // 64 * 64 for block in blocks]
        tensors = json.loads(layout())["workers"][0]["tensors"]
        views = {}
        for entry in tensors:
            memory = (ctypes.c_double * (entry["bytes"] // 8)).from_address(
                starts[0] + entry["offset"])
            views[entry["kind"], entry.get("name")] = np.frombuffer(memory)
        for index, value in enumerate(self.inputs):
            views["param", f"w{index}"][:] = value.ravel()
        status = step(ctypes.c_int32(0), None, *map(ctypes.c_void_p, starts), ctypes.c_int64(0))
        if status:
            return [f"status {status}"]
        return [f"result {index} ({name})" for index, (name, value) in enumerate(self.results)
                if not np.array_equal(views["gradient", f"w{index}"], value.ravel())]


def compile_batch(functions, arguments, folder, batch):
    data = """func.func @data() -> (tensor<1xf64> {pipe.input}) {
  %c = arith.constant dense<1.0> : tensor<1xf64>
  return %c : tensor<1xf64>
}
"""
    source = folder / f"batch{batch}.mlir"
    source.write_text(data + "".join(function.text() for function in functions))
    llvm, object_file = source.with_suffix(".ll"), source.with_suffix(".so")
    runtime = folder / "runtime.c"
    runtime.write_text(RUNTIME)
    lowered = subprocess.run([arguments.opt, source, "--pipesched-to-llvm"], check=True,
                             stdout=subprocess.PIPE).stdout
    llvm.write_bytes(subprocess.run([arguments.translate, "--mlir-to-llvmir"], input=lowered,
                                    check=True, stdout=subprocess.PIPE).stdout)
    subprocess.run([arguments.cc, "-w", "-O1", "-shared", "-fPIC", llvm, runtime, "-o",
                    object_file], check=True)
    return ctypes.CDLL(str(object_file.resolve()))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--opt", default="pipesched-opt")
    parser.add_argument("--translate", default="mlir-translate-22")
    parser.add_argument("--cc", default="clang-22")
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path("fuzz"))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--batch", type=int, default=50, help="functions of a module")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    rng, wrong = random.Random(arguments.seed), 0
    for first in range(0, arguments.count, arguments.batch):
        last = min(first + arguments.batch, arguments.count)
        functions = [Function(rng, number) for number in range(first, last)]
        library = compile_batch(functions, arguments, arguments.folder, first)
        for function in functions:
            differences = function.check(library)
            wrong += bool(differences)
            if differences:
                print(f"@f{function.number} of batch{first}.mlir: {', '.join(differences)}")
    print(f"{arguments.count} functions, {wrong} differ from NumPy")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
