"""Traces as PyTorch's profiler writes them on GPUs, made by hand: test_fit.py has no GPU. Their
contents follow traces of PyTorch 1.13 to 2.10.
"""

import gzip
import json
from pathlib import Path
from typing import Any

Fields = dict[str, Any]


class TraceMaker:
    """The events of one rank."""

    def __init__(self, rank: int = 0, world: int = 1) -> None:
        self.events: list[Any] = [
            {"ph": "M", "name": "process_name", "pid": 0, "args": {"name": "python"}}
        ]
        self.fields: Fields = {
            "schemaVersion": 1,
            "deviceProperties": [{"id": 0, "name": "NVIDIA H100 80GB HBM3"}],
            "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": world},
        }
        self.rank, self.now, self.number = rank, 1000.0, 0

    def span(self, cat: str, name: str, start: float, dur: float, **args: Any) -> Fields:
        """Adds a complete event, times in us."""
        event = {"ph": "X", "cat": cat, "name": name, "pid": 7, "tid": 7}
        event |= {"ts": start, "dur": dur, "args": args}
        self.events.append(event)
        return event

    def operation(
        self,
        name: str,
        dims: list[Any],
        kinds: list[str],
        micros: float,
        *,
        kernels: int = 1,
        by: str = "external id",
        kernel: str = "sm90_xmma_gemm_bf16",
    ) -> None:
        """An operation and its kernels, linked by external id, by the id of the launch, or only by
        the moment of the launch.
        """
        self.number += 1
        number, start = self.number, self.now
        self.span(
            "cpu_op",
            name,
            start,
            20.0,
            **{"External id": number, "Input Dims": dims, "Input type": kinds},
        )
        for part in range(kernels):
            correlation = 1000 * number + part
            launch: Fields = {"correlation": correlation}
            args: Fields = {"correlation": correlation, "stream": 7, "device": 0}
            if by == "external id":
                args["External id"] = number
            if by == "launch":
                launch["External id"] = number
            self.span("cuda_runtime", "cudaLaunchKernel", start + 5, 3.0, **launch)
            self.span("kernel", kernel, start + 50, micros / kernels, **args)
        self.now += 1000

    def product(self, m: int, n: int, k: int, micros: float, **options: Any) -> None:
        """A matrix product in bfloat16."""
        kinds = ["c10::BFloat16", "c10::BFloat16"]
        self.operation("aten::mm", [[m, k], [k, n]], kinds, micros, **options)

    def collective(self, name: str, elements: int, ranks: list[int], micros: float) -> None:
        """A collective of bfloat16."""
        gathered = elements * len(ranks) if "gather" in name else elements
        self.span(
            "kernel",
            f"ncclDevKernel_{name}_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
            self.now,
            micros,
            **{
                "Collective name": name,
                "In msg nelems": elements,
                "Out msg nelems": gathered,
                "Group size": len(ranks),
                "dtype": "BFloat16",
                "Process Group Name": "0",
                "Process Group Description": "default_pg",
                "Process Group Ranks": str(ranks),
            },
        )
        self.now += micros + 10

    def message(self, way: str, peer: int, elements: int, micros: float) -> None:
        """One end of a message of bfloat16."""
        self.span(
            "kernel",
            "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)",
            self.now,
            micros,
            **{
                "Collective name": way,
                "In msg nelems": elements,
                "Out msg nelems": elements,
                "Group size": 2,
                "dtype": "BFloat16",
                "Src Rank" if way == "recv" else "Dst Rank": peer,
            },
        )
        self.now += micros + 10

    def copy(self, name: str, size: int, micros: float) -> None:
        """A copy between memories."""
        args = {"bytes": size, "memory bandwidth (GB/s)": size / micros / 1e3}
        self.span("gpu_memcpy", name, self.now, micros, **args)
        self.now += micros + 10

    def text(self) -> str:
        """The file."""
        return json.dumps({**self.fields, "traceEvents": self.events})

    def save(self, path: Path) -> str:
        """Writes the file, packed if its name says so."""
        data = self.text().encode()
        path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
        return str(path)
