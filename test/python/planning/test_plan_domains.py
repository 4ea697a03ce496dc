"""Plans on nodes that a training uses in part."""

from dataclasses import replace

import pipesched
from test_command import Capture, text_of


def test_domains_are_used_in_part(capsys: Capture) -> None:
    """256 accelerators use 64 of each of four domains of 72: a degree of 64 stays within one."""
    line = ["plan", "--model", "qwen3-235b-a22b", "--system", "gb200-nvl72", "--gpus", "256"]
    given = ["--global-batch", "1024", "--pp", "4", "--ep", "64", "--tp", "1"]
    limits = ["--schedules", "1f1b", "--microbatch-size", "1", "--top", "1"]
    assert "used per node 64 of 72 accelerators" in text_of(capsys, *line, *given, *limits)
    made = pipesched.plan(
        "qwen3-235b-a22b",
        "gb200-nvl72",
        gpus=256,
        global_batch=1024,
        pp=[4],
        tp=[1],
        ep=[64],
        schedules=["1f1b"],
        microbatch_size=[1],
        top=1,
    )
    point = made.proposals[0].configuration
    assert point is not None and point.costs is not None and point.costs.used_per_node == 64
    whole = replace(point, costs=replace(point.costs, used_per_node=72))
    assert made.proposals[0].report.execution.makespan_ps < whole.simulate().execution.makespan_ps
    # A rack that is filled is used whole.
    filled = pipesched.plan(
        "llama3-8b", "gb200-nvl72", gpus=144, global_batch=144, schedules=["1f1b"], top=1
    )
    point = filled.proposals[0].configuration
    assert point is not None and point.costs is not None and point.costs.used_per_node == 65536
