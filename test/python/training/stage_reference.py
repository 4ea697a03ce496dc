"""An oracle for schedules that run: the functions of a file's stages, compiled only by upstream's
tools and called in the order of a loop without a pipeline. It reads the text of the file, and takes
nothing from pipesched.
"""

from __future__ import annotations

import collections
import ctypes
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Named = dict[str, Array]

LLVM = "/usr/lib/llvm-22/bin"
TOOLS = {name: shutil.which(name, path=LLVM) for name in ("mlir-opt", "mlir-translate", "clang")}
# Helpers stay separate functions, so that compiling takes seconds for any callers.
PIPELINE = """builtin.module(
    canonicalize, cse,
    one-shot-bufferize{bufferize-function-boundaries
                       function-boundary-type-conversion=identity-layout-map},
    buffer-results-to-out-params{modify-public-functions}, ownership-based-buffer-deallocation,
    canonicalize, buffer-deallocation-simplification, bufferization-lower-deallocations,
    cse, canonicalize, func.func(convert-linalg-to-loops), convert-scf-to-cf,
    expand-strided-metadata, lower-affine, func.func(arith-expand{include-bf16=true}),
    func.func(llvm-request-c-wrappers), convert-math-to-llvm, convert-math-to-libm,
    convert-arith-to-llvm, convert-index-to-llvm, finalize-memref-to-llvm, convert-func-to-llvm,
    convert-cf-to-llvm, reconcile-unrealized-casts)"""
# bf16 is kept as the upper half of a float.
ELEMENTS = {"f32": np.float32, "f64": np.float64, "i32": np.int32, "i64": np.int64,
            "bf16": np.uint16}
SCHEDULE = re.compile(r"^pipe\.schedule [^{]*\{\n(.*?)^\}\n", re.MULTILINE | re.DOTALL)
NAME = re.compile(
    r"(init|forward|recompute|backward|input_gradient|weight_gradient|update)\s+@(\w+)"
)
CLAUSE = re.compile(rf"stage (\d+)((?:\s+{NAME.pattern.replace('(', '(?:')})+)")
FUNCTION = re.compile(
    r"^func\.func @(\w+)\(([^()]*)\)\s*->\s*(?:\(([^()]*)\)|(tensor<[^{]*\{[^{}]*\}))\s*\{",
    re.MULTILINE,
)
PORT = re.compile(r'(tensor<[^<>]*>|i64)\s*\{pipe\.(\w+)(?:\s*=\s*"([^"]*)")?\}')


@dataclass(frozen=True)
class Port:
    """An argument or a result."""

    role: str
    name: str
    element: str
    shape: tuple[int, ...] | None

    def empty(self) -> Array:
        assert self.shape is not None
        return np.zeros(self.shape, ELEMENTS[self.element])


def ports_of(text: str) -> list[Port]:
    """Reads a list of arguments or results; without a name, their names are positions."""
    ports, counts = [], collections.Counter[str]()
    for kind, role, name in PORT.findall(text):
        sizes = kind.removeprefix("tensor<").removesuffix(">").split("x")
        shape = tuple(int(size) for size in sizes[:-1]) if kind != "i64" else None
        ports.append(Port(role, name or str(counts[role]), sizes[-1], shape))
        counts[role] += 1
    return ports


def compiled(text: str, folder: Path) -> ctypes.CDLL:
    """The functions as a shared library, without the schedule that names them."""
    source, code, library = (folder / f"stages.{suffix}" for suffix in ("mlir", "ll", "so"))
    source.write_text(SCHEDULE.sub("", text))
    lowered = subprocess.run(
        [str(TOOLS["mlir-opt"]), "--allow-unregistered-dialect", str(source),
         f"--pass-pipeline={' '.join(PIPELINE.split())}"],
        check=True, capture_output=True,
    )
    translate = [str(TOOLS["mlir-translate"]), "--mlir-to-llvmir", "-o", str(code)]
    subprocess.run(translate, check=True, input=lowered.stdout)
    subprocess.run(
        [str(TOOLS["clang"]), "-O1", "-shared", "-fPIC", "-Wno-override-module", "-x", "ir",
         str(code), "-o", str(library), "-lm"],
        check=True,
    )
    return ctypes.CDLL(str(library))


