"""Writes a training step of JAX or PyTorch as one function in MLIR whose ops name their stage and
phase, which `pipe-outline-stages` cuts into functions of stages.

python examples/stages/outline.py jax step.mlir
pipesched-opt --pass-pipeline='builtin.module(pipe-outline-stages)' step.mlir > stages.mlir
pipesched-run stages.mlir --parameters=step.parameters --schedule=1f1b --check
"""

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from torch_mlir import ir

STAGES, MICROBATCHES, SAMPLES, WIDTH, RATE = 4, 8, 4, 16, 0.5
SCOPE = re.compile(r'["/](transpose\()?(?:jvp\()?(stage|update|loss)(\d*)\)*["/]')


Arrays = list[np.ndarray[Any, np.dtype[np.float32]]]


def arrays() -> tuple[Arrays, Any, Any]:
    """The parameters of the stages, and the inputs and targets of all microbatches."""
    chance = np.random.default_rng(0)
    parameters = [chance.standard_normal((WIDTH, WIDTH)) / WIDTH**0.5 for _ in range(STAGES)]
    x = chance.standard_normal((MICROBATCHES, SAMPLES, WIDTH))
    return [each.astype("float32") for each in parameters], x.astype("float32"), abs(x).astype("f4")


def jax_step() -> Callable[..., Any]:
    """The step of JAX: scopes name the ops of a stage, also in the backward that JAX derives."""
    import jax
    import jax.numpy as jnp

    def compute_loss(parameters: Any, x: Any, target: Any) -> Any:
        for stage, w in enumerate(parameters):
            with jax.named_scope(f"stage{stage}"):
                x = jnp.tanh(x @ w)
        with jax.named_scope("loss"):
            return ((x - target) ** 2).mean() / MICROBATCHES

    def step(parameters: Any, x: Any, target: Any) -> Any:
        found, gradients = jax.value_and_grad(compute_loss)(parameters, x, target)
        updated = []
        for stage, (w, gradient) in enumerate(zip(parameters, gradients, strict=True)):
            with jax.named_scope(f"update{stage}"):
                updated.append(w - RATE * gradient)
        return found, gradients, updated

    return step


def lower_jax() -> Any:
    import jax
    from torch_mlir._mlir_libs import _stablehlo
    from torch_mlir.passmanager import PassManager

    parameters, x, target = arrays()
    lowered = jax.jit(jax_step()).lower(parameters, x[0], target[0])
    stablehlo: Any = lowered.compiler_ir("stablehlo")
    text = stablehlo.operation.get_asm(enable_debug_info=True)
    text = re.sub(r" attributes \{mhlo[^}]*\}", "", text)
    text = re.sub(r" \{jax\.result_info = \"[^\"]*\"\}", "", text)
    context = ir.Context()
    _stablehlo.register_dialect(context)
    _stablehlo.register_stablehlo_passes()
    with context:
        module = ir.Module.parse(text)
        passes = "stablehlo-legalize-to-linalg, canonicalize, cse"
        PassManager.parse(f"builtin.module({passes})").run(module.operation)
    return module


def torch_step(scope: Callable[[str], AbstractContextManager[None]]) -> Callable[..., Any]:
    """The step of PyTorch, with `scope(name)` around the code of a stage and phase."""
    import torch

    vjp: Any = torch.func.vjp

    def step(*given: Any) -> Any:
        *parameters, x, target = given
        pulls = []
        for stage, w in enumerate(parameters):
            with scope(f"stage{stage}"):
                x, pull = vjp(lambda w, x: torch.tanh(x @ w), w, x)
            pulls.append(pull)
        with scope("loss"):
            found, pull = vjp(lambda x: ((x - target) ** 2).mean() / MICROBATCHES, x)
            (dx,) = pull(torch.ones(()))
        gradients: list[Any] = []
        for stage in reversed(range(STAGES)):
            with scope(f"transpose(stage{stage})"):
                dw, dx = pulls[stage](dx)
            gradients.insert(0, dw)
        updated = []
        for stage, (w, gradient) in enumerate(zip(parameters, gradients, strict=True)):
            with scope(f"update{stage}"):
                updated.append(w - RATE * gradient)
        return (found, *gradients, *updated)

    return step


