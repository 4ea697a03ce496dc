"""How rows of sweeps say that layers are divided among stages."""

import pipesched
from test_command import Capture, rows_of, text_of


def _run(part: str) -> list[int]:
    """The layers of a run of stages, such as 6x2."""
    count, _, times = part.partition("x")
    return [int(count)] * int(times or 1)


def test_layers_of_stages(capsys: Capture) -> None:
    """The layers are the same as in `simulate`; the table shows them if they differ."""
    given = ["--pp", "4", "--microbatches", "8", "--schedules", "1f1b,zb-v"]
    for times in ("F=1ms,I=1ms,W=1ms,layers=16", "F=1ms,I=1ms,W=1ms,layers=10"):
        rows = rows_of(capsys, "sweep", *given, "--times", times)
        other = rows_of(capsys, "simulate", "--pp", *given[1:], "--times", times)
        wanted = {row["schedule"]: row["layers"] for row in other}
        assert {row["family"]: row["layers"] for row in rows} == wanted
        is_uneven = any("+" in layers for layers in wanted.values())
        printed = text_of(capsys, "sweep", *given, "--times", times).splitlines()
        heading = next(line for line in printed if "schedule  " in line and "  idle" in line)
        assert ("layers" in heading) == is_uneven == times.endswith("10")
    of_workers = ["--times", "F=1ms,B=2ms", "--set", "times-of=worker"]
    assert all(row["layers"] is None for row in rows_of(capsys, "sweep", *given, *of_workers))
    costs = {"model": "llama3-8b", "system": "dgx-h100", "microbatch_size": 1}
    frame = pipesched.sweep({"family": "1f1b", "workers": [4, 5], "microbatches": 8, **costs})
    assert frame.layers.tolist()[0] == "8"
    assert sum(int(n) for part in frame.layers[1].split("+") for n in _run(part)) == 32
    assert str(frame.layers.dtype) == "string"
