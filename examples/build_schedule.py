"""Builds a schedule op by op, changes it by a pass written in Python, and writes a FileCheck test.

python examples/build_schedule.py order.mlir
"""

import sys
from pathlib import Path

import pipesched
from pipesched import ir
from pipesched.dialects import exec as exec_
from pipesched.dialects import pipe

WORKERS, MICROBATCHES = 2, 4
PIPELINE = "builtin.module(pipe-verify,convert-pipe-to-exec)"


def build():
    """Returns a module with GPipe: all forwards, then all backwards."""
    with ir.Context(), ir.Location.file(__file__, 1, 1):
        module = ir.Module.create()
        with ir.InsertionPoint(module.body):
            schedule = pipe.ScheduleOp("order", WORKERS, MICROBATCHES)
        with ir.InsertionPoint(schedule.bodyRegion.blocks.append()):
            pipe.PathOp(range(WORKERS))
            for worker in range(WORKERS):
                cells = [(worker, phase, n) for phase in "FB" for n in range(MICROBATCHES)]
                pipe.WorkerOp(worker, cells)
    return module


def one_forward_one_backward(op, running):
    """A pass: gives each row of a schedule the order of 1F1B."""

    def visit(each):
        row = each.opview
        if isinstance(row, pipe.WorkerOp):
            half = len(row.cells) // 2
            ahead = op.opview.workers.value - row.worker.value
            forwards, backwards = row.cells[:half], row.cells[half:]
            pairs = zip(backwards, forwards[ahead:])
            rest = backwards[half - ahead :]
            row.cells = [*forwards[:ahead], *(cell for pair in pairs for cell in pair), *rest]
        return ir.WalkResult.ADVANCE

    op.walk(visit)


def messages_of(module):
    """Returns the lines of sends, in order, of the programs into which a module is lowered."""
    lowered = ir.Module.parse(str(module), module.context)
    ir.PassManager.parse(PIPELINE, module.context).run(lowered.operation)
    lines = []

    def visit(each):
        if isinstance(each.opview, exec_.SendOp):
            lines.append(f"send {each.opview.cell} to {each.opview.destination.value}")
        return ir.WalkResult.ADVANCE

    lowered.operation.walk(visit)
    return lines


def makespan(module):
    schedule = pipesched.Schedule.from_text(str(module))
    return schedule.simulate(times="F=1ms,B=2ms,comm=1ms").execution.makespan_ps / 1e9


def main():
    module = build()
    print(module, f"takes {makespan(module):g} ms\n", sep="")
    passes = ir.PassManager("builtin.module", module.context)
    passes.add(one_forward_one_backward, op_name="pipe.schedule")
    passes.add("pipe-verify{messages=batched}")
    passes.run(module.operation)
    print(module, f"takes {makespan(module):g} ms", sep="")
    checks = [f"// CHECK: {line}\n" for line in messages_of(module)]
    run = f"// RUN: pipesched-opt %s --pass-pipeline='{PIPELINE}' | FileCheck %s\n"
    Path(sys.argv[1]).write_text("".join([run, "\n", str(module), "\n", *checks]))


if __name__ == "__main__":
    main()
