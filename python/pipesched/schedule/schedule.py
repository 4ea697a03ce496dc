"""Schedules: generating, reading, writing, verifying, transforming and timing them."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cached_property
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any, Literal, TypedDict, TypeVar, Unpack

from .. import _core
from ..costs.costs import Costs, SimulationOptions, read_simulation
from ..costs.stage_times import Place, places_of
from ..errors import PipeSchedError, VerificationError, WrongType
from ..support.files import write_whole
from ..support.options import (
    CsvFormat,
    GradientAfter,
    InstructionKind,
    MemoryTimes,
    Messages,
    Path,
    Paths,
    ReceivePlacement,
    Recompute,
    SvgVariant,
    Transport,
    code_of,
    flag_of,
    instance_of,
    integer,
    names_of,
    pass_options,
    path_of,
    raw_paths,
    read_paths,
    text_of,
)
from ..support.text import valid
from ..viz.pictures import MOST_CELLS, PICTURES, Svg, draw
from .optimize import Optimization, OptimizeOptions, optimize
from .program import Group, ParameterSet, Stage, WorkerProgram, index_of
from .rows import (
    Rows,
    attributes_of_frame,
    cells_of,
    count_joins,
    microbatches_of,
    slices_of,
    words_of_frame,
)

if TYPE_CHECKING:
    import pandas as pd

    from .. import ir
    from ..results.simulation import Simulation

UNSAID = None, None, "I", "none", None


Made = TypeVar("Made")


def chosen(module: _core.Module, name: str | None) -> _core.Module:
    """The module of its only schedule, or of the one with this name."""
    if name is not None:
        text_of("name", name)
    names = [module.describe(index)["name"] for index in range(module.num_schedules)]
    if name is not None and name in names:
        return module if len(names) == 1 else module.extract(names.index(name))
    if name is None and len(names) == 1:
        return module
    found = ", ".join(names) or "none"
    if name is not None:
        raise PipeSchedError(f"there is no schedule or program {name!r}; found {found}")
    raise PipeSchedError(f"one schedule or program is wanted, found {len(names)}: {found}")


def restore(make: Callable[[_core.Module], Made], code: bytes) -> Made:
    """Returns the schedule of a pickle. Pickles are trusted, so the bytecode is read in this
    process.
    """
    return make(_core.Module.parse_trusted(code))


class RowOptions(TypedDict, total=False):
    """The arguments of `Schedule.from_rows` that a frame may have."""

    name: str | None
    microbatches: int | None
    paths: Paths | None
    gradient_after: GradientAfter | None
    recompute: Recompute | None


class Schedule:
    """A schedule or program, with the model, system and times that it names.

    Immutable: `transform` returns a new schedule. Threads that use different schedules never wait
    for each other.
    """

    __slots__ = ("__dict__", "_module")

    def __init__(self, module: _core.Module) -> None:
        if not isinstance(module, _core.Module):
            raise WrongType(
                "schedules are made by generate, problem, load and Schedule.from_...; got "
                f"{module!r}"
            )
        self._module = module

    # Reading

    @staticmethod
    def from_text(text: str, *, name: str | None = None, filename: str = "<text>") -> Schedule:
        """Reads IR. `name` selects one of several schedules; `filename` is the file in the places
        of errors.
        """
        place = valid(path_of("filename", filename))
        return Schedule(chosen(_core.Module.parse(text_of("text", text), place), name))

    @staticmethod
    def from_bytecode(code: bytes, *, name: str | None = None) -> Schedule:
        """Reads the bytecode that `to_bytecode` writes; other bytes are refused."""
        if not isinstance(code, bytes):
            raise WrongType(f"code is the bytes of to_bytecode; got {code!r}")
        return Schedule(chosen(_core.Module.parse(code, "<bytecode>"), name))

    @staticmethod
    def from_csv(
        text: str,
        *,
        filename: str = "schedule.csv",
        keep_columns: bool = False,
        stages_per_path: int | None = None,
    ) -> Schedule:
        """Reads PyTorch's CSV. With `keep_columns`, empty cells are idle slots; with
        `stages_per_path` S, stage p * S + s of the file is stage s of path p. Warns of schedules
        that PyTorch would train wrongly.
        """
        text_of("text", text)
        path_of("filename", filename)
        flag_of("keep_columns", keep_columns)
        stages = 0 if stages_per_path is None else integer("stages_per_path", stages_per_path, 1)
        return Schedule(_core.Module.import_torch_csv(text, valid(filename), keep_columns, stages))

    @staticmethod
    def from_file(path: str | os.PathLike[str], *, name: str | None = None) -> Schedule:
        """Reads IR or bytecode, or PyTorch's CSV from a file that ends in `.csv`."""
        file = FilePath(path_of("path", path))
        if file.suffix == ".csv":
            text = file.read_text(encoding="utf-8", errors="replace")
            return Schedule.from_csv(text, filename=os.fspath(file))
        return Schedule(chosen(_core.Module.parse(file.read_bytes(), valid(str(file))), name))

    @staticmethod
    def from_rows(
        rows: Rows,
        *,
        problem: Schedule | None = None,
        name: str = "schedule",
        microbatches: int | None = None,
        paths: Paths | None = None,
        gradient_after: GradientAfter = "I",
        recompute: Recompute = "none",
        slices: int | None = None,
    ) -> Schedule:
        """Makes a schedule of given rows: for each worker the cells that it runs, in order. An
        entry of a row is a cell as text, as a `Cell` or as (stage, phase, microbatch), a pair of
        cells that runs overlapped, or None for an idle slot.

        `problem`, a schedule without rows, gives everything else: sizes, placement, model. Instead
        of it, `microbatches` (by default as many as occur), `paths` (by default one that is
        linear), `gradient_after`, `recompute` and `slices` of a microbatch (by default as many as
        occur) may be given. Raises an error for a wrong row;
        `verify` checks the table as a whole.

        >>> ladder = [["0F0", "0F1", "0B0", "0B1"], ["1F0", (1, "B", 0), "1F1", "1B1"]]
        >>> Schedule.from_rows(ladder).verify()
        >>> Schedule.from_rows(["0F0 0B0", "1F0 1B0"], name="tiny").rows
        (('0F0', '0B0'), ('1F0', '1B0'))
        """
        cells = cells_of(rows)
        if problem is not None:
            instance_of("problem", Schedule, problem)
        backward = None
        if problem is None:
            count = microbatches_of(cells) if microbatches is None else microbatches
            after = code_of(GradientAfter, "gradient_after", gradient_after)
            backward = after, code_of(Recompute, "recompute", recompute)
            sizes = (len(cells), integer("microbatches", count))
            cut = slices_of(cells) if slices is None else integer("slices", slices, 1)
            problem = Schedule(
                _core.Module.problem(text_of("name", name), *sizes, raw_paths(paths), cut)
            )
        elif (microbatches, paths, gradient_after, recompute, slices) != UNSAID:
            raise WrongType("give a problem, or microbatches, paths and rules, not both")
        elif not problem.is_problem:
            raise PipeSchedError(f"{problem.name} has rows already")
        if len(cells) != problem.workers:
            raise PipeSchedError(
                f"{problem.name} has {problem.workers} workers; got {len(cells)} rows"
            )
        return Schedule(problem._module.with_rows(cells, backward))

    @staticmethod
    def from_frame(
        frame: pd.DataFrame,
        *,
        problem: Schedule | None = None,
        workers: int | None = None,
        **rules: Unpack[RowOptions],
    ) -> Schedule:
        """A schedule of the cells of a frame with the columns worker, index, stage, phase,
        microbatch and, for overlapped cells, pair, as `to_frame` has them. The `attrs` of a frame
        of `to_frame` also have the other arguments of `from_rows`. Arguments that are given here
        take precedence.

        >>> schedule = generate("dualpipe", workers=2, microbatches=4)
        >>> Schedule.from_frame(schedule.to_frame()).rows == schedule.rows
        True
        """
        said = attributes_of_frame(frame)
        if problem is not None:
            instance_of("problem", Schedule, problem)
            return Schedule.from_rows(words_of_frame(frame, problem.workers), problem=problem)
        given: dict[str, Any] = {key: value for key, value in rules.items() if value is not None}
        chosen = {key: said.get(key) for key in (*RowOptions.__annotations__, "slices")}
        options = {key: value for key, value in (chosen | given).items() if value is not None}
        if "paths" in options and "paths" not in given:
            options["paths"] = read_paths(options["paths"])
        of_all = said.get("workers") if workers is None else workers
        return Schedule.from_rows(words_of_frame(frame, of_all), **options)

    # Writing

    def to_text(self) -> str:
        """The IR."""
        return self._module.text()

    def to_bytecode(self) -> bytes:
        """The IR in MLIR's bytecode, smaller and faster to read."""
        return self._module.bytecode()

    def to_csv(self, format: CsvFormat = "compute_only") -> str:
        """PyTorch's CSV. `compute_comms` has everything that PyTorch's runtime executes: also
        messages, and its actions on sharded parameters and gradients.
        """
        return self._module.export_torch_csv(0, code_of(CsvFormat, "format", format))

    def to_chakra(
        self, costs: Costs | None = None, **options: Unpack[SimulationOptions]
    ) -> list[bytes]:
        """The execution traces of Chakra, one for each worker, with times as `simulate` predicts
        them with these arguments; `transport` is `delay` if it is not given. Simulators expect
        worker w in a file `<prefix>.<w>.et`. Needs protobuf.
        """
        from ..results.chakra import chakra_traces

        options.setdefault("transport", "delay")
        return chakra_traces(self, self.simulate(costs, **options))

    def to_megatron_layout(self) -> str:
        """The value of Megatron-Core's `--pipeline-model-parallel-layout`.

        >>> from pipesched import Path
        >>> halves = [Path([0, 1, 0, 1], blocks=[1, 2, 2, 1])]
        >>> problem(workers=2, microbatches=4, paths=halves).to_megatron_layout()
        'Et|(t*2|)*2,tL'
        """
        return self._module.export_megatron_layout(0)

    def to_shardy_rules(self) -> str:
        """The option of Shardy's MPMD partitioner, on one line, with one rule per worker."""
        return self._module.export_shardy_rules(0)

    def save(self, path: str | os.PathLike[str], *, width: float | str | None = None) -> None:
        """Writes the format of the file's extension: `.mlir`, `.mlirbc`, `.csv`, or a picture,
        `.svg`, `.png`, `.pdf` or `.tikz`, of this width (`Svg.scaled`). The file appears whole
        or not at all.
        """
        file = path_of("path", path)
        write_whole(file, self._contents(FilePath(file).suffix, width))

    def _contents(self, suffix: str, width: float | str | None = None) -> bytes:
        if suffix in PICTURES:
            return self.to_svg().contents(suffix, width)
        if width is not None:
            raise PipeSchedError(f"{suffix!r} has no width; only {', '.join(PICTURES)} do")
        writers: dict[str, Callable[[], str]] = {".mlir": self.to_text, ".csv": self.to_csv}
        if suffix == ".mlirbc":
            return self.to_bytecode()
        if suffix not in writers:
            known = ", ".join((*writers, ".mlirbc", *PICTURES))
            raise PipeSchedError(f"cannot save as {suffix!r}; known endings: {known}")
        return writers[suffix]().encode()

    # Properties

    @cached_property
    def _facts(self) -> dict[str, Any]:
        return self._module.describe(0)

    @property
    def name(self) -> str:
        """The symbol, without `@`."""
        return str(self._facts["name"])

    @property
    def family(self) -> str | None:
        """The family that generated it, unless its rows have changed since."""
        return self._facts["family"] or None

    @property
    def kind(self) -> Literal["schedule", "program"]:
        """`schedule` for a table, `program` for the result of `convert-pipe-to-exec`."""
        return "program" if self._facts["is_program"] else "schedule"

    @property
    def is_problem(self) -> bool:
        """Whether it has no rows yet."""
        return bool(self._facts["is_problem"])

    @property
    def workers(self) -> int:
        return int(self._facts["workers"])

    @property
    def microbatches(self) -> int:
        return int(self._facts["microbatches"])

    @property
    def slices(self) -> int:
        """The number of slices into which each microbatch is divided along its tokens.

        >>> generate("seq1f1b", workers=1, microbatches=1, slices=2).rows
        (('0F0.0', '0F0.1', '0B0.1', '0B0.0'),)
        """
        return int(self._facts["slices"])

    @cached_property
    def paths(self) -> tuple[Path, ...]:
        """The paths as they are written; empty for a program without paths. A schedule with edges
        other than the chains of its paths has no such list.

        >>> generate("chimera", workers=2, microbatches=4).paths[1]
        Path(workers=(1, 0), takes=(range(1, 4, 2),), blocks=None, weights=None)
        """
        return read_paths(self._module.paths(0))

    @property
    def _places(self) -> tuple[Place, ...]:
        """The places of its stages by path; empty if it has edges besides chains, or no paths."""
        return () if self._facts["has_edges"] else places_of(self.paths)

    @property
    def gradient_after(self) -> GradientAfter:
        """The cell of a split backward that sends the gradient of its input upstream; a whole B
        does so itself.
        """
        return names_of(GradientAfter)[self._backward[0]]  # type: ignore[no-any-return]

    @property
    def recompute(self) -> Recompute:
        """The part that R cells recompute: the attention core (`selective`) or the stage (`full`);
        `none` if there are no R cells.
        """
        return names_of(Recompute)[self._backward[1]]  # type: ignore[no-any-return]

    @cached_property
    def _backward(self) -> tuple[int, int]:
        return _core.backward(self._module, 0)

    def to_frame(self) -> pd.DataFrame:
        """The cells: worker, index, stage, phase, microbatch, queue, pair; also slice if
        microbatches have slices. `index` counts the cells of a worker, without idle slots and
        joins; after O and G, `microbatch` is the path. `queue` is where the cell runs, in parallel
        with the cells of other queues; `pair` is the index of the cell that it overlaps with, or
        -1.

        `attrs["pipesched"]`, which `from_frame` reads, has name, workers, microbatches, paths,
        gradient_after, recompute and the number of joins.
        """
        from ..results.frames import cell_frame

        frame = cell_frame(self._module.cells(0), has_slices=self.slices > 1)
        has_copies = bool(frame.phase.isin(["D", "U"]).any())
        frame.attrs["pipesched"] = {
            "name": self.name,
            "workers": self.workers,
            "microbatches": self.microbatches,
            "slices": self.slices,
            "paths": self._module.paths(0),
            "gradient_after": self.gradient_after,
            "recompute": self.recompute,
            "joins": count_joins(self.rows) if has_copies else 0,
        }
        return frame

    @property
    def module(self) -> ir.Module:
        """A copy of the IR, in a separate context, to read and change; `Schedule.from_text` reads
        it back.
        """
        from .. import ir

        return ir.Module.parse(self.to_bytecode(), ir.Context())

    @cached_property
    def rows(self) -> tuple[tuple[str, ...], ...]:
        """The text of the rows of a schedule: for each worker its cells (`2F0`), pairs (`2F3+1B0`),
        idle slots (`_12`) and joins (`2d0`). Empty for problems and programs.

        >>> generate("1f1b", workers=2, microbatches=2).rows
        (('0F0', '0F1', '0B0', '0B1'), ('1F0', '1B0', '1F1', '1B1'))
        """
        if self.kind == "program":
            return ()
        return tuple(map(tuple, self._module.rows(0)))

    # Programs of workers

    @property
    def blocks(self) -> int:
        """The number of blocks of the model, in which stages and all-reduces are counted: its
        layers if all paths give the layers of each stage, otherwise equal parts into which the
        stages of all paths divide it.
        """
        return self._placement.num_blocks

    def stages(self, worker: int) -> tuple[Stage, ...]:
        """The stages of a worker, ascending by path and then by stage. A program without paths has
        one, with each stage on the worker that runs it.

        >>> for stage in generate("zb-v", workers=2, microbatches=4).stages(0):
        ...     print(stage.path, stage.stage, stage.blocks, stage.sets)
        0 0 range(0, 1) range(0, 1)
        0 3 range(3, 4) range(1, 2)
        """
        columns = self._placement.stages(index_of("worker", worker, self.workers))
        of = {name: column.tolist() for name, column in columns.items()}
        places = (of[name] for name in ("path", "stage", "first_block", "end_block"))
        sets = map(range, of["first_set"], of["end_set"])
        owned_sets = map(range, of["first_set"], of["end_owned_set"])
        return tuple(map(Stage, *places, sets, owned_sets))

    def parameter_sets(self, worker: int) -> tuple[ParameterSet, ...]:
        """The parameter sets of a worker, in the order of the model: blocks that the worker holds
        once, with the stages that use them and the one that owns them. Together the sets have each
        block of its stages once.

        >>> crossing = problem(workers=3, microbatches=2, paths=[[0, 1, 2], [2, 1, 0]])
        >>> crossing.parameter_sets(1)
        (ParameterSet(blocks=range(1, 2), stages=((0, 1), (1, 1)), owner=(0, 1)),)
        """
        return tuple(
            ParameterSet(range(begin, end), stages, owner)
            for begin, end, stages, owner in self._placement.parameter_sets(
                index_of("worker", worker, self.workers)
            )
        )

    def path_of(self, microbatch: int) -> int:
        """The path that a microbatch takes, an index into `paths`."""
        number = index_of("microbatch", microbatch, self.microbatches)
        path = self._placement.path_of(number)
        if path < 0:
            raise PipeSchedError("the paths do not say which microbatches they take")
        return path

    def program(self, worker: int, *, receives: ReceivePlacement | None = None) -> WorkerProgram:
        """The program of a worker, as data for a runtime. A schedule is lowered as the pass
        `convert-pipe-to-exec` does, with receives at `arrival` unless `receives` says `consumer`.
        Raises the errors of `verify` for a schedule that is incomplete or whose rows cannot run. A
        program already has its receives in place.

        >>> program = generate("1f1b", workers=2, microbatches=2).program(1)
        >>> for instruction in program[:4]:
        ...     print(instruction, instruction.message, instruction.waits)
        0: recv 0F0 from 0 0 ()
        1: compute 1F0 None (0,)
        2: recv 0F1 from 0 1 ()
        3: compute 1B0 None (1,)
        >>> program.columns.peer[:4]
        array([ 0, -1,  0, -1], dtype=int32)
        """
        number = index_of("worker", worker, self.workers)
        columns = self._lowered(receives).instructions(number)
        return WorkerProgram(number, columns, self.groups)

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        """The groups of collectives, numbered by their position here and in the same order for all
        workers: the order in which to create communicators. All-reduces come first, ascending by
        block.
        """
        kinds = names_of(InstructionKind)
        return tuple(
            Group(range(begin, end), workers, stages, kinds[kind], None if number < 0 else number)
            for kind, begin, end, number, workers, stages in self._lowered(None).groups()
        )

    @cached_property
    def _placement(self) -> _core.Placement:
        return _core.placement(self._module, 0)

    @cached_property
    def _programs(self) -> dict[int, _core.Program]:
        return {}

    def _lowered(self, receives: ReceivePlacement | None) -> _core.Program:
        """All workers' programs, which are read once."""
        if receives is not None and self.kind == "program":
            raise PipeSchedError(
                f"receives={receives!r} places the receives of a schedule; {self.name!r} is a "
                "program, whose receives stand where they are"
            )
        code = code_of(ReceivePlacement, "receives", "arrival" if receives is None else receives)
        if code not in self._programs:
            self._programs[code] = _core.program(self._module, 0, code)
        return self._programs[code]

    # Operations

    def transform(self, pipeline: str) -> Schedule:
        """Runs a pass pipeline and returns the result.

        >>> schedule = generate("1f1b", workers=2, microbatches=2)
        >>> print(schedule.transform("pipe-align-slots"))
        module {
          pipe.schedule @schedule workers 2 microbatches 2 family "1f1b" aligned {
            path on [0, 1]
            worker 0 runs [0F0 0F1 _2 0B0 _ 0B1]
            worker 1 runs [_ 1F0 1B0 1F1 1B1 _2]
          }
        }
        <BLANKLINE>

        A pass may be a function of the module's operation and the running pass
        (`pipesched.ir.PassManager.add`), by its place: `path/to/file.py:function`.
        """
        text = text_of("pipeline", pipeline)
        if ":" in text:
            from ..ir import run_places

            if (changed := run_places(self, text)) is not None:
                return Schedule.from_text(changed)
        return Schedule(chosen(self._module.run(text), None))

    def _search(self, pipeline: str) -> tuple[Schedule, list[dict[str, Any]]]:
        """Runs a pipeline with a long search, which Ctrl-C ends; also returns the findings of its
        passes.
        """
        module, found = _core.search(self._module, pipeline)
        return Schedule(chosen(module, None)), found

    def optimize(self, **options: Unpack[OptimizeOptions]) -> Optimization:
        """Searches for the best schedule for its paths, times and memory (docs/Optimize.md).
        `memory` is the budget of each worker and `memory_times` says when it holds, as in `verify`;
        by default at any times. `offload`, `recompute` and `split_backward` allow techniques of the
        search. `placements` and `microbatch_sizes` (in sequences, for the same batch) list
        alternatives, and the best is chosen. The search ends when the result is proven optimal or
        near enough (`gap`), or after `time_limit` seconds or `max_evaluations` candidates.

        >>> from pipesched import problem
        >>> times = "pipe-attach-profile{times=F=10ms,I=12ms,W=8ms}"
        >>> found = problem(workers=2, microbatches=4).transform(times).optimize(memory=2)
        >>> found.objective_ps, found.status
        (134000000000, 'optimal')
        """
        return optimize(self._search, options)

    def verify(
        self,
        messages: Messages = "unbounded",
        *,
        memory: int | str | None = None,
        memory_times: MemoryTimes | None = None,
        receive_placement: ReceivePlacement | None = None,
        transport: Transport | None = None,
    ) -> None:
        """Proves that it is complete and free of deadlock under the rules of `messages` for senders
        and receivers; raises a VerificationError if it is not. Also checks a schedule against
        `memory`, the budget of each worker: activations, bytes with a unit ("80GB"), or "system";
        raises a PipeSchedError if it does not keep it, or if its memory is not known.
        `memory_times` chooses the times: "any" (the default) requires that rows and joins keep the
        budget at any times of cells and copies, "given" that they keep it at the attached times,
        under `transport`.

        A program has its receives in place and no budget: the other options are only for schedules.
        """
        code_of(Messages, "messages", messages)
        kinds = (MemoryTimes, ReceivePlacement, Transport)
        chosen: dict[str, Any] = {
            "memory_times": memory_times,
            "receive_placement": receive_placement,
            "transport": transport,
        }
        for kind, (option, value) in zip(kinds, chosen.items(), strict=True):
            if value is not None:
                code_of(kind, option, value)
        if isinstance(memory, str):
            text_of("memory", memory)
        if self.is_problem:
            raise PipeSchedError(f"{self.name} has no rows to verify")
        budget = {"memory": memory, **chosen}
        given = [option for option, value in budget.items() if value is not None]
        if self.kind == "program" and given:
            raise PipeSchedError(
                f"{self.name} is a program, to which {', '.join(given)} cannot be applied; wanted "
                "a schedule"
            )
        verifier = "pipe-verify" if self.kind == "schedule" else "exec-verify"
        proof = {"messages": messages, "receive_placement": receive_placement}
        try:
            self._module.run(verifier + pass_options(proof))
        except PipeSchedError as error:
            raise VerificationError(error.diagnostics) from None
        if memory is not None:
            self._module.run(verifier + pass_options({"messages": messages, **budget}))

    def simulate(
        self, costs: Costs | None = None, **options: Unpack[SimulationOptions]
    ) -> Simulation:
        """Times it, with `costs` or with the arguments of `Costs`; the rest is taken from the
        schedule itself. `transport` (overlap, delay, blocking, pairs) says how messages occupy
        workers, and `receive_placement` (arrival, consumer) where receives are in their rows.
        `forward_sends` (async, sync) says whether forwards wait for sends, and `runtime` (table,
        torch) whether cells have the times of the table or of PyTorch's runtime.

        >>> schedule = generate("1f1b", workers=8, microbatches=24)
        >>> times = {"F": "18.522ms", "B": "27.423ms", "comm": "0.601ms"}
        >>> report = schedule.simulate(times=times, transport="delay")
        >>> round(report.execution.span_bubble_ratio, 4)
        0.2431
        """
        from ..results.simulation import simulate

        return simulate(self, *read_simulation(costs, options))

    def to_svg(self, variant: SvgVariant | None = None) -> Svg:
        """A picture as in papers: the table in its slots, or the timeline, which is the only
        variant for a program.
        """
        if variant is None:
            variant = "slots" if self.kind == "schedule" else "timed"
        code_of(SvgVariant, "variant", variant)
        if variant == "slots":
            return Svg(self._module.slot_svg(0))
        return draw(self.simulate(), variant=variant)

    def _repr_svg_(self) -> str | None:
        """The picture for notebooks. If it would be too large or cannot be drawn, there is none,
        and notebooks show the text.
        """
        try:
            is_small = 0 < self._module.num_cells(0) <= MOST_CELLS
            return self.to_svg() if is_small else None
        except PipeSchedError:
            return None

    # Python protocols

    def __repr__(self) -> str:
        family = f" family={self.family!r}" if self.family else ""
        sizes = f"workers={self.workers} microbatches={self.microbatches}"
        return f"<{self.kind} {self.name!r}{family} {sizes}>"

    def __str__(self) -> str:
        return self.to_text()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Schedule) and self.to_text() == other.to_text()

    def __hash__(self) -> int:
        return hash(self.to_text())

    def __reduce__(self) -> tuple[object, ...]:
        return restore, (Schedule, self.to_bytecode())
