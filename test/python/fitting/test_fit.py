"""Systems fitted to measurements: predictions of the library from a fitted system equal the
measurements, for tables, output of nccl-tests, and real traces of PyTorch's profiler (traces of
GPUs are in test_fit_traces.py).
"""

import csv
import importlib.util
import io
import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pipesched
import pytest
from conftest import ROOT
from hypothesis import given
from hypothesis import strategies as st
from pipesched import PipeSchedError
from pipesched.command import main
from pipesched.fitting import Sample
from pipesched.fitting._solve import nonnegative
from pipesched.fitting._system import predict
from pipesched.fitting.files import messages_of
from test_command import Capture, failure_of, rows_of

TABLE = ROOT / "test" / "data" / "fit" / "kernels.csv"
SHIPPED = pipesched.systems()


def sizes(low: float, high: float, number: int) -> list[float]:
    """Whole sizes, evenly spread over their logarithms."""
    return [float(round(size)) for size in np.geomspace(low, high, number)]


def made(system: dict[str, Any]) -> list[Sample]:
    """Samples of all parts of a system, with the times that the cost model gives them."""
    bare = [Sample("matrix", "gemm", 1, f, 1e3, dtype="bfloat16") for f in sizes(1e7, 3e12, 60)]
    bare += [Sample("vector", "kernel", 1, f, 8) for f in sizes(1e7, 1e11, 30)]
    bare += [Sample("memory", "kernel", 1, 0, b) for b in sizes(1e3, 3e9, 60)]
    for part in ("link", "network"):
        bare += [Sample(part, "message", 1, 0, b) for b in sizes(1e3, 1e9, 20)]
        for kind in ("all_reduce", "all_gather", "reduce_scatter", "all_to_all"):
            bare += [Sample(part, kind, 1, 0, b, group=8) for b in sizes(1e4, 1e9, 10)]
    bare += [Sample("host", "copy", 1, 0, b) for b in sizes(1e3, 1e9, 20)]
    return [replace(sample, seconds=predict(sample, system)) for sample in bare]


def noisy(samples: Sequence[Sample], share: float) -> list[Sample]:
    """Times with an error of this relative size, the same ones in every run."""
    random = np.random.default_rng(1)
    factors = np.exp(share * random.standard_normal(len(samples)))
    return [
        replace(sample, seconds=sample.seconds * float(factor))
        for sample, factor in zip(samples, factors, strict=True)
    ]


# Recovered parameters


@pytest.mark.parametrize("name", ["h100-sxm", "dgx-h100", "mid_nw_slow_cp", "toy"])
def test_exact_times_give_the_system_back(name: str) -> None:
    true = SHIPPED[name]
    samples = [sample for sample in made(true) if sample.part in true]
    fit = pipesched.fit(system=name, samples=samples)
    rows = fit.residuals()
    # Some points of its curves are between the sizes that a fit chooses from.
    assert rows["error"].abs().max() < 0.02
    assert rows["error"].abs().median() < 1e-3
    for part in ("link", "network", "host"):
        if part in true:
            share = true[part].get("efficiency", 1)
            bandwidth = true[part]["bandwidth_gb_per_s"] * share
            assert fit.system[part]["bandwidth_gb_per_s"] == pytest.approx(bandwidth, rel=1e-4)
            latency = true[part].get("latency_us", 0)
            assert fit.system[part].get("latency_us", 0) == pytest.approx(latency, abs=1e-4)


def test_noise_is_averaged() -> None:
    true = SHIPPED["h100-sxm"]
    samples = noisy(made(true), 0.05)
    fit = pipesched.fit(system="h100-sxm", samples=samples)
    clean = {sample.key: sample.seconds for sample in made(true)}
    errors = [predict(s, fit.system) / clean[s.key] - 1 for s in samples if s.part != "vector"]
    assert np.abs(errors).max() < 0.08
    assert np.median(np.abs(errors)) < 0.02
    assert fit.system["network"]["latency_us"] == pytest.approx(20, rel=0.05)
    curve = fit.system["matrix"]["efficiency_by_gflop"]
    assert len(curve) <= 6
    shares = [share for _, share in curve]
    assert shares == sorted(shares)


