"""Graphs of stages with the starts of their cells and their most activations, by hand.

The starts come from an independent simulator, with messages that take a time and hold nothing
(`delay`) or go through queues in the order of the times of `delay` (`overlap`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True)
class GraphCase:
    """A schedule, its times in microseconds, and its starts and most activations."""

    name: str
    header: str
    stages: tuple[str, ...]
    rows: tuple[str, ...]
    times: dict[str, Any]
    starts: dict[str, list[list[int]]]
    peaks: list[int]
    held: tuple[int, int] | None = None  # bytes of an activation, and its part for W
    peak_bytes: list[int] | None = None

    @property
    def with_model(self) -> str:
        """The schedule with a model, of whose blocks each stage has one."""
        assert self.held is not None
        activation, for_weights = self.held
        nodes = [line.split()[1] for line in self.stages if line.startswith("node")]
        path = self.stages[0].split("[")[1].split("]")[0].count(",") + 1
        blocks = "".join(
            f'block "{name}" x {count} parameters 0 activation_bytes {activation}'
            f" weight_grad_bytes {for_weights} {{\n}}\n"
            for name, count in [("layer", path), *((f"node {n}", 1) for n in nodes)]
        )
        lines = [
            f'{line} holds "node {line.split()[1]}"' if line.startswith("node") else line
            for line in self.stages
        ]
        text = replace(self, header=f"{self.header} model @m", stages=tuple(lines)).text
        head = "pipe.model @m microbatch_size 1 boundary_bytes 0 state_bytes [0, 0, 0]"
        return f"{head} {{\n{blocks}}}\n{text}"

    @property
    def text(self) -> str:
        rows = (f"worker {number} runs [{row}]" for number, row in enumerate(self.rows))
        return "\n  ".join([f"pipe.schedule @s {self.header} {{", *self.stages, *rows]) + "\n}\n"


def both(*rows: list[int]) -> dict[str, list[list[int]]]:
    return {"delay": list(rows), "overlap": list(rows)}


CASES = (
    GraphCase(
        "an encoder on the worker of stage 0",
        "workers 2 microbatches 4",
        ("path on [0, 1]", "node 2 on [0]", "edge 2 -> 0"),
        (
            "2F0 0F0 2F1 0F1 0B0 2B0 2F2 0F2 0B1 2B1 2F3 0F3 0B2 2B2 0B3 2B3",
            "1F0 1B0 1F1 1B1 1F2 1B2 1F3 1B3",
        ),
        {"F": [10, 10, 15], "B": [20, 20, 30]},
        both(
            [0, 15, 25, 40, 55, 75, 105, 120, 130, 150, 180, 195, 205, 225, 255, 275],
            [25, 35, 55, 65, 130, 140, 205, 215],
        ),
        [4, 1],
    ),
    GraphCase(
        "two encoders, one of them frozen",
        "workers 4 microbatches 3",
        ("path on [2, 3]", "node 2 on [0]", "node 3 on [1] frozen", "edge 2 -> 0", "edge 3 -> 0"),
        (
            "2F0 2F1 2F2 2B0 2B1 2B2",
            "3F0 3F1 3F2",
            "0F0 0F1 0B0 0F2 0B1 0B2",
            "1F0 1B0 1F1 1B1 1F2 1B2",
        ),
        {"F": [10, 10, 8, 13], "B": [20, 20, 16, 20], "comm": 1, "send": [2, 2, 2, 6]},
        both(
            [0, 8, 16, 89, 119, 155],
            [0, 13, 26],
            [20, 33, 66, 86, 96, 132],
            [33, 43, 63, 73, 99, 109],
        ),
        [3, 1, 2, 1],
    ),
    GraphCase(
        "a slow encoder, whose images come after gradients of earlier unit slots",
        "workers 4 microbatches 8",
        ("path on [1, 2, 3]", "node 3 on [0] frozen", "edge 3 -> 0"),
        (
            " ".join(f"3F{m}" for m in range(8)),
            "0F0 0F1 0F2 0B0 0F3 0B1 0F4 0B2 0F5 0B3 0F6 0B4 0F7 0B5 0B6 0B7",
            "1F0 1F1 1B0 1F2 1B1 1F3 1B2 1F4 1B3 1F5 1B4 1F6 1B5 1F7 1B6 1B7",
            " ".join(f"2F{m} 2B{m}" for m in range(8)),
        ),
        {"F": [10, 10, 10, 30], "B": 20},
        both(
            [0, 30, 60, 90, 120, 150, 180, 210],
            [30, 60, 90, 100, 120, 130, 150, 160, 180, 190, 210, 220, 240, 250, 280, 310],
            [40, 70, 80, 100, 110, 130, 140, 160, 170, 190, 200, 220, 230, 250, 260, 290],
            [50, 60, 80, 90, 110, 120, 140, 150, 170, 180, 200, 210, 230, 240, 260, 270],
        ),
        [1, 3, 2, 1],
    ),
    GraphCase(
        "one message for two stages of a worker, and one with the sum of their gradients",
        "workers 2 microbatches 2",
        ("path on [0, 1, 1]", "edge 0 -> 2"),
        ("0F0 0F1 0B0 0B1", "1F0 2F0 2B0 1B0 1F1 2F1 2B1 1B1"),
        {"F": 10, "B": 20, "send": 30},
        both([0, 10, 130, 190], [40, 50, 60, 80, 100, 110, 120, 140]),
        [2, 2],
    ),
    GraphCase(
        "multi-token prediction after the last stage, on its worker",
        "workers 2 microbatches 3",
        ("path on [0, 1]", "node 2 on [1]", "edge 1 -> 2"),
        ("0F0 0F1 0B0 0F2 0B1 0B2", "1F0 2F0 2B0 1B0 1F1 2F1 2B1 1B1 1F2 2F2 2B2 1B2"),
        {"F": [10, 10, 5], "B": [20, 20, 10], "comm": 1, "send": 2},
        both([0, 10, 61, 81, 106, 151], [13, 23, 28, 38, 58, 68, 73, 83, 103, 113, 118, 128]),
        [2, 2],
    ),
    GraphCase(
        "two heads with a loss each",
        "workers 3 microbatches 3",
        ("path on [0, 1]", "node 2 on [2]", "edge 0 -> 2"),
        ("0F0 0F1 0B0 0F2 0B1 0B2", "1F0 1B0 1F1 1B1 1F2 1B2", "2F0 2B0 2F1 2B1 2F2 2B2"),
        {"F": [10, 10, 30], "B": [20, 20, 60], "comm": 1},
        both([0, 10, 102, 122, 192, 282], [11, 21, 41, 51, 133, 143], [11, 41, 101, 131, 191, 221]),
        [2, 1, 1],
    ),
    GraphCase(
        "an input gradient waits for the weight gradients of two stages",
        "workers 3 microbatches 2 gradient after W",
        ("path on [0, 1]", "node 2 on [2]", "edge 0 -> 2"),
        ("0F0 0F1 0I0 0I1 0W0 0W1", "1F0 1I0 1F1 1I1 1W0 1W1", "2F0 2I0 2W0 2F1 2I1 2W1"),
        {"F": 10, "I": [11, 11, 15], "W": [9, 9, 2]},
        both([0, 10, 61, 72, 83, 92], [10, 20, 31, 41, 52, 61], [10, 20, 35, 37, 47, 62]),
        [2, 2, 1],
        held=(3, 2),
        peak_bytes=[6, 5, 3],
    ),
    GraphCase(
        "an encoder that no microbatch runs",
        "workers 3 microbatches 4",
        ("path on [1, 2]", "node 2 on [0] takes []", "edge 2 -> 0"),
        ("", "0F0 0F1 0B0 0F2 0B1 0F3 0B2 0B3", "1F0 1B0 1F1 1B1 1F2 1B2 1F3 1B3"),
        {"F": [10, 10, 15], "B": [20, 20, 30]},
        both([], [0, 10, 40, 60, 70, 90, 100, 130], [10, 20, 40, 50, 70, 80, 100, 110]),
        [0, 2, 1],
    ),
    GraphCase(
        "the first two stages are frozen",
        "workers 3 microbatches 4",
        ("path on [0, 1, 2] frozen [0, 1]",),
        ("0F0 0F1 0F2 0F3", "1F0 1F1 1F2 1F3", "2F0 2B0 2F1 2B1 2F2 2B2 2F3 2B3"),
        {"F": 10, "B": 20},
        both([0, 10, 20, 30], [10, 20, 30, 40], [20, 30, 50, 60, 80, 90, 110, 120]),
        [1, 1, 1],
        held=(3, 2),
        peak_bytes=[3, 3, 3],
    ),
    GraphCase(
        "stages are frozen after one that trains",
        "workers 3 microbatches 4",
        ("path on [0, 1, 2] frozen [1, 2]",),
        (
            "0F0 0F1 0F2 0B0 0F3 0B1 0B2 0B3",
            "1F0 1F1 1I0 1F2 1I1 1F3 1I2 1I3",
            "2F0 2I0 2F1 2I1 2F2 2I2 2F3 2I3",
        ),
        {"F": 10, "B": 20, "I": 10},
        both(
            [0, 10, 20, 50, 70, 80, 100, 120],
            [10, 20, 40, 50, 60, 80, 90, 110],
            [20, 30, 40, 50, 60, 70, 90, 100],
        ),
        [3, 2, 1],
        held=(3, 2),
        peak_bytes=[9, 6, 3],
    ),
    GraphCase(
        "adapters on the stage in the middle",
        "workers 3 microbatches 4",
        ("path on [0, 1, 2] frozen [0, 2]",),
        ("0F0 0F1 0F2 0F3", "1F0 1F1 1B0 1F2 1B1 1F3 1B2 1B3", "2F0 2I0 2F1 2I1 2F2 2I2 2F3 2I3"),
        {"F": 10, "B": 12, "I": 10},
        both([0, 10, 20, 30], [10, 20, 40, 52, 62, 74, 84, 104], [20, 30, 40, 50, 62, 72, 84, 94]),
        [1, 2, 1],
    ),
    GraphCase(
        "no stage trains",
        "workers 3 microbatches 4",
        ("path on [0, 1, 2] frozen [0, 1, 2]",),
        ("0F0 0F1 0F2 0F3", "1F0 1F1 1F2 1F3", "2F0 2F1 2F2 2F3"),
        {"F": 10},
        both([0, 10, 20, 30], [10, 20, 30, 40], [20, 30, 40, 50]),
        [1, 1, 1],
    ),
    GraphCase(
        "adapters with short weight gradients on all stages",
        "workers 3 microbatches 4",
        ("path on [0, 1, 2]",),
        (
            "0F0 0F1 0F2 0I0 0W0 0F3 0I1 0W1 0I2 0W2 0I3 0W3",
            "1F0 1F1 1I0 1W0 1F2 1I1 1W1 1F3 1I2 1W2 1I3 1W3",
            "2F0 2I0 2W0 2F1 2I1 2W1 2F2 2I2 2W2 2F3 2I3 2W3",
        ),
        {"F": 10, "I": 10, "W": 1},
        both(
            [0, 10, 20, 50, 60, 61, 71, 81, 92, 102, 113, 123],
            [10, 20, 40, 50, 51, 61, 71, 72, 82, 92, 103, 113],
            [20, 30, 40, 41, 51, 61, 62, 72, 82, 83, 93, 103],
        ),
        [3, 2, 1],
        held=(10, 2),
        peak_bytes=[30, 20, 10],
    ),
    GraphCase(
        "a prompt of 32 tokens in chunks of about equal times, forward only",
        "workers 2 microbatches 11",
        ("path on [0, 1] none",),
        (" ".join(f"0F{m}" for m in range(11)), " ".join(f"1F{m}" for m in range(11))),
        {"microbatches.F": [164, 140, 131, 149, 116, 124, 132, 140, 148, 156, 164]},
        both(
            [0, 164, 304, 435, 584, 700, 824, 956, 1096, 1244, 1400],
            [164, 328, 468, 599, 748, 864, 988, 1120, 1260, 1408, 1564],
        ),
        [1, 1],
    ),
    GraphCase(
        "one long microbatch among five short ones",
        "workers 2 microbatches 6",
        ("path on [0, 1]",),
        (
            "0F0 0F5 0B0 0F1 0B5 0F2 0B1 0F3 0B2 0F4 0B3 0B4",
            "1F0 1B0 1F5 1B5 1F1 1B1 1F2 1B2 1F3 1B3 1F4 1B4",
        ),
        {"microbatches.F": [5, 5, 5, 5, 5, 30], "microbatches.B": [10, 10, 10, 10, 10, 60]},
        both(
            [0, 5, 35, 45, 125, 185, 190, 200, 205, 215, 220, 235],
            [5, 10, 35, 65, 125, 130, 190, 195, 205, 210, 220, 225],
        ),
        [2, 1],
    ),
    GraphCase(
        "the best of 720 orders; with receives in unit slots it takes 311",
        "workers 3 microbatches 6",
        ("path on [0, 1, 2]",),
        (
            "0F5 0F0 0F2 0B5 0F4 0B0 0F3 0B2 0F1 0B4 0B3 0B1",
            "1F5 1F0 1B5 1F2 1B0 1F4 1B2 1F3 1B4 1F1 1B3 1B1",
            "2F5 2B5 2F0 2B0 2F2 2B2 2F4 2B4 2F3 2B3 2F1 2B1",
        ),
        {"microbatches.F": [12, 3, 25, 8, 17, 5], "microbatches.B": [24, 6, 50, 16, 34, 10]},
        both(
            [0, 5, 17, 42, 52, 91, 115, 192, 242, 245, 279, 295],
            [5, 17, 29, 42, 67, 91, 142, 192, 200, 245, 248, 264],
            [10, 15, 29, 41, 67, 92, 142, 159, 200, 208, 248, 251],
        ),
        [3, 2, 1],
    ),
)
