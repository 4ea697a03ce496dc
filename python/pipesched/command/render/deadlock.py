"""Draws a schedule that deadlocks, up to the cells that wait for each other.

    worker 0   0F0 ... | <0B0> <0F1> 0B1
    worker 1   ... 1F0 | <1F1> <1B0> 1B1

Entries left of the bar run, in slots of one unit. Entries right of it never run; the cells of the
cycle are in angle brackets.
"""

from __future__ import annotations

from pipesched import Schedule

_MOST = 8
"""How many cells of a cycle the first line names."""


def draw(schedule: Schedule) -> str | None:
    """Returns the picture. None if the rows do not deadlock, or something else is wrong with them
    too."""
    found = schedule._module.deadlock(0)
    if found is None:
        return None
    cycle, slots = found
    width = max(len(text) for row in schedule.rows for text in row)
    columns = 1 + max(slots)
    names: dict[tuple[int, int], str] = {}
    lines, runs, total, first = [], 0, 0, 0
    for worker, row in enumerate(schedule.rows):
        places, waiting, index = ["." * width] * columns, [], 0
        for text in row:
            cells = text.split("+")
            keys = [(worker, index + half) for half in range(len(cells))]
            names.update(zip(keys, cells, strict=True))
            if (slot := slots[first + index]) >= 0:
                places[slot] = text.ljust(width)
                runs += 1
            else:
                waiting.append(f"<{text}>" if any(key in cycle for key in keys) else text)
            index += len(cells)
        first += index
        total += len(row)
        lines.append(f"  worker {worker}  {' '.join([*places, '|', *waiting])}".rstrip())
    more = [f"and {len(cycle) - _MOST} more"] if len(cycle) > _MOST else []
    head = (
        f"{schedule.name}: {runs} of {total} cells run in {columns} slots, then "
        f"{', '.join([*(names[key] for key in cycle[:_MOST]), *more])} wait for each other"
    )
    return "\n".join([head, *lines]) + "\n"
