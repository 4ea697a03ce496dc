# Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Takes each wait out of the runtime's Device.c, and says who misses it.

    device-mutants.py RUNTIME DEVICE CC OBJECT...

Each object is a compiled schedule @p on four workers; the shared library DEVICE is the
device of the tests, which may itself find that a wait is missing. Otherwise the states
after three steps differ, or nobody misses it.
"""

import os
import subprocess
import sys
from pathlib import Path

MAIN = """#include "PipeSched-rt/Runtime.h"
int32_t p_step(int32_t, void *, void *, void *, void *, int64_t);
int64_t p_size(int32_t, int32_t);
const char *p_layout(void);
int main(int argc, char **argv) {
  const int64_t none[] = {-1, -1, -1, -1};
  static float w[1000];
  for (int i = 0; i < 1000; ++i)
    w[i] = 0.5f;
  PipeschedPiece pieces[4];
  for (int i = 0; i < 4; ++i)
    pieces[i] = (PipeschedPiece){i, 0, sizeof(w), w};
  const PipeschedTraining training = {3, 4, pieces, 0, PIPESCHED_RT_F32, none, 0, "cpu"};
  return pipesched_rt_train(argc, argv, p_step, p_size, p_layout, &training);
}
"""

# What is taken out, and what takes its place.
WAITS = {
    "a send's copy, for the kernel in front of it": (
        "  status = follow(worker, transfer->event, rtMessages, rtCompute);\n",
        "",
    ),
    "a send, for its copy": (
        "return status ? status : CALL(worker, host_wait, transfer->event);\n}\n",
        "return status;\n}\n",
    ),
    "a recv's copy, for what uses its place": (
        "  int32_t status = CALL(worker, stream_wait, stream, transfer->event);\n",
        "  int32_t status = 0;\n",
    ),
    "kernels, for a recv's copy": (
        "    status = follow(worker, transfer->event, rtCompute, rtMessages);\n",
        "    status = 0;\n",
    ),
    "a recv, for the copy of the one before it": (
        "    status = CALL(worker, host_wait, transfer->event);\n  transfer->isRead",
        "    status = 0;\n  transfer->isRead",
    ),
    "offloads and reloads, for kernels": (
        "  int32_t status = follow(worker, transfer->event, number, rtCompute);\n",
        "  int32_t status = 0;\n",
    ),
    "kernels, for offloads and reloads": (
        "  return CALL(worker, stream_wait, device->streams[rtCompute], transfer->event);\n",
        "  return 0;\n",
    ),
    "the end of a run, for its copy": (
        "offset, bytes);\n  return status ? status : synchronize(worker);\n",
        "offset, bytes);\n  return status;\n",
    ),
    "code of the processor, for kernels": (
        "PIPESCHED_DEVICE_KERNELS_ON_HOST))\n    return synchronize(worker);\n",
        "PIPESCHED_DEVICE_KERNELS_ON_HOST))\n    return 0;\n",
    ),
}


class Programs:
    """The objects, linked with a runtime whose Device.c is given."""

    def __init__(self, runtime: Path, cc: str, objects: list[str]) -> None:
        self.command = [cc, "-std=gnu11", "-O1", f"-I{runtime}/include", f"-I{runtime}/lib"]
        sources = [p for p in (runtime / "lib").glob("*.c") if not p.name.startswith("Mpi")]
        Path("main.c").write_text(MAIN)
        rest = [str(p) for p in sources if p.name != "Device.c"]
        subprocess.run([*self.command, "-c", "main.c", *rest], check=True)
        self.parts = ["main.o", *(f"{Path(p).stem}.o" for p in rest)]
        self.objects = objects

    def run(self, device_source: str, device: str) -> list[str]:
        """Returns what each program and order ends with: an error, or the states."""
        Path("Device.c").write_text(device_source)
        results = []
        for flags, name in enumerate(self.objects):
            libraries = [device, "-Wl,-rpath," + os.path.dirname(device), "-lm", "-lpthread"]
            command = [*self.command, "Device.c", *self.parts, name, *libraries, "-o", "mutant"]
            subprocess.run(command, check=True)
            for order in ("late", "early"):
                environment = {**os.environ, "FAKE_ORDER": order, "FAKE_FLAGS": str(flags)}
                ended = subprocess.run(
                    ["./mutant", f"--device={device}", "--state-out=state"],
                    env=environment,
                    capture_output=True,
                    text=True,
                )
                states = [Path(f"state.{w}").read_bytes().hex() for w in range(4)]
                results.append(ended.stderr or "".join(states))
                assert ended.returncode in (0, 1), ended
        return results


def main() -> int:
    runtime, device, cc, *objects = sys.argv[1:]
    for worker in range(4):
        Path(f"state.{worker}").write_bytes(b"")
    programs = Programs(Path(runtime), cc, objects)
    source = (Path(runtime) / "lib" / "Device.c").read_text()
    right = programs.run(source, device)
    if any("error" in text for text in right):
        sys.exit(f"with all waits: {right}")
    missed = 0
    for name, (wait, other) in WAITS.items():
        if source.count(wait) != 1:
            sys.exit(f"{name}: Device.c has this wait {source.count(wait)} times")
        found = programs.run(source.replace(wait, other), device)
        by = [i for i, (text, wanted) in enumerate(zip(found, right)) if text != wanted]
        is_seen = any("a wait is missing" in text for text in found)
        end = "an error" if is_seen else "wrong numbers" if by else "nobody misses it"
        print(f"{name}: {end}")
        missed += bool(by)
    return missed != len(WAITS)


sys.exit(main())