def descriptor(array: Array) -> ctypes.Structure:
    """MLIR's form of a memref: allocated and aligned pointer, offset, sizes, strides."""
    rank = array.ndim
    fields: list[tuple[str, Any]] = [
        ("allocated", ctypes.c_void_p), ("aligned", ctypes.c_void_p), ("offset", ctypes.c_int64),
    ]
    if rank:
        fields += [("sizes", ctypes.c_int64 * rank), ("strides", ctypes.c_int64 * rank)]
    kind = type("Descriptor", (ctypes.Structure,), {"_fields_": fields})
    strides = tuple(stride // array.itemsize for stride in array.strides)
    parts = (array.shape, strides) if rank else ()
    made: ctypes.Structure = kind(array.ctypes.data, array.ctypes.data, 0, *parts)
    return made


@dataclass
class Step:
    """The results of a training step: parameters as before it, by stage."""

    loss: float
    losses: list[float]
    gradients: list[Named]
    parameters: list[Named]


class StageProgram:
    """The functions of a file, and the state of its stages: parameters and optimizer state."""

    def __init__(self, text: str, folder: Path) -> None:
        found = SCHEDULE.search(text)
        assert found, "the file has no pipe.schedule"
        self.microbatches = int(re.findall(r"microbatches (\d+)", found[0])[0])
        numbers, *clauses = zip(*CLAUSE.findall(found[1]), strict=True)
        self.stages = [dict(NAME.findall(text)) for text in clauses[0]]
        assert list(map(int, numbers)) == list(range(len(numbers)))
        self.ends = dict(re.findall(r"^\s*(data|target|loss) @(\w+)$", found[1], re.MULTILINE))
        self.signatures = {
            name: (ports_of(arguments), ports_of(several or one))
            for name, arguments, several, one in FUNCTION.findall(text)
        }
        self.library = compiled(text, folder)
        # By role, then by name; the arrays in them are never changed.
        self.kept = [
            {"param": self.call(stage["init"], {})["param"], "state": {}} for stage in self.stages
        ]
        self.step = 0

    def call(self, symbol: str, given: dict[str, Named], **scalars: int) -> dict[str, Named]:
        """Runs a function; arguments that nothing was given for are zero (first states)."""
        arguments, results = self.signatures[symbol]
        arrays: list[Array] = []
        passed: list[ctypes.c_int64 | ctypes.Structure] = []
        for port in arguments:
            if port.shape is None:
                passed.append(ctypes.c_int64(scalars[port.role]))
                continue
            value = given.get(port.role, {}).get(port.name)
            if value is None:
                assert port.role == "state", f"@{symbol}: nothing for {port}"
                value = port.empty()
            assert value.shape == port.shape, f"@{symbol}: {port} got {value.shape}"
            arrays.append(np.array(value, ELEMENTS[port.element], order="C"))
            passed.append(descriptor(arrays[-1]))
        produced: dict[str, Named] = collections.defaultdict(dict)
        for port in results:
            produced[port.role][port.name] = port.empty()
            passed.append(descriptor(produced[port.role][port.name]))
        references = (p if isinstance(p, ctypes.c_int64) else ctypes.byref(p) for p in passed)
        self.library[f"_mlir_ciface_{symbol}"](*references)
        return produced

    def train(self, *, split: bool, recompute: bool = False) -> Step:
        """Runs all microbatches in turn, by the kind of backward that a stage has."""
        sums: list[Named] = [{} for _ in self.stages]
        losses = []
        before = [kept["param"] for kept in self.kept]
        for microbatch in range(self.microbatches):
            losses.append(self._microbatch(microbatch, sums, split, recompute))
        for stage, kept, gradients in zip(self.stages, self.kept, sums, strict=True):
            new = self.call(stage["update"], {**kept, "gradient": gradients}, step=self.step)
            kept["param"] = {**kept["param"], **new["param"]}
            kept["state"] = dict(new["state"])
        self.step += 1
        return Step(sum(losses), losses, sums, before)

    def _microbatch(
        self, number: int, sums: list[Named], split: bool, recompute: bool
    ) -> float:
        when = {"microbatch": number, "step": self.step}
        x = self.call(self.ends["data"], {}, **when)["input"]
        lives: list[dict[str, Named]] = []
        for stage, kept in zip(self.stages, self.kept, strict=True):
            outcome = self.call(stage["forward"], {"param": kept["param"], "input": x})
            lives.append({"param": kept["param"], "input": x, **outcome})
            x = outcome["output"]
        target = self.call(self.ends["target"], {}, **when)["target"]
        end = self.call(self.ends["loss"], {"output": x, "target": target})
        gradient = end["output_gradient"]
        for stage, live, total in reversed(list(zip(self.stages, lives, sums, strict=True))):
            live["output_gradient"] = gradient
            if recompute and "recompute" in stage:
                self._recompute(stage["recompute"], live)
            whole = "backward" in stage and not (split and "weight_gradient" in stage)
            for kind in ("backward",) if whole else ("input_gradient", "weight_gradient"):
                gradient = self._backward(stage[kind], live, total) or gradient
        return float(next(iter(end["loss"].values())))

    def _recompute(self, symbol: str, live: dict[str, Named]) -> None:
        """Forgets the values that the function computes again, before it does."""
        again = {port.name for port in self.signatures[symbol][1]}
        live["residual"] = {k: v for k, v in live["residual"].items() if k not in again}
        live["residual"] |= self.call(symbol, live)["residual"]

    def _backward(self, symbol: str, live: dict[str, Named], total: Named) -> Named | None:
        """Runs a backward, adds its gradients to the sums, and returns the input's."""
        arguments, results = self.signatures[symbol]
        adds = {port.name for port in arguments if port.role == "gradient"}
        for port in results:
            if port.role == "gradient":
                total.setdefault(port.name, port.empty())
        outcome = self.call(symbol, {**live, "gradient": total})
        live["residual"] = {**live.get("residual", {}), **outcome.get("residual", {})}
        for name, value in outcome.get("gradient", {}).items():
            total[name] = value if name in adds else total[name] + value
        return outcome.get("input_gradient")