def test_an_outlier_moves_little() -> None:
    samples = [s for s in made(SHIPPED["h100-sxm"]) if s.part == "network"]
    samples[5] = replace(samples[5], seconds=100 * samples[5].seconds)
    fit = pipesched.fit(system="h100-sxm", samples=samples)
    assert fit.system["network"]["bandwidth_gb_per_s"] == pytest.approx(45, rel=0.01)
    assert fit.worst(1)[0]["error"] == pytest.approx(-0.99, abs=0.01)


LIBRARY = """
pipe.model @m microbatch_size 1 boundary_bytes {boundary} state_bytes [2, 2, 12] {{
  block "b" x 2 parameters 1 activation_bytes 1 {{
    kernel "k" on {engine} F <{flops} flops, {bytes} bytes>
  }}
}}
pipe.schedule @s workers 2 microbatches 1 model @m {{
  path on [0, 1]
  worker 0 runs [0F0 0I0 0W0]
  worker 1 runs [1F0 1I0 1W0]
}}
"""


def library_ps(file: Path, engine: str, flops: int, moved: int, boundary: int) -> tuple[int, int]:
    """The times of a forward and of the message after it, by the library."""
    text = LIBRARY.format(engine=engine, flops=flops, bytes=moved, boundary=boundary)
    schedule = pipesched.loads(text)[0].transform(f"pipe-attach-system{{file={file}}}")
    frame = schedule.simulate().to_frame()
    forwards = frame[frame["phase"] == "F"].sort_values("stage")
    first, second = forwards.to_dict("records")
    return first["end_ps"] - first["start_ps"], second["start_ps"] - first["end_ps"]


def test_the_library_predicts_the_same(tmp_path: Path) -> None:
    """Times from the fitted file, read and evaluated in C++, equal the residuals."""
    file = tmp_path / "fitted.json"
    true = {**SHIPPED["h100-sxm"], "accelerators_per_node": 1}
    fit = pipesched.fit(system=true, samples=noisy(made(true), 0.05))
    fit.save(file)
    for sample in made(true)[::7]:
        if sample.part in ("matrix", "vector"):
            flops, moved = int(sample.flops), int(sample.bytes)
            found = library_ps(file, sample.part, flops, moved, 1)[0]
        elif sample.part == "memory":
            found = library_ps(file, "vector", 0, int(sample.bytes), 1)[0]
        elif sample.part == "network" and sample.kind == "message":
            found = library_ps(file, "vector", 0, 1, int(sample.bytes))[1]
        else:
            continue
        assert found == pytest.approx(predict(sample, fit.system) * 1e12, rel=1e-6, abs=2)


@given(st.integers(1, 5), st.integers(0, 2**32 - 1))
def test_nonnegative_is_the_best_of_a_grid(columns: int, seed: int) -> None:
    """No move along an axis or to zero is better, which for a convex problem proves the minimum."""
    random = np.random.default_rng(seed)
    matrix, target = random.standard_normal((12, columns)), random.standard_normal(12)
    found = nonnegative(matrix, target)
    assert (found >= 0).all()
    gradient = matrix.T @ (matrix @ found - target)
    assert np.abs(gradient[found > 0]).max(initial=0) < 1e-6
    assert gradient[found == 0].min(initial=0) > -1e-6


# Messages


def test_one_size_keeps_the_latency() -> None:
    samples = [Sample("network", "message", 120e-6, bytes=4.5e6) for _ in range(3)]
    fit = pipesched.fit(system="h100-sxm", samples=samples)
    assert fit.system["network"] == {"bandwidth_gb_per_s": 45, "latency_us": 20}
    said = "only the bandwidth is fitted; the latency is the system's, 20 us"
    assert any(said in text for text in fit.assumptions)


def test_what_cannot_be_fitted_stays(tmp_path: Path) -> None:
    same = [Sample("network", "message", 1e-3, bytes=size) for size in (1e3, 1e4, 1e5)]
    with pytest.raises(PipeSchedError, match=r"network: the times do not grow with the bytes"):
        pipesched.fit(system="toy", samples=same)
    host = [s for s in made(SHIPPED["h100-sxm"]) if s.part == "host"]
    fit = pipesched.fit(system="h100-sxm", samples=same + host)
    assert fit.system["network"] == SHIPPED["h100-sxm"]["network"]
    assert any(text.startswith("not fitted, the system keeps") for text in fit.assumptions)


