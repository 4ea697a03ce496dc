"""A training loop of one's own, by pipeline schedules that are compared with their predictions.

torchrun --nproc-per-node 2 examples/train.py 1f1b zb-v

`optimized` is the best schedule for the times that the schedule before it measured:

torchrun --nproc-per-node 2 examples/train.py zb-h1 optimized
"""

import sys

import pipesched
import torch
import torch.distributed as dist
from gpt.model import batches, loss, model
from pipesched.torch import PipelineRuntime, split_sequential

STEPS, MEASURED, MICROBATCHES, BATCH, SEED = 16, 10, 8, 32, 0


def optimize(times: str) -> pipesched.Schedule:
    """Returns the schedule with the shortest step for these times and two activations a rank."""
    problem = pipesched.problem(workers=dist.get_world_size(), microbatches=MICROBATCHES)
    problem = problem.transform(f'pipe-attach-profile{{times="{times}"}}')
    best = [None]
    if dist.get_rank() == 0:
        best = [problem.optimize(memory=2, time_limit=10).schedule]
        best[0].save("optimized.mlir")
    dist.broadcast_object_list(best)
    return best[0]


def train(family: str, times: str) -> pipesched.Measurement:
    """Trains the model by a schedule, and returns the times of the last steps."""
    if family == "optimized":
        schedule = optimize(times)
    else:
        schedule = pipesched.generate(
            family, workers=dist.get_world_size(), microbatches=MICROBATCHES, name=family
        )
    torch.manual_seed(SEED)
    stages = split_sequential(model(layers=6), schedule)
    runtime = PipelineRuntime(schedule, stages, loss)
    held = [stages(stage.path, stage.stage) for stage in schedule.stages(runtime.rank)]
    parameters = {id(p): p for module in held for p in module.parameters()}
    optimizer = torch.optim.AdamW(parameters.values(), lr=1e-3)
    data = batches(BATCH, SEED)

    def run(steps: range) -> None:
        for step in steps:
            found = runtime.step(*next(data))
            optimizer.step()
            optimizer.zero_grad()
            if found is not None and step in (0, STEPS - 1):
                print(f"{family}: step {step}, loss {found.item():.4f}", flush=True)

    run(range(STEPS - MEASURED))
    with runtime.record() as recording:
        run(range(STEPS - MEASURED, STEPS))
    measurement = recording.gather()
    runtime.close()
    return measurement


def main(families: list[str]) -> None:
    """Trains by each family from the same parameters, and compares them."""
    dist.init_process_group("gloo")
    torch.set_num_threads(1)
    measured: dict[str, pipesched.Measurement] = {}
    times = "F=1ms,I=1ms,W=1ms"
    for family in families:
        measured[family] = train(family, times)
        times = measured[family].profile()
    if dist.get_rank() == 0:
        for family, measurement in sorted(measured.items(), key=lambda item: item[1].step_s):
            comparison = measurement.compare()
            print(
                f"{family}: measured {1e3 * measurement.step_s:.1f} ms, "
                f"predicted {1e3 * comparison.predicted_s:.1f} ms"
            )
            with open(f"{family}.svg", "w", encoding="utf-8") as picture:
                picture.write(comparison.to_svg())
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1:] or ["1f1b", "zb-v"])
