"""Unusual schedules: random stages on random workers in a random order."""

from __future__ import annotations

import random

from pipesched import Schedule

Key = tuple[int, int, int]


def random_schedule(seed: int) -> Schedule:
    """Returns a training step. Each cell runs after all that it needs, so that no cycle waits."""
    draw = random.Random(seed)
    workers, microbatches = draw.randint(2, 5), draw.randint(1, 7)
    stages = draw.randint(workers, workers + 4)
    paths = draw.randint(1, min(2, microbatches))
    places = [_places(draw, workers, stages) for _ in range(paths)]
    share = draw.choice([0.0, 0.5, 1.0])
    split = {
        (path, stage, number): draw.random() < share
        for number in range(microbatches)
        for path in [number % paths]
        for stage in range(stages)
    }
    rows: list[list[str]] = [[] for _ in range(workers)]
    # Cells that can run now, as phase and place.
    ready = [("F", (number % paths, 0, number)) for number in range(microbatches)]
    while ready:
        phase, key = ready.pop(draw.randrange(len(ready)))
        path, stage, number = key
        rows[places[path][stage]].append(f"{stage}{phase}{number}")
        ready += _following(phase, key, stages, split)
    lines = [f"  pipe.schedule @random workers {workers} microbatches {microbatches} {{"]
    for path, place in enumerate(places):
        takes = f" takes [{path}:{microbatches}:{paths}]" if paths > 1 else ""
        lines.append(f"    path on {place}{takes}")
    lines += [f"    worker {w} runs [{' '.join(row)}]" for w, row in enumerate(rows)]
    return Schedule.from_text("\n".join(["module {", *lines, "  }", "}", ""]))


def _places(draw: random.Random, workers: int, stages: int) -> list[int]:
    places = [*range(workers), *(draw.randrange(workers) for _ in range(stages - workers))]
    draw.shuffle(places)
    return places


def _following(phase: str, key: Key, stages: int, split: dict[Key, bool]) -> list[tuple[str, Key]]:
    """The cells that can run as soon as this one has run."""
    path, stage, number = key

    def backward(stage: int) -> tuple[str, Key]:
        place = path, stage, number
        return ("I" if split[place] else "B"), place

    if phase == "F":
        last = stage == stages - 1
        return [backward(stage) if last else ("F", (path, stage + 1, number))]
    found = [("W", key)] if phase == "I" else []
    return found if phase == "W" or stage == 0 else [*found, backward(stage - 1)]
