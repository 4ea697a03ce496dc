"""Trains the model of examples/moe, whose experts are shared by pipelines side by side, and
compares with the model that has all experts on one rank and no pipeline.
"""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from pipesched import Schedule
from pipesched.torch import PipelineRuntime, parts, split_sequential
from pipesched.torch.core.values import map_tensors
from runtime_ranks import difference
from torch import Tensor, nn

MODEL = Path(__file__).parents[3] / "examples" / "moe" / "model.py"
STEPS, SAMPLES, CONTEXT = 2, 2, 5
EXPERTS = "*.experts.*"
SIZES: dict[str, Any] = {"width": 8, "experts": 4, "context": CONTEXT}


@dataclass(frozen=True)
class PartJob:
    name: str
    schedule: Schedule
    layers: int = 4
    peers: int = 2
    """Pipelines that share the experts."""
    options: dict[str, Any] = field(default_factory=dict)
    how: str = "parts"
    """parts, whole (layers that do not say their parts), spied (layers that report their runs), or
    silent (a rank that gets no rows).
    """

    averages: bool = False
    """Whether the runtime averages gradients over the pipelines, and knows which are of experts."""

    @property
    def ranks(self) -> int:
        return self.schedule.workers * self.peers


@dataclass
class PartResult:
    """The largest relative errors, and the parts that ran in the last step."""

    loss: float = 0.0
    gradients: float = 0.0
    norm: float = 0.0
    """The relative error of the norm of all gradients."""
    experts: int = 0
    before: dict[str, Any] = field(default_factory=dict)
    notes: list[parts.Noted] = field(default_factory=list)
    seen: list[str] = field(default_factory=list)
    """The records of the exchanges and the layers themselves."""


def load() -> Any:
    spec = importlib.util.spec_from_file_location("moe_model", MODEL)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["moe_model"] = module
    spec.loader.exec_module(module)
    return module


