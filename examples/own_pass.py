"""A pass of your own: one more forward before the first backward of each worker of 1F1B.

python examples/own_pass.py
"""

from pathlib import Path

import pipesched


def forward_ahead(module, running):
    """Moves the first forward after the first backward of each row in front of that backward."""
    schedule = module.regions[0].blocks[0].operations[0]
    for row in schedule.regions[0].blocks[0]:
        if row.name == "pipe.worker":
            cells = row.opview.cells
            backward = next(i for i, cell in enumerate(cells) if "F" not in cell)
            forward = next((i for i, cell in enumerate(cells) if i > backward and "F" in cell), 0)
            if forward:
                cells.insert(backward, cells.pop(forward))
                row.opview.cells = cells


def step_ms(schedule):
    return schedule.simulate(times="F=1ms,B=2ms,comm=1ms").execution.makespan_ps / 1e9


if __name__ == "__main__":
    schedule = pipesched.generate("1f1b", workers=4, microbatches=8)
    moved = schedule.transform(f"{Path(__file__)}:forward_ahead,pipe-verify{{messages=batched}}")
    print(moved, f"takes {step_ms(moved):g} instead of {step_ms(schedule):g} ms", sep="")
    assert step_ms(moved) < step_ms(schedule)