def test_peaks_are_not_invented() -> None:
    samples = [s for s in made(SHIPPED["h100-sxm"]) if s.part == "matrix"]
    with pytest.raises(PipeSchedError, match="no peak for their curve"):
        pipesched.fit(samples=samples)
    with pytest.raises(PipeSchedError, match=r"vector.tflops, memory.capacity_gb.*--set vector"):
        pipesched.fit(samples=samples, peak_tflops=989.4)
    with pytest.raises(PipeSchedError, match=r"at 2\.\d* of the peak of 312 TFLOP/s"):
        pipesched.fit(samples=samples, system="a100")
    given = {
        "vector.tflops": 10,
        "memory.capacity_gb": 80,
        "memory.bandwidth_gb_per_s": 3000,
        "network.bandwidth_gb_per_s": 50,
    }
    fit = pipesched.fit(samples=samples, given=given, peak_tflops="measured")
    assert fit.system["matrix"]["tflops"] == pytest.approx(720.3, rel=1e-3)
    sources = fit.system["sources"]
    assert sources["vector.tflops"].startswith("given: ")
    assert list(sources)[:4] == list(given)
    assert any("the peak is the highest rate that was measured" in t for t in fit.assumptions)


def test_matrix_products_bound_by_memory_are_only_predicted() -> None:
    true = SHIPPED["h100-sxm"]
    thin = [Sample("matrix", "gemm", 1, 2e6 * n, 1e8 * n, dtype="bfloat16") for n in (1, 2, 4)]
    samples = [s for s in made(true) if s.part == "matrix"]
    samples += [replace(sample, seconds=predict(sample, true)) for sample in thin]
    fit = pipesched.fit(system="h100-sxm", samples=samples)
    rows = fit.residuals()
    assert not rows[rows["bytes"] >= 1e8]["fitted"].any()
    assert rows["error"].abs().max() < 0.02


def test_samples_in_eight_bits_replace_their_curve() -> None:
    """A system with a separate curve for FP8 predicts by it, and loses it to a fit of both."""
    true = SHIPPED["h800-sxm"]
    half = [s for s in made(true) if s.part == "matrix"]
    narrow = [replace(s, dtype="float8") for s in half]
    rate = 1e9 * 1269 / (1978.9e12 * 0.615)
    big = replace(narrow[0], flops=1269e9, bytes=0)
    assert predict(big, true) == pytest.approx(rate, rel=1e-3)
    kept = pipesched.fit(system="h800-sxm", samples=half).system
    assert kept["matrix"]["fp8_efficiency_by_gflop"] == true["matrix"]["fp8_efficiency_by_gflop"]
    timed = [replace(s, seconds=s.seconds / 2) for s in narrow]
    fitted = pipesched.fit(system="h800-sxm", samples=half + timed).system
    assert "fp8_efficiency_by_gflop" not in fitted["matrix"]
    for system in (kept, fitted):
        pipesched.Costs(model="toy", system=system, microbatch_size=1)


def test_types_do_not_mix() -> None:
    half = [s for s in made(SHIPPED["h100-sxm"]) if s.part == "matrix"]
    full = [replace(s, dtype="float32", seconds=8 * s.seconds) for s in half]
    fit = pipesched.fit(system="h100-sxm", samples=half + full)
    alone = pipesched.fit(system="h100-sxm", samples=half)
    assert fit.system["matrix"] == alone.system["matrix"]
    assert any("of float32 are left out" in text for text in fit.assumptions)
    slow = pipesched.fit(system="h100-sxm", samples=half + full, dtype="fp32")
    assert slow.system["matrix"]["efficiency_by_gflop"][-1][1] == pytest.approx(0.091, rel=0.01)


def test_sources_are_fields(tmp_path: Path) -> None:
    """The file says where each new number is from, and the library reads it."""
    fit = pipesched.fit(TABLE, system="h100-sxm", name="mine")
    sources = fit.system["sources"]
    assert fit.system["name"] == "mine"
    assert "aliases" not in fit.system
    for path in ("matrix.efficiency_by_gflop", "network.latency_us", "network.bandwidth_gb_per_s"):
        assert str(TABLE) in sources[path]
        assert "errors: median" in sources[path]
    assert sources["matrix.tflops"] == SHIPPED["h100-sxm"]["sources"]["matrix.tflops"]
    assert "network.efficiency" not in sources
    fit.save(tmp_path / "mine.json")
    pipesched.Costs(model="llama3-8b", system=tmp_path / "mine.json")