class Whole(nn.Module):
    """A layer that does not say its parts."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.inner(x)
        return found


class _Mark(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, seen: list[str], text: str) -> Tensor:
        ctx.seen, ctx.text = seen, text
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        ctx.seen.append(ctx.text)
        return gradients[0], None, None


class _Work:
    def __init__(self, inner: Any, seen: list[str], text: str) -> None:
        self._inner, self._seen, self._text = inner, seen, text

    def wait(self, *arguments: Any) -> Any:
        self._seen.append(self._text)
        return self._inner.wait(*arguments)


class _Spy(parts.Exchange):
    def __init__(self, inner: parts.Exchange, seen: list[str], part: str) -> None:
        super().__init__(inner.rows)
        self._inner, self._seen, self._part = inner, seen, part

    def start(self, rows: Tensor) -> parts.Arriving:
        return self._watched(self._inner.start(rows), "F")

    def start_back(self, gradients: Tensor) -> parts.Arriving:
        return self._watched(self._inner.start_back(gradients), "I")

    def _watched(self, arriving: parts.Arriving, phase: str) -> parts.Arriving:
        self._seen.append(f"starts {self._part}.{phase}")
        arriving.work = _Work(arriving.work, self._seen, f"waits {self._part}.{phase}")
        return arriving


def spied(layer: Any, seen: list[str]) -> None:
    """Lets a layer report its parts: F when a part is called, I when its gradient starts."""
    for part in (*parts.PARTS, "output"):
        method = getattr(layer, part)

        def run(*values: Any, part: str = part, method: Any = method) -> Any:
            seen.append(f"runs {part}.F")
            found = method(*values)
            entries = list(found) if type(found) is tuple else [found]
            if isinstance(entries[0], parts.Exchange):
                entries[0] = _Spy(entries[0], seen, part)
            else:
                mark: Any = _Mark.apply
                entries[0] = map_tensors(entries[0], lambda t: mark(t, seen, f"runs {part}.I"))
            return tuple(entries) if type(found) is tuple else entries[0]

        setattr(layer, part, run)


def wanted(module: Any, job: PartJob, batches: list[Any]) -> tuple[nn.Sequential, float]:
    """The model on one rank with the microbatches of all pipelines, and its loss."""
    torch.manual_seed(3)
    whole = module.model(layers=job.layers, **SIZES).double()
    silence(whole, job)
    total = 0.0
    for inputs, targets in batches:
        loss = module.loss(whole(inputs), targets) / len(batches)
        loss.backward()
        total += loss.item()
    return whole, total


def silence(whole: nn.Module, job: PartJob) -> None:
    """Lets the routers choose only the first two experts."""
    if job.how == "silent":
        for name, parameter in whole.named_parameters():
            if name.endswith("router.bias"):
                with torch.no_grad():
                    parameter[:2] += 1e3


def run(job: PartJob, pipeline: Any, peers: Any, mine: int) -> PartResult:
    module, schedule, result = load(), job.schedule, PartResult()
    torch.manual_seed(3)
    model = module.model(layers=job.layers, **SIZES, group=peers).double()
    silence(model, job)
    blocks: nn.Sequential = model
    if job.how == "whole":
        blocks = nn.Sequential(*(Whole(each) for each in model))
    if job.how == "spied":
        for layer in list(model)[1:-1]:
            spied(layer, result.seen)
    stages = split_sequential(blocks, schedule)
    options = dict(job.options)
    if job.averages:
        options |= {"data_parallel": peers, "expert_parallel": [EXPERTS]}
    runtime = PipelineRuntime(schedule, stages, module.loss, pipeline, timeout=60, **options)
    held = [stages(s.path, s.stage) for s in schedule.stages(dist.get_rank(pipeline))]
    owned = {id(p) for stage in held for p in stage.parameters()}
    for step in range(STEPS):
        torch.manual_seed(step)
        shape = job.peers, schedule.microbatches, SAMPLES, CONTEXT
        inputs, targets = torch.randint(module.WORDS, (2, *shape)).unbind(0)
        every = list(zip(inputs.flatten(0, 1), targets.flatten(0, 1), strict=True))
        reference, loss = wanted(module, job, every)
        result.seen.clear()
        with parts.noted() as result.notes:
            found = runtime.step(list(inputs[mine]), list(targets[mine]))
        result.notes = list(result.notes)
        if found is not None:
            mean = found.detach().clone()
            dist.all_reduce(mean, group=peers)
            if len(schedule.paths) > 1:  # each rank has the losses of a path
                dist.all_reduce(mean, group=pipeline)
                mean /= len(schedule.paths)
            result.loss = max(result.loss, abs(mean.item() / job.peers - loss))
        if job.averages:
            check_averaged(job, runtime, model, reference, result)
        else:
            compare(model, owned, reference, result, peers)
            runtime.zero_grad()
    runtime.close()
    return result


def compare(
    model: nn.Sequential, owned: set[int], reference: nn.Sequential, result: PartResult, peers: Any
) -> None:
    for name, parameter in model.named_parameters():
        if id(parameter) not in owned:
            continue
        assert parameter.grad is not None or ".experts." in name, name
        gradient = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad.clone()
        if ".experts." not in name:
            dist.all_reduce(gradient, group=peers)
        like = reference.get_parameter(name).grad
        like = torch.zeros_like(parameter) if like is None else like
        error = difference(gradient / dist.get_world_size(peers), like)
        result.gradients = max(result.gradients, error)


def check_averaged(
    job: PartJob,
    runtime: PipelineRuntime,
    model: nn.Sequential,
    reference: nn.Sequential,
    result: PartResult,
) -> None:
    """Compares gradients with the whole model's, also added to earlier ones, and their norm."""
    every = [p.grad for p in reference.parameters() if p.grad is not None]
    wanted_norm = sum(float(gradient.norm()) ** 2 for gradient in every)
    owned = {id(p) for p in runtime.parameters()}
    result.experts = 0
    for name, parameter in model.named_parameters():
        like = reference.get_parameter(name).grad
        if id(parameter) not in owned or like is None:
            assert parameter.grad is None or id(parameter) in owned
            continue
        before = result.before.get(name, torch.zeros_like(like))
        found = torch.zeros_like(like) if parameter.grad is None else parameter.grad
        result.gradients = max(result.gradients, difference(found, before + like))
        result.before[name] = before + like
        result.experts += ".experts." in name
    if not result.norm:  # gradients of only the first step
        found_norm = float(runtime.clip_grad_norm_(1e9)) ** 2
        result.norm = abs(found_norm / wanted_norm - 1) + 1e-30
        with torch.no_grad():
            for parameter in runtime.parameters():
                parameter.add_(1)
        runtime.load_state_dict(reference.state_dict())


def run_job(job: PartJob, _: dist.ProcessGroup, __: Path) -> PartResult:
    workers = job.schedule.workers
    pipelines = [[p * workers + w for w in range(workers)] for p in range(job.peers)]
    sides = [[p * workers + w for p in range(job.peers)] for w in range(workers)]
    groups = [[dist.new_group(ranks) for ranks in each] for each in (pipelines, sides)]
    pipeline, worker = divmod(dist.get_rank(), workers)
    return run(job, groups[0][pipeline], groups[1][worker], pipeline)