def lower_torch() -> Any:
    import torch
    import torch.fx.traceback as traceback
    from torch.fx.experimental.proxy_tensor import make_fx
    from torch_mlir.fx import OutputType, stateless_fx_import

    @contextmanager
    def scope(name: str) -> Iterator[None]:
        traceback.current_meta["custom"] = {"scope": name}
        yield
        traceback.current_meta["custom"] = {}

    parameters, x, target = arrays()
    example = [torch.from_numpy(each) for each in (*parameters, x[0], target[0])]
    with traceback.preserve_node_meta():
        traced = make_fx(torch_step(scope))(*example)
    traced.graph.eliminate_dead_code()
    for node in traced.graph.nodes:  # torch-mlir makes locations of stack traces.
        if name := node.meta.get("custom", {}).get("scope"):
            node.meta["stack_trace"] = f'File "{name}", line 1, in step'
    return stateless_fx_import(traced, output_type=OutputType.LINALG_ON_TENSORS, model_name="main")


def name_place(op: Any) -> None:
    """Gives an op the stage and phase that its location names, if it names any."""
    found = SCOPE.search(str(op.location))
    if not found or op.name == "func.return":
        return
    transposed, phase, stage = found.groups()
    if phase == "stage":
        phase = "backward" if transposed else "forward"
    op.attributes["pipe.phase"] = ir.StringAttr.get(phase)
    if stage:
        op.attributes["pipe.stage"] = ir.IntegerAttr.get(
            ir.IntegerType.get_signless(64), int(stage)
        )


def name_stages(module: Any) -> str:
    """Returns the text of the only function, with stages, phases and roles."""
    (function,) = [each for each in module.body.operations if str(each.name) == '"main"']
    text = function.operation.get_asm(enable_debug_info=True, use_local_scope=True)
    with module.context as context:
        context.allow_unregistered_dialects = True
        module = ir.Module.parse(text)
        (function,) = module.body.operations
        for op in function.entry_block.operations:
            name_place(op.operation)
        parameters = [f'{{pipe.param = "w{stage}"}}' for stage in range(STAGES)]
        gradients = [f'{{pipe.gradient = "w{stage}"}}' for stage in range(STAGES)]
        arguments = ", ".join([*parameters, "{pipe.input}", "{pipe.target}"])
        results = ", ".join(["{pipe.loss}", *gradients, *parameters])
        function.attributes["arg_attrs"] = ir.Attribute.parse(f"[{arguments}]")
        function.attributes["res_attrs"] = ir.Attribute.parse(f"[{results}]")
        function.attributes["sym_name"] = ir.StringAttr.get("step")
        return str(function)


def sample_function(name: str, role: str, samples: Any) -> str:
    """A function that returns the part of a microbatch of `samples`."""
    whole = f"tensor<{'x'.join(map(str, samples.shape))}xf32>"
    part = f"tensor<{'x'.join(map(str, samples.shape[1:]))}xf32>"
    return f"""
func.func @{name}(%microbatch: i64 {{pipe.microbatch}}) -> ({part} {{pipe.{role}}}) {{
  %all = arith.constant dense<"0x{samples.tobytes().hex()}"> : {whole}
  %i = arith.index_cast %microbatch : i64 to index
  %part = tensor.extract_slice %all[%i, 0, 0] [1, {SAMPLES}, {WIDTH}] [1, 1, 1] : {whole} to {part}
  return %part : {part}
}}"""


def main(framework: str, file: str) -> None:
    parameters, x, target = arrays()
    module = {"jax": lower_jax, "torch": lower_torch}[framework]()
    path = ", ".join(map(str, range(STAGES)))
    schedule = f"""
pipe.schedule @step_of_{framework} workers {STAGES} microbatches {MICROBATCHES} {{
  path on [{path}]
  data @data
  target @target
}}"""
    samples = sample_function("data", "input", x) + sample_function("target", "target", target)
    Path(file).write_text(f"{name_stages(module)}{schedule}{samples}\n")
    folder = Path(file).with_suffix(".parameters")
    folder.mkdir(exist_ok=True)
    for stage, w in enumerate(parameters):
        np.save(folder / f"stage{stage}.w{stage}.npy", w)


if __name__ == "__main__":
    main(*sys.argv[1:])
