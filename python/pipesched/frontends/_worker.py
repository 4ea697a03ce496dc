"""A process that runs passes of torch-mlir and their output, as either may end by a signal.

It is a script, and imports nothing of this package. It reads requests from standard input and
writes an answer to each to standard output, both by `pickle`: `("lower", text, passes, dialects)`
is answered by `("text", text)`, `("run", text, arguments)` by `("arrays", arrays)`, and failures by
`("error", text)`.
"""

from __future__ import annotations

import ctypes
import os
import pickle
import re
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from torch_mlir import ir
from torch_mlir.passmanager import PassManager

_TO_LOOPS = (
    "symbol-dce, one-shot-bufferize{bufferize-function-boundaries=true "
    "function-boundary-type-conversion=identity-layout-map}, func.func(convert-linalg-to-loops), "
)
_WIDENED = (
    "math-extend-to-supported-types{target-type=f32}, "
    "arith-emulate-unsupported-floats{source-types=bf16,f16 target-type=f32}, "
)
"""For narrow numbers."""
_LARGE = 1 << 20
"""The number of elements of the arguments from which optimizing the code takes less time than it
saves.
"""
_TO_LLVM = (
    "arith-expand{include-bf16=true}, expand-strided-metadata, lower-affine, convert-scf-to-cf, "
    "func.func(math-expand-ops{ops=rsqrt}), convert-math-to-funcs, convert-math-to-libm, "
    "convert-math-to-llvm, finalize-memref-to-llvm, convert-func-to-llvm, convert-arith-to-llvm, "
    "convert-index-to-llvm, convert-cf-to-llvm, reconcile-unrealized-casts"
)


def _context(dialects: str) -> Any:
    context = ir.Context()
    if dialects:
        from torch_mlir.dialects import torch

        torch.register_dialect(context)
    if dialects == "stablehlo":
        from torch_mlir._mlir_libs import _stablehlo

        if not _registered:
            _stablehlo.register_stablehlo_passes()
            _registered.append(True)
        _stablehlo.register_dialect(context)
        with context:
            # No function registers `chlo`; this pass loads the dialect, because it can create its
            # operations.
            load = PassManager.parse("builtin.module(func.func(convert-torch-to-stablehlo))")
            load.run(ir.Module.parse("").operation)
    return context


_registered: list[bool] = []


def _with_literals(text: str) -> str:
    """Returns the module with constants written where they are used. A resource starts with four
    bytes that give its alignment.
    """
    blobs = dict(re.findall(r'^ *([\w.]+): "0x[0-9A-Fa-f]{8}([0-9A-Fa-f]+)"', text, re.MULTILINE))

    def literal(found: re.Match[str]) -> str:
        return f'dense<"0x{blobs[found[1]]}">' if found[1] in blobs else found[0]

    return re.sub(r"dense_resource<([\w.]+)>(?! *: *tensor<[^>]*xi1>)", literal, text)


def _lower(text: str, passes: Sequence[str], dialects: str) -> tuple[str, str]:
    with _context(dialects):
        module = ir.Module.parse(text)
        for each in passes:
            PassManager.parse(each).run(module.operation)
        return "text", _with_literals(str(module))


def _descriptor(rank: int) -> Any:
    fields = [("base", ctypes.c_void_p), ("data", ctypes.c_void_p), ("offset", ctypes.c_int64)]
    if rank:
        fields += [(name, ctypes.c_int64 * rank) for name in ("sizes", "strides")]
    return type("Descriptor", (ctypes.Structure,), {"_fields_": fields})


def _read_strided(size: int, pointer: int) -> Any:
    """The array of an unranked memref: its rank, and the address of a descriptor."""
    rank, place = (ctypes.c_int64 * 2).from_address(pointer)
    found = _descriptor(rank).from_address(place)
    shape = list(found.sizes) if rank else []
    strides = [size * each for each in found.strides] if rank else []
    if 0 in shape:
        return np.empty(shape)
    ends = [(n - 1) * each for n, each in zip(shape, strides, strict=True)]
    data = (ctypes.c_char * (size + sum(ends))).from_address(found.data + found.offset * size)
    return np.ndarray(shape, f"i{size}", data, strides=strides)


def _copy(size: int, source: int, target: int) -> None:
    """`memrefCopy` of MLIR's runtime, which torch-mlir does not bring along."""
    _read_strided(size, target)[...] = _read_strided(size, source)


_COPY = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)(_copy)


def _describe(array: Any) -> Any:
    made = _descriptor(array.ndim)(array.ctypes.data, array.ctypes.data, 0)
    for number in range(array.ndim):
        made.sizes[number] = array.shape[number]
        made.strides[number] = array.strides[number] // array.itemsize
    return made


def _array(found: Any, kind: Any) -> Any:
    """A copy of the array of a result."""
    shape = tuple(kind.shape)
    width = {"i1": 1}.get(str(kind.element_type), 0) or kind.element_type.width // 8
    count = int(np.prod(shape, dtype=np.int64))
    data = ctypes.string_at(found.data + found.offset * width, count * width)
    flat = np.frombuffer(data, np.dtype(f"i{width}"))
    # Results are contiguous: functions return them with identity layouts.
    return flat.reshape(shape).copy()


def _run(text: str, arguments: Sequence[Any]) -> tuple[str, list[Any]]:
    """Runs the only function on integers with the bits of the numbers."""
    from torch_mlir.execution_engine import ExecutionEngine

    with _context(""):
        module = ir.Module.parse(text)
        function = next(iter(module.body.operations))
        function.attributes["llvm.emit_c_interface"] = ir.UnitAttr.get()
        kinds = list(function.type.results)
        passes = _TO_LOOPS + (_WIDENED if "f16" in text else "") + _TO_LLVM
        PassManager.parse(f"builtin.module({passes})").run(module.operation)
        is_large = sum(np.size(each) for each in arguments) > _LARGE
        engine = ExecutionEngine(module, opt_level=int(is_large))
        engine.raw_register_runtime("memrefCopy", ctypes.cast(_COPY, ctypes.c_void_p))
    fields = [(f"r{number}", _descriptor(len(kind.shape))) for number, kind in enumerate(kinds)]
    results = type("Results", (ctypes.Structure,), {"_fields_": fields})()
    kept = [np.array(each, order="C") for each in arguments if not isinstance(each, int)]
    places = iter([_describe(each) for each in kept])
    pointers = [ctypes.pointer(results)]
    pointers += [
        ctypes.pointer(ctypes.c_int64(each) if isinstance(each, int) else next(places))
        for each in arguments
    ]
    # Each argument of the packed call is a pointer to a value; memrefs are passed by pointers.
    values = [
        each if isinstance(argument, int) else ctypes.pointer(each)
        for each, argument in zip(pointers, [None, *arguments], strict=True)
    ]
    engine.invoke("main", *values)
    return "arrays", [
        _array(getattr(results, f"r{number}"), kind) for number, kind in enumerate(kinds)
    ]


def main() -> None:
    """Answers until there are no more requests."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # Output of libraries is not an answer.
    while True:
        try:
            kind, *given = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        try:
            answer: tuple[str, Any] = (_lower if kind == "lower" else _run)(*given)
        except Exception as error:
            answer = "error", f"{type(error).__name__}: {error}"
        pickle.dump(answer, answers)
        answers.flush()


if __name__ == "__main__":
    main()