# Tables

ROWS = """kind,op,flops,bytes,m,n,k,dtype,group,us
matrix,,,,4096,4096,4096,bf16,,200
matrix,,2e10,1e6,,,,bf16,,40
network,message,,1048576,,,,,,45
network,all-reduce,,8388608,,,,,4,500
host,,,1e6,,,,,,30
"""


def test_csv(tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    file.write_text(ROWS)
    rows = pipesched.fit(file, system="h100-sxm").residuals()
    assert rows["flops"].tolist()[:2] == [2 * 4096**3, 2e10]
    assert rows["bytes"].tolist()[0] == 3 * 4096**2 * 2
    assert rows["measured_s"].tolist() == pytest.approx([2e-4, 4e-5, 4.5e-5, 5e-4, 3e-5])
    assert rows["kind"].tolist() == ["gemm", "gemm", "message", "all_reduce", "copy"]
    assert rows["place"][3] == f"{file}:5"


def test_json_lines_are_the_same(tmp_path: Path) -> None:
    table, lines, array = (tmp_path / name for name in ("a.csv", "a.jsonl", "a.json"))
    table.write_text(ROWS)
    rows = [{k: v for k, v in row.items() if v} for row in csv.DictReader(io.StringIO(ROWS))]
    lines.write_text("".join(json.dumps(row) + "\n" for row in rows))
    array.write_text(json.dumps(rows))
    frames = [pipesched.fit(f, system="h100-sxm").residuals() for f in (table, lines, array)]
    for other in frames[1:]:
        columns = [name for name in other if name not in ("place", "name")]
        pd.testing.assert_frame_equal(frames[0][columns], other[columns])


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("kind,us\ncpu,3", ":2: kind is 'cpu', wanted one of matrix, vector"),
        ("kind,bytes,us\nhost,3,-4", ":2: us is '-4', wanted a number from 0 on"),
        ("kind,bytes,us\nhost,3,0", ":2: us is '0', wanted a time above 0"),
        ("kind,bytes,us\nhost,3,nan", ":2: us is 'nan'"),
        ("kind,bytes,us\nhost,3,1e999", ":2: us is '1e999'"),
        ("kind,bytes\nhost,3", ":2: wanted one time, in a column seconds, s, ms, us, ns"),
        ("kind,bytes,us,ms\nhost,3,4,5", "found ms, us"),
        ("kind,us\nhost,3", ":2: a sample of the host needs bytes"),
        ("kind,us\nmatrix,3", ":2: a matrix kernel needs flops"),
        ("kind,m,n,k,us\nmatrix,3,3,3,3", ":2: m, n and k need a dtype"),
        ("kind,m,n,us,dtype\nmatrix,3,3,3,bf16", ":2: wanted m, n and k"),
        ("kind,m,n,k,us,dtype\nmatrix,3,3,3,3,bf17", ":2: dtype 'bf17' is not known"),
        ("kind,op,bytes,us\nlink,reduce,3,4", "op is 'reduce', wanted one of message, all_red"),
        ("kind,op,bytes,us\nlink,all_reduce,3,4", "all_reduce needs its group"),
        ("kind,op,bytes,us,group\nlink,all_reduce,3,4,1", "group is '1', wanted a number of at"),
        ("kind,colour\nlink,red", "unknown column 'colour'"),
        ("kind,us\nlink,3,4", "more values than the header has names"),
        ("kind,us\n", "found no rows"),
        ('"kind"x,us\n', ":1: ',' expected after"),
        ('{"kind": "host", "us": [3], "bytes": 4}\n', ":1: us is [3], wanted a number"),
        ('{"kind": "host", "us": 3, "bytes": 4}\n[3]\n', ":2: found [3], wanted an object"),
        ('{"kind": "host", "us": 3, "bytes": 4}\n{"kind"\n', ":2: not JSON"),
        ("[1, 2]", "row 1: found 1, wanted an object"),
        ('[{"kind": true, "us": true}]', "kind is 'true'"),
        ("", "the file is empty"),
    ],
)
def test_bad_tables(row: str, said: str, tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "rows"
    file.write_text(row)
    message = failure_of(capsys, "fit", str(file), "--system", "toy")
    assert str(file) in message
    assert said in message


# nccl-tests

HEADER = """# nThread 1 nGpus 1 minBytes 8 maxBytes 8589934592 warmup iters: 5 iters: 20
#
# Using devices
{ranks}#
#                                    out-of-place                 in-place
#  size     count  type  redop root   time  algbw  busbw #wrong   time  algbw  busbw #wrong
#   (B) (elements)                    (us) (GB/s) (GB/s)          (us) (GB/s) (GB/s)
"""


def nccl_text(kind: str, hosts: Sequence[str], system: dict[str, Any], part: str) -> str:
    """The output of nccl-tests on this system."""
    members = len(hosts)
    ranks = "".join(
        f"#  Rank {rank:2} Group  0 Pid  {1887 + rank} on {host:>10} device  {rank} [0x8d] GPU\n"
        for rank, host in enumerate(hosts)
    )
    ratio = {"all_reduce": 2 * (members - 1) / members, "message": 1.0}.get(
        kind, (members - 1) / members
    )
    reduction = "sum" if "reduce" in kind else "none"
    lines = []
    for size in (2**power for power in range(10, 31, 2)):
        number = 1 if kind == "message" else members
        sample = Sample(part, kind, 1, bytes=float(size), group=number)
        micros = predict(sample, system) * 1e6
        algorithm = size / micros / 1e3
        times = f"{micros:8.2f} {algorithm:7.2f} {algorithm * ratio:7.2f}      0"
        lines.append(f"{size:12} {size // 4:12}   float    {reduction:>4}    -1 {times} {times}\n")
    return HEADER.format(ranks=ranks) + "".join(lines) + "# Out of bounds values : 0 OK\n"


@pytest.mark.parametrize(
    ("kind", "hosts", "part"),
    [
        ("all_reduce", ["node0"] * 8, "link"),
        ("all_reduce", ["a", "b"], "network"),
        ("all_reduce", ["a", "b", "c", "d"], "network"),
        ("reduce_scatter", ["a", "b"], "network"),
        ("all_gather", ["a", "b", "c"], "network"),
        ("message", ["a", "b"], "network"),
    ],
)
def test_nccl_tests(kind: str, hosts: list[str], part: str, tmp_path: Path) -> None:
    true = SHIPPED["h100-sxm"]
    file = tmp_path / "output.txt"
    file.write_text(nccl_text(kind, hosts, true, part))
    fit = pipesched.fit(file, system="h100-sxm")
    assert fit.parts == (part,)
    assert {row["kind"] for row in fit.rows()} == {kind}
    assert sum(row["count"] for row in fit.rows()) == 22
    bandwidth = true[part]["bandwidth_gb_per_s"] * true[part]["efficiency"]
    assert fit.system[part]["bandwidth_gb_per_s"] == pytest.approx(bandwidth, rel=1e-3)
    assert fit.system[part]["latency_us"] == pytest.approx(true[part]["latency_us"], rel=1e-2)


def test_nccl_tests_over_mixed_hosts(tmp_path: Path) -> None:
    file = tmp_path / "output.txt"
    mixed = nccl_text("all_reduce", ["a", "a", "b", "b"], SHIPPED["h100-sxm"], "network")
    file.write_text(mixed)
    with pytest.raises(PipeSchedError, match="mixes link and network"):
        pipesched.fit(file, system="h100-sxm")
    alone = nccl_text("all_reduce", ["a"] * 4, SHIPPED["h100-sxm"], "link")
    file.write_text(mixed + alone)
    assert pipesched.fit(file, system="h100-sxm").parts == ("link",)
    file.write_text(mixed.replace("-1", "-1 1 2 3"))
    with pytest.raises(PipeSchedError, match=r"output.txt:12: found 16 values, wanted those of"):
        pipesched.fit(file, system="h100-sxm")


# Measurements of schedules


def test_messages_of_a_measurement() -> None:
    """The time counts from the later of the send and the posting of its receive."""
    rows = [
        {"step": 0, "kind": "send", "message": 3, "ready_s": 0.9, "start_s": 1.0, "arrived_s": 1.5},
        {"step": 0, "kind": "recv", "message": 3, "ready_s": 1.1, "start_s": 1.2, "arrived_s": 1.5},
        {"step": 1, "kind": "send", "message": 3, "ready_s": 0.9, "start_s": 1.0, "arrived_s": 2.0},
        {"step": 1, "kind": "recv", "message": 3, "ready_s": 0.5, "start_s": 0.6, "arrived_s": 2.0},
        {"step": 1, "kind": "send", "message": 4, "ready_s": 9.0, "start_s": 9.0, "arrived_s": 8.0},
        {"step": 1, "kind": "recv", "message": 4, "ready_s": 0.5, "start_s": 0.6, "arrived_s": 8.0},
        {"step": 1, "kind": "compute", "message": -1, "ready_s": 0.5, "start_s": 0.6},
    ]
    found = messages_of(pd.DataFrame(rows), 4096, "run.json")
    assert [sample.seconds for sample in found.samples] == pytest.approx([0.4, 1.0])
    assert {sample.bytes for sample in found.samples} == {4096}
    assert found.notes == ["run.json: 1 messages have no time above 0 and are left out"]


# The command


def test_formats(tmp_path: Path, capsys: Capture) -> None:
    file, table = tmp_path / "fitted.json", str(TABLE)
    rows = rows_of(capsys, "fit", table, "--system", "h100-sxm", "--save", str(file))
    assert {row["part"] for row in rows} == {"matrix", "memory", "network"}
    assert json.loads(file.read_text())["name"] == "h100-sxm-fitted"
    assert main(["fit", table, "--system", "h100-sxm", "--samples", "--format", "csv"]) == 0
    lines = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert len(lines) == sum(row["sizes"] for row in rows)
    assert main(["fit", table, "--system", "h100-sxm"]) == 0
    text = capsys.readouterr().out
    assert "median error" in text
    assert "- worst: " in text
    assert "network: bandwidth_gb_per_s" in text
    assert main(["fit", table, "--system", "dgx-h100"]) == 0
    assert "- assumed: network: samples are those of one" in capsys.readouterr().out
    assert main(["show", "--system", str(file)]) == 0


def test_a_failure_writes_nothing(tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "fitted.json"
    arguments = ["fit", str(TABLE), "--save", str(file)]
    assert "no peak" in failure_of(capsys, *arguments)
    assert "nowhere" in failure_of(capsys, "fit", "nowhere", "--system", "toy")
    assert "h100-sx" in failure_of(capsys, *arguments, "--system", "h100-sx")
    assert not file.exists()
    assert "not the work of passes" in failure_of(capsys, *arguments, "--show-passes", status=2)
    for bad, said in (
        ("matrix.colour=3", "colour"),
        ("memory.capacity_gb=-3", "memory.capacity_gb"),
        ("memory=3", "memory"),
        ("memory.capacity_gb=measured", "only peaks can be `measured`"),
        ("network.bandwidth_gb_per_s.x=3", "x"),
    ):
        assert said in failure_of(capsys, *arguments, "--system", "h100-sxm", "--set", bad)
    for value in ("x", "0", "-3"):
        line = [*arguments, "--system", "h100-sxm", "--set", f"matrix.tflops={value}"]
        assert "matrix.tflops" in failure_of(capsys, *line)
    with pytest.raises(SystemExit):
        main([*arguments, "--set", "matrix.tflops=nan"])


def test_documented_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    """The page shows the output of the command."""
    monkeypatch.chdir(tmp_path)
    shutil.copy(TABLE, "measured.csv")
    page = (ROOT / "docs" / "Fitting.md").read_text()
    own = page.partition("    [{")[2].partition("}]")[0]  # of "Your own steps"
    Path("steps.json").write_text("[{" + own + "}]")
    sessions = re.findall(r"(?m)^    \$ pipesched (.*)\n((?:    .*\n|\n(?=    ))+)", page)
    assert sessions
    for command, shown in sessions:
        assert main(shlex.split(command)) == 0
        printed = [line for line in capsys.readouterr().out.splitlines() if line]
        assert printed == [line[4:] for line in shown.splitlines() if line]


# Real traces

TRACED = """
import sys, torch
from torch.profiler import ProfilerActivity, profile
torch.manual_seed(0)
torch.set_num_threads(1)
with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as recorded:
    for size in (64, 128, 256, 384):
        for _ in range(4):
            a = torch.randn(size, size, requires_grad=True)
            layer = torch.nn.Linear(size, size)
            torch.nn.functional.gelu(layer(a)).sum().backward()
            q = torch.randn(1, 2, size, 32, requires_grad=True)
            torch.nn.functional.scaled_dot_product_attention(q, q, q).sum().backward()
            torch.bmm(torch.randn(2, size, 8), torch.randn(2, 8, size))
recorded.export_chrome_trace(sys.argv[1])
"""

GLOO = """
import sys, torch
import torch.distributed as dist
from torch.profiler import ProfilerActivity, profile
rank, folder = int(sys.argv[1]), sys.argv[2]
store = dist.FileStore(folder + "/store", 2)
dist.init_process_group("gloo", store=store, rank=rank, world_size=2)
tensor = torch.ones(4)
dist.all_reduce(tensor)
with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as recorded:
    for elements in (1 << 8, 1 << 20, 1 << 24):
        for _ in range(5):
            tensor = torch.ones(elements)
            dist.all_reduce(tensor)
            if rank == 0:
                dist.barrier()
                torch.ones(1 << 20).sum()
                dist.send(tensor, 1)
            else:
                receive = dist.irecv(tensor, 0)
                dist.barrier()
                receive.wait()
recorded.export_chrome_trace(f"{folder}/rank{rank}.json.gz")
dist.destroy_process_group()
"""

needs_torch = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="needs PyTorch: pip install 'pipesched[test]'"
)
LIMIT = 300
"""Seconds for a process, on a machine with other work."""


@needs_torch
def test_a_real_trace_of_a_cpu(tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "trace.json"
    command = [sys.executable, "-c", TRACED, str(file)]
    subprocess.run(command, check=True, capture_output=True, timeout=LIMIT)
    fit = pipesched.fit(file, system="toy", peak_tflops="measured")
    rows = fit.residuals()
    products = rows[rows["kind"] == "gemm"]
    forward = {2.0 * size**3 for size in (64, 128, 256, 384)}
    assert forward <= set(products["flops"])
    # A layer has an addmm and two mm of the same FLOPs; only the addmm reads a bias.
    names = set(products[products["flops"] == 2.0 * 256**3]["name"])
    assert names == {"aten::addmm", "aten::mm"}
    assert set(products["dtype"]) == {"float32"}
    assert products[products["name"] == "aten::bmm"]["flops"].tolist() == [
        2.0 * 2 * size * size * 8 for size in (64, 128, 256, 384)
    ]
    attention = rows[rows["kind"] == "attention"].groupby("name")["flops"].max()
    scores = 2 * 384 * 384
    assert sorted(attention) == [4.0 * scores * 32, 10.0 * scores * 32]
    assert (rows["measured_s"] > 0).all()
    assert "memory" in fit.parts
    assert any("timed on the CPU" in text for text in fit.assumptions)
    assert 0 < sum(fit.unknown.values()) < 1


@needs_torch
def test_real_traces_of_gloo(tmp_path: Path) -> None:
    """The largest size takes longer than a rank waits for a core on a machine with other work."""
    command = [sys.executable, "-c", GLOO]
    ranks = [
        subprocess.Popen([*command, str(rank), str(tmp_path)], stderr=subprocess.PIPE)
        for rank in range(2)
    ]
    try:
        ended = [rank.communicate(timeout=LIMIT)[1].decode() for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    assert [rank.returncode for rank in ranks] == [0, 0], ended
    fit = pipesched.fit(tmp_path, system="toy")
    assert "network" in fit.parts
    rows = fit.residuals()
    reduced = rows[rows["kind"] == "all_reduce"]
    assert set(reduced["bytes"]) >= {4.0 * 2**8, 4.0 * 2**20, 4.0 * 2**24}
    assert set(reduced["group"]) == {2}
    assert set(reduced["count"]) == {5}
    messages = rows[rows["kind"] == "message"]
    assert set(messages["bytes"]) <= {4.0 * 2**8, 4.0 * 2**20, 4.0 * 2**24}
    assert any("the rank that came last is taken" in text for text in fit.assumptions)
    alone = pipesched.fit(tmp_path / "rank0.json.gz", system="toy")
    assert any("not all ranks have traces" in text for text in alone.assumptions)
