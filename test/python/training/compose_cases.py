"""Further events in pipelines side by side, in real processes: see case_runs.py."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path as File
from typing import Any

import torch
import torch._dynamo  # fully_shard loads it; once for all ranks, which are forked.
import torch.distributed as dist
from case_runs import case
from pipesched import Path, Schedule, generate
from pipesched.torch import PipelineError, PipelineRuntime, measure_children, split_sequential
from pipesched.torch.grad_sync import reduce
from runtime_cases import COUNT, Failing, batch, broken, line, whole
from runtime_models import WIDTH, Counted, Plain, loss_of
from torch import nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_optimizer_state_dict
from torch.distributed.checkpoint.state_dict_saver import save
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor, Shard, distribute_tensor
from torch.nn.parallel import DistributedDataParallel


def mesh_of(pipelines: int, workers: int) -> DeviceMesh:
    return init_device_mesh("cpu", (pipelines, workers), mesh_dim_names=("dp", "pp"))


def runtime_of(
    mesh: DeviceMesh, schedule: Schedule, modules: Any = None, seed: int = 0, **options: Any
) -> PipelineRuntime:
    stages = modules or split_sequential(whole(schedule.blocks, seed), schedule)
    return PipelineRuntime(schedule, stages, loss_of, mesh["pp"].get_group(), **options)


def one(module: nn.Module, mesh: DeviceMesh, **options: Any) -> PipelineRuntime:
    return runtime_of(mesh, line(1), {(0, 0): module}, **options)


# Refusals


@case(2, refused="over ranks [0, 1] of the job, of which ranks [0, 1] of this pipeline")
def data_parallel_over_the_pipeline(rank: int) -> None:
    runtime_of(mesh_of(1, 2), line(2), data_parallel=dist.group.WORLD)


@case(2, refused="is a mesh of 2 dimensions ('dp', 'pp'); wanted one of them")
def mesh_of_two_dimensions(rank: int) -> None:
    mesh = mesh_of(1, 2)
    runtime_of(mesh, line(2), data_parallel=mesh)


@case(2, refused="a DTensor of path 0, stage ")
def shards_over_the_pipeline(rank: int) -> None:
    mesh = mesh_of(1, 2)
    runtime_of(mesh, line(2), {(0, rank): fully_shard(Plain(rank), mesh=mesh["pp"])})


@case(2, refused="has another schedule, other stages or other options")
def other_schedule_beside(rank: int) -> None:
    mesh = mesh_of(2, 1)
    runtime_of(mesh, line(1, COUNT + rank), data_parallel=mesh["dp"])


@case(2, refused="its parameters have other values in pipeline ")
def other_values_beside(rank: int) -> None:
    mesh = mesh_of(2, 1)
    runtime_of(mesh, line(1), seed=rank, data_parallel=mesh["dp"]).step(*batch())


@case(4, refused="; give all ranks of a pipeline the same dimension")
def some_without(rank: int) -> None:
    mesh = mesh_of(2, 2)
    runtime_of(mesh, line(2), data_parallel=None if rank % 2 else mesh["dp"])


class Scaled(Plain):
    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.scale = nn.Parameter(torch.ones(WIDTH, dtype=torch.float64))


@case(2, refused="has a parameter 'scale' that fully_shard leaves out")
def parameters_left_out(rank: int) -> None:
    mesh = mesh_of(2, 1)
    module = Scaled(0)
    fully_shard(module, mesh=mesh["dp"], ignored_params={module.scale})
    one(module, mesh)


@case(2, refused="has DistributedDataParallel at '0': wrap a whole stage in DDP")
def ddp_inside(rank: int) -> None:
    mesh = mesh_of(2, 1)
    inner = DistributedDataParallel(Plain(0), process_group=mesh["dp"].get_group())
    one(nn.Sequential(inner), mesh)


@case(2, refused="is under DDP with a communication hook, which the runtime would not use")
def ddp_with_a_hook(rank: int) -> None:
    from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook

    mesh = mesh_of(2, 1)
    module = DistributedDataParallel(Plain(0), process_group=mesh["dp"].get_group())
    module.register_comm_hook(None, fp16_compress_hook)
    one(module, mesh)


@case(4, refused="under DDP over another process group than `data_parallel`")
def ddp_over_another_group(rank: int) -> None:
    mesh = init_device_mesh("cpu", (2, 2, 1), mesh_dim_names=("dp", "more", "pp"))
    module = DistributedDataParallel(Plain(0), process_group=mesh["dp"].get_group())
    one(module, mesh, data_parallel=mesh["more"])


@case(2, refused="has a DTensor as parameter 'weight' over the ranks of `data_parallel`")
def dtensors(rank: int) -> None:
    mesh = mesh_of(2, 1)
    module = nn.Linear(WIDTH, WIDTH, dtype=torch.float64)
    module.weight = nn.Parameter(distribute_tensor(module.weight, mesh["dp"], [Shard(0)]))
    one(module, mesh, data_parallel=mesh["dp"])


@case(4, refused="has some of its blocks; apply fully_shard to blocks alone")
def shards_of_stages_that_overlap(rank: int) -> None:
    mesh = mesh_of(2, 2)
    paths = [
        Path([0, 1], takes=[range(0, 4, 2)], weights=[1, 2]),
        Path([1, 0], takes=[range(1, 4, 2)], weights=[2, 1]),
    ]
    schedule = generate("greedy", workers=2, microbatches=COUNT, paths=paths)
    stages = split_sequential(whole(schedule.blocks), schedule)
    for stage in schedule.stages(rank % 2):
        module = stages(stage.path, stage.stage)
        for block in module:
            if not isinstance(block, FSDPModule):
                fully_shard(block, mesh=mesh["dp"])
        fully_shard(module, mesh=mesh["dp"])
    runtime_of(mesh, schedule, stages)


@case(2, refused="buffers average of [[[], 'torch.float64']]")
def buffers_of_other_shapes(rank: int) -> None:
    schedule = generate("chimera", workers=2, microbatches=COUNT)
    modules = [Counted(0) for _ in range(2)]
    if rank:
        for module in modules:
            module.norm.track_running_stats = False
            for name in list(module.norm._buffers):
                module.norm._buffers[name] = None
    stages = {(0, rank): modules[0], (1, 1 - rank): modules[1]}
    runtime_of(mesh_of(1, 2), schedule, stages, buffers="average")


@case(1, refused="`buffers` is 'mean'; wanted own, average or first")
def unknown_rule(rank: int) -> None:
    wrong: Any = "mean"
    one(Plain(0), mesh_of(1, 1), buffers=wrong)


# Failures


def failing(rank: int, is_sharded: bool) -> None:
    mesh = mesh_of(2, 2)
    module: nn.Module = Failing(3, broken) if rank == 3 else Failing(0, broken)
    if is_sharded:
        fully_shard(module, mesh=mesh["dp"])
    options: dict[str, Any] = {} if is_sharded else {"data_parallel": mesh["dp"]}
    runtime_of(mesh, line(2), {(0, rank % 2): module}, **options).step(*batch())


@case(4)
def failure_beside(rank: int) -> None:
    failing(rank, False)


@case(4)
def failure_beside_shards(rank: int) -> None:
    failing(rank, True)


@case(2)
def time_limit_beside(rank: int) -> None:
    mesh = mesh_of(2, 1)
    module = Failing(1, lambda: time.sleep(6 * rank))
    fully_shard(module, mesh=mesh["dp"])
    one(module, mesh, timeout=1.5).step(*batch())


# Working combinations


@case(2)
def bytes_of_activations(rank: int) -> list[list[int]]:
    """D moves the same with shards, whose whole parameters stay."""
    mesh = mesh_of(2, 1)
    schedule = generate("greedy", workers=1, microbatches=COUNT, paths=[[0, 0]])
    schedule = schedule.transform("pipe-add-offload")
    found: list[list[int]] = []
    for is_sharded in (False, True):
        stages = split_sequential(whole(2), schedule)
        if is_sharded:
            for stage in range(2):
                fully_shard(stages(0, stage), mesh=mesh["dp"])
        runtime = runtime_of(mesh, schedule, stages, memory_budget="1MB")
        sizes: list[int] = []

        def look(_: Any, runtime: PipelineRuntime = runtime, sizes: list[int] = sizes) -> None:
            held = runtime._executor.held.values()
            sizes.append(sum(a.saved.nbytes for a in held if a.saved is not None))

        runtime.on_instruction = look
        runtime.step(*batch())
        found.append(sizes)
    return found


@case(4)
def sums_in_a_part_of_the_ranks(rank: int) -> Any:
    """As without gloo, in a pipeline of three of four ranks."""
    group = dist.new_group([0, 1, 2])
    if rank == 3:
        return None
    untyped: Any = reduce
    untyped.dist.get_backend = lambda _: "other"
    untyped.takes_host = lambda _: True
    watch: Any = None
    sum_up = reduce.sum_over(group, (0, 2), watch)
    if sum_up is None:
        return None
    value = torch.tensor([rank + 0.5])
    sum_up(value).wait()
    return int(value.item())


def overflow(rank: int, is_sharded: bool) -> list[Any]:
    """One of two pipelines has gradients that are not finite: all ranks skip the step."""
    mesh = mesh_of(2, 2)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    module = Plain(rank % 2)
    if is_sharded:
        fully_shard(module, mesh=mesh["dp"])
    options: dict[str, Any] = {} if is_sharded else {"data_parallel": mesh["dp"]}
    runtime = runtime_of(mesh, line(2), {(0, rank % 2): module}, scaler=scaler, **options)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    inputs, targets = batch()
    before = scaler.get_scale()
    values = [own(p).clone() for p in module.parameters()]
    if rank >= 2:
        targets[0, 0] = float("inf")
    runtime.step(inputs, targets)
    before = scaler.get_scale()
    scaler.step(optimizer)
    scaler.update()
    is_same = all(bool((own(p) == v).all()) for p, v in zip(module.parameters(), values))
    return [before, scaler.get_scale(), is_same]


def own(parameter: torch.Tensor) -> torch.Tensor:
    found = parameter.detach()
    return found.to_local() if isinstance(found, DTensor) else found


@case(4)
def overflow_beside(rank: int) -> list[Any]:
    return overflow(rank, False)


@case(4)
def overflow_of_shards(rank: int) -> list[Any]:
    return overflow(rank, True)


def accumulation(rank: int, is_sharded: bool) -> float:
    """Two steps without zero_grad between them add up, also over replicas."""
    mesh = mesh_of(2, 2)
    schedule = generate("chimera", workers=2, microbatches=COUNT)
    model, reference = whole(2), whole(2)
    stages = split_sequential(model, schedule)
    if is_sharded:
        for stage in schedule.stages(rank % 2):
            fully_shard(stages(stage.path, stage.stage), mesh=mesh["dp"])
    options: dict[str, Any] = {} if is_sharded else {"data_parallel": mesh["dp"]}
    runtime = runtime_of(mesh, schedule, stages, **options)
    for step in range(2):
        runtime.step(*batch(10 * step + rank // 2))
        for pipeline in range(2):
            inputs, targets = batch(10 * step + pipeline)
            torch.autograd.backward(loss_of(reference(inputs), targets) / 2)
    return differences(model, reference)


def differences(model: nn.Module, reference: nn.Module) -> float:
    worst = 0.0
    for mine, like in zip(model.parameters(), reference.parameters(), strict=True):
        assert mine.grad is not None and like.grad is not None
        found = mine.grad.full_tensor() if isinstance(mine.grad, DTensor) else mine.grad
        worst = max(worst, (found - like.grad).abs().max().item())
    return worst


@case(4, within=1e-12)
def accumulation_beside(rank: int) -> float:
    return accumulation(rank, False)


@case(4, within=1e-12)
def accumulation_of_shards(rank: int) -> float:
    return accumulation(rank, True)


@case(4, within=1e-12)
def norms_beside(rank: int) -> list[float]:
    """Clipping by the norm of all ranks, with shards of one pipeline or both, and without."""
    found: list[float] = []
    for kind in ("plain", "shards", "blocks"):
        for norm in (2.0, float("inf")):
            mesh = mesh_of(2, 2)
            schedule = generate("chimera", workers=2, microbatches=COUNT)
            model, reference = whole(2), whole(2)
            stages = split_sequential(model, schedule)
            for stage in schedule.stages(rank % 2) if kind != "plain" else ():
                module = stages(stage.path, stage.stage)
                fully_shard(module[0] if kind == "blocks" else module, mesh=mesh["dp"])
            options: dict[str, Any] = {} if kind != "plain" else {"data_parallel": mesh["dp"]}
            runtime = runtime_of(mesh, schedule, stages, **options)
            runtime.step(*batch(rank // 2))
            for pipeline in range(2):
                inputs, targets = batch(pipeline)
                torch.autograd.backward(loss_of(reference(inputs), targets) / 2)
            wanted = nn.utils.clip_grad_norm_(reference.parameters(), 1e-3, norm)
            total = runtime.clip_grad_norm_(1e-3, norm)
            found += [abs(total.item() / wanted.item() - 1), differences(model, reference)]
            runtime.close()
    return found


@case(2, within=1e-12)
def evaluation_of_shards(rank: int) -> float:
    """Only forwards, before a step and between steps."""
    mesh = mesh_of(2, 1)
    schedule = generate("greedy", workers=1, microbatches=COUNT, paths=[[0, 0]])
    model, reference = whole(2), whole(2)
    stages = split_sequential(model, schedule)
    for stage in range(2):
        fully_shard(stages(0, stage), mesh=mesh["dp"])
    runtime = runtime_of(mesh, schedule, stages)
    inputs, targets = batch()
    wanted = loss_of(reference(inputs), targets)
    worst = 0.0
    for _ in range(2):
        for call in (runtime.evaluate, runtime.step):
            found: Any = call(inputs, targets)
            worst = max(worst, abs(found - wanted).item())
        assert all(isinstance(p, DTensor) for p in model.parameters())
    return worst


# State


def saved(rank: int) -> tuple[PipelineRuntime, dict[str, Any]]:
    return runtime_of(mesh_of(1, 2), line(2)), whole(2, seed=5).state_dict()


@case(2)
def state_with_other_names(rank: int) -> list[str]:
    """A mistake on one rank is an error of both; no state is changed, and all continues."""
    runtime, state = saved(rank)
    before = {name: value.clone() for name, value in runtime.state_dict().items()}
    texts = []
    wrong: list[dict[str, Any]] = [
        {name: value for name, value in state.items() if name != "1.outer.bias"},
        {**state, "2.inner.weight": torch.zeros(2), "other": torch.zeros(2)},
        {**state, "0.inner.bias": torch.zeros(3)},
    ]
    for given in wrong:
        try:
            runtime.load_state_dict(given)
        except PipelineError as error:
            texts.append(str(error))
    found = runtime.state_dict()
    assert all(torch.equal(value, found[name]) for name, value in before.items())
    runtime.load_state_dict(state)
    assert all(torch.equal(state[name], value) for name, value in found.items())
    runtime.step(*batch())
    return texts


@case(2)
def checkpoint_with_other_names(rank: int) -> list[str]:
    runtime, state = saved(rank)
    optimizer = torch.optim.Adam(runtime.parameters())
    store: Any = dist.distributed_c10d._get_default_store()
    if rank == 0:
        store.set("folder", tempfile.mkdtemp())
    folder = File(store.get("folder").decode())
    texts = []
    optimizers = state_of(whole(2))
    del state["0.inner.bias"]
    short = {name: value for name, value in optimizers.items() if "1.outer.bias" not in name}
    full = whole(2, seed=5).state_dict()
    wide = {**full, "1.outer.bias": torch.zeros(7)}
    given: list[Any] = [
        {"model": state},
        {"model": wide},
        {"model": full, "optimizer": short},
        {"other": full},
    ]
    for number, each in enumerate(given):
        if rank == 0:
            save(each, checkpoint_id=folder / str(number), no_dist=True)
        dist.barrier()
        try:
            runtime.load(folder / str(number), optimizer)
        except PipelineError as error:
            texts.append(str(error))
    try:
        runtime.load(folder / "none", optimizer)
    except PipelineError as error:
        texts.append(str(error))
    runtime.step(*batch())
    return texts


def state_of(model: nn.Module) -> dict[str, Any]:
    optimizer = torch.optim.Adam(model.parameters())
    options = StateDictOptions(flatten_optimizer_state_dict=True)
    return dict(get_optimizer_state_dict(model, optimizer, options=options))


@case(2)
def ranks_that_divide_otherwise(rank: int) -> None:
    schedule = line(2)
    PipelineRuntime(
        schedule, split_sequential(whole(3), schedule, sizes=[1 + rank, 2 - rank]), loss_of
    )


@case(2)
def measured_by_one_rank(rank: int) -> list[float]:
    model = nn.Sequential(*(Plain(i) for i in range(3)))
    return measure_children(model, batch()[0], repeats=1, group=dist.group.WORLD)
