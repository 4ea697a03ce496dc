"""Traces of GPUs, as `fit_traces` makes them: the operation of each kernel, its work, the times of
transfers although ranks wait for each other, and files that are broken.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pipesched
import pytest
from fit_traces import TraceMaker
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from pipesched import PipeSchedError
from pipesched.fitting import Sample
from pipesched.fitting._kineto import Work, work_of
from pipesched.fitting._system import predict
from pipesched.fitting._trace import read_trace

SYSTEM = pipesched.systems()["h100-sxm"]
PRODUCTS = [(512 * n, 1024, 4096) for n in (1, 2, 4, 8, 16, 32)]


def micros(m: int, n: int, k: int) -> float:
    """The time of a product of this size on the system."""
    moved = 2.0 * (m * k + k * n + m * n)
    return 1e6 * predict(Sample("matrix", "gemm", 1, 2.0 * m * n * k, moved), SYSTEM)


def fitted(maker: TraceMaker, folder: Path, name: str = "trace.json") -> pipesched.Fit:
    return pipesched.fit(maker.save(folder / name), system="h100-sxm")


# Kernels


@pytest.mark.parametrize("by", ["external id", "launch", "moment"])
@pytest.mark.parametrize("name", ["trace.json", "trace.json.gz"])
def test_products(by: str, name: str, tmp_path: Path) -> None:
    """Kernels are found however they are linked, and several of an operation count together."""
    maker = TraceMaker()
    for m, n, k in PRODUCTS:
        for factor, kernels in ((1.0, 1), (1.0, 2), (1.7, 1)):
            maker.product(m, n, k, factor * micros(m, n, k), kernels=kernels, by=by)
    fit = fitted(maker, tmp_path, name)
    rows = fit.residuals()
    assert rows["flops"].tolist() == [2.0 * m * n * k for m, n, k in PRODUCTS]
    assert rows["count"].tolist() == [3] * len(PRODUCTS)
    assert rows["measured_s"].tolist() == pytest.approx([1e-6 * micros(*p) for p in PRODUCTS])
    assert set(rows["dtype"]) == {"bfloat16"}
    assert rows["error"].abs().max() < 0.01
    assert fit.parts == ("matrix",)
    assert not fit.unknown


def test_old_spellings(tmp_path: Path) -> None:
    """PyTorch 1.x: other categories and argument names, begin and end events, times as text."""
    maker = TraceMaker()
    for m, n, k in PRODUCTS:
        maker.product(m, n, k, micros(m, n, k))
    for event in list(maker.events):
        if event["ph"] != "X":
            continue
        event["cat"] = {"cpu_op": "Operator", "kernel": "Kernel", "cuda_runtime": "Runtime"}[
            event["cat"]
        ]
        arguments = event["args"]
        if "External id" in arguments:
            arguments["external id"] = str(arguments.pop("External id"))
        if "Input type" in arguments:
            arguments["Input Types"] = arguments.pop("Input type")
        event["ts"] = str(event["ts"])
        if event["cat"] == "Kernel":
            end = float(event["ts"]) + event.pop("dur")
            event |= {"ph": "B", "pid": 0, "tid": "stream 7"}
            maker.events.append({"ph": "E", "pid": 0, "tid": "stream 7", "ts": end})
    maker.events.sort(key=lambda event: float(event.get("ts", 0)))
    maker.fields = {}
    rows = fitted(maker, tmp_path).residuals()
    assert rows["flops"].tolist() == [2.0 * m * n * k for m, n, k in PRODUCTS]
    assert rows["measured_s"].tolist() == pytest.approx([1e-6 * micros(*p) for p in PRODUCTS])


def test_an_array_of_events_is_a_trace(tmp_path: Path) -> None:
    maker = TraceMaker()
    maker.product(4096, 4096, 4096, 250.0)
    file = tmp_path / "trace.json"
    file.write_text(json.dumps(maker.events))
    assert pipesched.fit(file, system="h100-sxm").rows()[0]["flops"] == 2.0 * 4096**3


def test_copies_and_unknown_kernels(tmp_path: Path) -> None:
    maker = TraceMaker()
    for size in (1 << 16, 1 << 20, 1 << 24, 1 << 28):
        maker.copy("Memcpy HtoD (Pinned -> Device)", size, 10 + size / 50e3)
        maker.copy("Memcpy DtoH (Device -> Pageable)", size, 10 + size / 5e3)
        maker.copy("Memcpy DtoD (Device -> Device)", size, 1 + 2 * size / 2e6)
    maker.operation("mine::fused", [[8, 8]], ["float"], 100.0, kernel="my_kernel<float>")
    maker.span("kernel", "void lost<int>(int*)", maker.now, 50.0, stream=7)
    fit = fitted(maker, tmp_path)
    assert fit.system["host"] == {"bandwidth_gb_per_s": 50, "latency_us": 10}
    assert set(fit.parts) == {"host", "memory"}
    assert list(fit.unknown)[1:] == ["mine::fused", "lost<>"]
    assert sum(fit.unknown.values()) < 1
    assert any("4 copies are left out" in text for text in fit.assumptions)
    assert any("1 kernels belong to no operation" in text for text in fit.assumptions)


def test_a_trace_without_shapes(tmp_path: Path) -> None:
    maker = TraceMaker()
    maker.product(64, 64, 64, 3.0)
    for event in maker.events:
        event["args"].pop("Input Dims", None)
    with pytest.raises(PipeSchedError, match="record the trace with record_shapes=True"):
        fitted(maker, tmp_path)


BF16 = "c10::BFloat16"


@pytest.mark.parametrize(
    ("name", "dims", "kinds", "work"),
    [
        ("aten::mm", [[3, 5], [5, 7]], ["float", "float"], ("gemm", 210, 4 * (15 + 35 + 21))),
        ("aten::addmm", [[7], [3, 5], [5, 7]], ["float"] * 3, ("gemm", 210, 4 * (15 + 35 + 28))),
        ("aten::bmm", [[2, 3, 5], [2, 5, 7]], [BF16] * 2, ("gemm", 420, 4 * (15 + 35 + 21))),
        ("aten::baddbmm", [[2, 3, 7], [2, 3, 5], [2, 5, 7]], [BF16] * 3, ("gemm", 420, 368)),
        ("aten::linear", [[2, 3, 5], [7, 5]], [BF16] * 2, ("gemm", 420, 2 * (30 + 35 + 42))),
        ("aten::matmul", [[2, 3, 5], [5, 7]], [BF16] * 2, ("gemm", 420, 2 * (30 + 35 + 42))),
        (
            "aten::_scaled_mm",
            [[16, 32], [32, 16]],
            ["c10::Float8_e4m3fn"] * 2,
            ("gemm", 2 * 16 * 32 * 16, 2 * 16 * 32 + 2 * 16 * 16),
        ),
        (
            "aten::_scaled_dot_product_flash_attention",
            [[2, 4, 128, 32]] * 3,
            [BF16] * 3,
            ("attention", 4 * 8 * 128 * 128 * 32, 2 * 4 * 8 * 128 * 32 + 4 * 8 * 128),
        ),
        (
            "aten::_flash_attention_forward",
            [[2, 128, 4, 32], [2, 64, 2, 32], [2, 64, 2, 32]],
            [BF16] * 3,
            ("attention", 4 * 8 * 128 * 64 * 32, 2 * (2 * 32768 + 2 * 8192) + 4 * 8 * 128),
        ),
        (
            "aten::_scaled_dot_product_flash_attention_backward",
            [[2, 4, 128, 32]] * 4,
            [BF16] * 4,
            ("attention", 10 * 8 * 128 * 128 * 32, 4 * 4 * 8 * 128 * 32 + 4 * 8 * 128),
        ),
        ("aten::add", [[4, 8], [8], []], [BF16, BF16, "Scalar"], ("kernel", 0, 2 * (32 + 8 + 32))),
        ("aten::add_", [[4, 8], [4, 8]], [BF16, "float"], ("kernel", 0, 2 * 64 + 4 * 32)),
        ("aten::copy_", [[4, 8], [4, 8]], [BF16, "float"], ("kernel", 0, 2 * 32 + 4 * 32)),
        ("aten::zero_", [[4, 8]], ["float"], ("kernel", 0, 128)),
        ("aten::gelu", [[4, 8], []], [BF16, ""], ("kernel", 0, 128)),
    ],
)
def test_work(name: str, dims: list[Any], kinds: list[str], work: tuple[str, int, int]) -> None:
    """FLOPs and bytes, counted by hand."""
    found = work_of(name, {"Input Dims": dims, "Input type": kinds})
    assert found is not None
    assert (found.kind, found.flops, found.bytes) == work


@pytest.mark.parametrize(
    ("name", "dims", "kinds"),
    [
        ("aten::mm", [[3, 5], [6, 7]], ["float", "float"]),
        ("aten::mm", [[3, 0], [0, 7]], ["float", "float"]),
        ("aten::mm", [[3, 5]], ["float"]),
        ("aten::mm", [[3, -5], [-5, 7]], ["float", "float"]),
        ("aten::mm", [["3", "5"], ["5", "7"]], ["float", "float"]),
        ("aten::mm", [[3, 5], [5, 7]], ["Tensor", "Tensor"]),
        ("aten::mm", "[[3, 5], [5, 7]]", "float"),
        ("aten::mm", None, None),
        ("aten::_foreach_add_", [[[3], [4]], []], ["TensorList", ""]),
        ("aten::sort", [[4, 8]], ["float"]),
        ("mine::gelu", [[4, 8]], ["float"]),
        ("aten::_flash_attention_forward", [[300, 4, 32]] * 3, [BF16] * 3),
        ("aten::bmm", [[2, 3, 5], [3, 5, 7]], ["float", "float"]),
    ],
)
def test_unknown_work(name: str, dims: Any, kinds: Any) -> None:
    """No value is guessed."""
    assert work_of(name, {"Input Dims": dims, "Input type": kinds}) is None


def test_expanded_dimensions_are_read_once() -> None:
    args = {"Input Dims": [[4, 8], [4, 8]], "Input type": ["float"] * 2}
    strides = {"Input Strides": [[8, 1], [0, 1]]}
    assert work_of("aten::copy_", {**args, **strides}) == Work("memory", "kernel", 0, 4 * (32 + 8))


# Transfers between ranks


def jobs(ranks: int, waits: dict[int, float]) -> list[TraceMaker]:
    """All-reduces of several sizes on a network of 45 GB/s and 20 us; ranks wait that long, us."""
    makers = []
    for rank in range(ranks):
        maker = TraceMaker(rank, ranks)
        for repetition in range(3):
            for elements in (1 << 16, 1 << 20, 1 << 24, 1 << 26):
                size = 2.0 * elements
                sample = Sample("network", "all_reduce", 1, bytes=size, group=ranks)
                late = rank == repetition % ranks
                waiting = 0 if late else waits[rank]
                time = 1e6 * predict(sample, SYSTEM) + waiting
                maker.collective("allreduce", elements, list(range(ranks)), time)
        makers.append(maker)
    return makers


def test_waiting_is_no_transfer_time(tmp_path: Path) -> None:
    """Each rank is late once, and the others wait for it for milliseconds."""
    makers = jobs(4, {0: 5e3, 1: 9e3, 2: 1e4, 3: 2e4})
    for maker in makers:
        maker.save(tmp_path / f"rank{maker.rank}.json.gz")
    spread = {**SYSTEM, "accelerators_per_node": 1}
    fit = pipesched.fit(tmp_path, system=spread)
    assert fit.parts == ("network",)
    rows = fit.residuals()
    assert rows["count"].tolist() == [3] * 4
    assert fit.system["network"]["bandwidth_gb_per_s"] == pytest.approx(45, rel=1e-3)
    assert fit.system["network"]["latency_us"] == pytest.approx(20, rel=1e-3)
    # A single rank: the shortest of its repetitions, of which one did not wait.
    alone = pipesched.fit(tmp_path / "rank1.json.gz", system=spread)
    assert alone.system["network"]["bandwidth_gb_per_s"] == pytest.approx(45, rel=1e-3)
    assert any("not all ranks have traces" in text for text in alone.assumptions)


@pytest.mark.parametrize("stated", [False, True])
def test_several_files_of_a_rank(stated: bool, tmp_path: Path) -> None:
    """Each rank has a file for each of two windows; one rank lacks the first call of a window,
    which the number of a call shows if PyTorch states it.
    """
    for window in range(2):
        for maker in jobs(4, {0: 5e3, 1: 9e3, 2: 1e4, 3: 2e4}):
            calls = [event for event in maker.events if event.get("cat") == "kernel"]
            for number, event in enumerate(calls):
                if stated:
                    event["args"]["Seq"] = 100 * window + number
            if stated and maker.rank == 2:
                maker.events.remove(calls[0])
            maker.save(tmp_path / f"rank{maker.rank}-{window}.json.gz")
    fit = pipesched.fit(tmp_path, system={**SYSTEM, "accelerators_per_node": 1})
    assert fit.system["network"]["bandwidth_gb_per_s"] == pytest.approx(45, rel=1e-3)
    assert fit.system["network"]["latency_us"] == pytest.approx(20, rel=1e-3)
    counts = fit.residuals()["count"].tolist()
    assert sorted(counts) == ([4, 6, 6, 6] if stated else [6, 6, 6, 6])


def test_ranks_of_a_node_use_the_link(tmp_path: Path) -> None:
    makers = [TraceMaker(rank, 16) for rank in range(16)]
    for maker in makers:
        base = maker.rank // 8 * 8
        for elements in (1 << 16, 1 << 22, 1 << 26):
            maker.collective("allreduce", elements, list(range(base, base + 8)), elements / 1e4)
            maker.collective("_allgather_base", elements, list(range(16)), elements / 1e4)
            pair = [maker.rank % 8, maker.rank % 8 + 8]
            maker.collective("reduce_scatter_tensor_coalesced", elements, pair, elements / 5e3)
        maker.save(tmp_path / f"{maker.rank:02}.json")
    fit = pipesched.fit(tmp_path, system="h100-sxm")
    kinds = {(row["part"], row["kind"], row["group"]) for row in fit.rows()}
    assert kinds == {("link", "all_reduce", 8), ("network", "reduce_scatter", 2)}
    assert any("mix link and network" in text for text in fit.assumptions)


def test_messages(tmp_path: Path) -> None:
    """Sender and receiver both wait inside their kernels, one at a time."""
    ends = [TraceMaker(0, 2), TraceMaker(1, 2)]
    for number, elements in enumerate([1 << 10, 1 << 16, 1 << 20, 1 << 24, 1 << 26] * 3):
        time = 20 + 2 * elements / 45e3
        ends[0].message("send", 1, elements, time + (500 if number % 2 else 0))
        ends[1].message("recv", 0, elements, time + (0 if number % 2 else 900))
    for end in ends:
        end.save(tmp_path / f"{end.rank}.json")
    fit = pipesched.fit(tmp_path, system="toy")
    assert fit.system["network"] == {"bandwidth_gb_per_s": 45, "latency_us": 20}


def test_arguments_of_the_operation(tmp_path: Path) -> None:
    """PyTorch 2.1 and 2.2 have the sizes at record_param_comms, not at the kernel."""
    makers = jobs(2, {0: 1e3, 1: 2e3})
    for maker in makers:
        for number, event in enumerate([e for e in maker.events if e.get("cat") == "kernel"], 1):
            args, event["args"] = event["args"], {"External id": number, "stream": 20}
            event["name"] = "ncclKernel_AllReduce_RING_LL_Sum_bfloat(ncclWorkElem)"
            args["dtype"], args["External id"] = "c10::BFloat16", number
            del args["Process Group Ranks"]
            maker.span("cpu_op", "record_param_comms", event["ts"] - 50, 10.0, **args)
        maker.fields["distributedInfo"]["pg_config"] = [{"pg_name": "0", "ranks": [0, 1]}]
        maker.save(tmp_path / f"{maker.rank}.json")
    fit = pipesched.fit(tmp_path, system={**SYSTEM, "accelerators_per_node": 1})
    assert fit.system["network"]["bandwidth_gb_per_s"] == pytest.approx(45, rel=1e-3)


def test_nameless_collectives_are_listed(tmp_path: Path) -> None:
    maker = TraceMaker()
    maker.product(4096, 4096, 4096, 250.0)
    maker.span("kernel", "ncclKernel_AllReduce_RING_LL_Sum_half", maker.now, 50.0, stream=20)
    maker.collective("broadcast", 1 << 20, [0, 1], 50.0)
    fit = fitted(maker, tmp_path)
    assert fit.parts == ("matrix",)
    assert any("ncclKernel_AllReduce" in t and "broadcast (1)" in t for t in fit.assumptions)


# Broken files


def whole() -> str:
    maker = TraceMaker()
    for m, n, k in PRODUCTS:
        maker.product(m, n, k, micros(m, n, k))
    return maker.text()


def test_a_file_that_ends_too_early(tmp_path: Path) -> None:
    """The existing part is used, and the end is reported."""
    text, file = whole(), tmp_path / "trace.json"
    for part in (0.5, 0.7, 0.9, 0.99):
        file.write_text(text[: int(part * len(text))])
        fit = pipesched.fit(file, system="h100-sxm")
        assert any("the file ends too early; its first" in text for text in fit.assumptions)
    packed = Path(TraceMaker.save(_maker(), tmp_path / "trace.json.gz"))
    packed.write_bytes(packed.read_bytes()[:-200])
    assert pipesched.fit(packed, system="h100-sxm").rows()


def _maker() -> TraceMaker:
    maker = TraceMaker()
    random = np.random.default_rng(0)
    for m, n, k in PRODUCTS * 20:
        maker.product(m, n, k, micros(m, n, k) * float(random.uniform(0.99, 1.01)))
    return maker


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"traceEvents": 3}', "character 16: found '3}', wanted the array traceEvents"),
        ('{"traceEvents": {}}', "wanted the array traceEvents"),
        ('{"schemaVersion": 1}', "found no traceEvents"),
        ('{"traceEvents": [{"ph": "X"} {"ph": "X"}]}', "wanted ',' or ']'"),
        ('{"traceEvents": [{"ph": X}, {}, {}, {}, {}, {}, {}, {}]}', "wanted JSON"),
        ('{"traceEvents": []}', "nothing that can be fitted"),
        ('{"traceEvents": [3, null, [], "x"]}', "4 of 4 events have no usable name"),
        ('{3: "traceEvents"}', "wanted a name and a ':'"),
        ("{\n" + '"a":' * 3, "wanted ',' or '}'"),
        ('{"traceEvents": [' + '{"a":' * 100000, "wanted a value of fewer levels"),
    ],
)
def test_broken_traces(text: str, said: str, tmp_path: Path) -> None:
    file = tmp_path / "trace.json"
    file.write_text(text)
    with pytest.raises(PipeSchedError) as raised:
        pipesched.fit(file, system="toy")
    assert str(file) in str(raised.value) or "nothing" in str(raised.value)
    assert said in str(raised.value)


HOSTILE = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=True)
    | st.sampled_from(["", "x", "X", "1e999", "aten::mm", "kernel", "[0, 1]", "float", "nan"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "Input Dims", "ph"]), inner, max_size=2)
    ),
    max_leaves=5,
)
PLACES = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 30), HOSTILE), max_size=6)


@given(places=PLACES)
@example(places=[(17, 3, 3.351951982485649e158)])
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_hostile_events(places: list[tuple[int, int, Any]], tmp_path: Path) -> None:
    """Any value in any place of a trace gives a fit or an error of ours."""
    maker = TraceMaker()
    maker.product(512, 512, 512, 10.0)
    maker.product(512, 512, 512, 10.0, by="moment")
    maker.collective("allreduce", 1 << 20, [0, 1], 50.0)
    maker.message("send", 1, 1 << 20, 50.0)
    maker.copy("Memcpy HtoD (Pinned -> Device)", 1 << 20, 30.0)
    everything = {"fields": maker.fields, "events": maker.events}
    holders: list[tuple[Any, Any]] = []

    def walk(value: Any) -> None:
        keys = value if isinstance(value, dict) else range(len(value))
        for key in keys:
            holders.append((value, key))
            if isinstance(value[key], (dict, list)):
                walk(value[key])

    walk(everything["events"])
    walk(everything["fields"])
    for first, second, value in places:
        holder, key = holders[(first * 31 + second) % len(holders)]
        holder[key] = value
    file = tmp_path / "trace.json"
    file.write_text(json.dumps({**maker.fields, "traceEvents": maker.events}))
    try:
        fit = pipesched.fit(file, system="h100-sxm")
    except PipeSchedError:
        return
    assert all(np.isfinite(row["measured_s"]) for row in fit.rows())


def test_events_beyond_a_chunk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever a chunk ends, the same events are read."""
    file = tmp_path / "trace.json"
    file.write_text(whole())
    events = read_trace(file).events
    for chunk in (1, 7, 64, 1000):
        monkeypatch.setattr("pipesched.fitting._trace._CHUNK", chunk)
        assert read_trace(file).events == events
