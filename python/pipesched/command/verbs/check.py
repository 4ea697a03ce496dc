"""`pipesched check`: a proof that schedules are complete and do not deadlock, or whether the recipe
of a launcher runs and fits.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from itertools import takewhile

import pipesched
from pipesched import PipeSchedError, Schedule, VerificationError
from pipesched.errors import said_by
from pipesched.support.options import Messages, names_of

from ..options import files, input, passes, table
from ..options.arguments import UsageError, add_family_options, source
from ..render.output import Column, add_output, say, write_rows, write_text

EXAMPLE = """  pipesched check schedule.mlir --messages batched
  pipesched check zb-v --pp 4 --microbatches 8
  pipesched check train_llama3_70b.sh --system dgx-h100"""

COLUMNS = (
    Column("schedule", "schedule", left=True),
    Column("kind", "kind", left=True),
    Column("messages", "messages", left=True),
    Column("valid", "valid", lambda valid: "yes" if valid else "no", left=True),
)

FINDINGS = (
    Column("check", "check", left=True),
    Column("answer", "answer", left=True),
    Column("finding", "finding", left=True, wraps=True),
)

RECIPE = (
    "; or a recipe, of which nothing is run: a shell script of Megatron-LM or torchtitan, TOML of"
    " torchtitan, YAML of Primus, NeMo or Megatron-Bridge"
)


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar=input.METAVAR, help=input.HELP + RECIPE)
    group = parser.add_argument_group("recipes", "Values that the recipe does not have.")
    table.add(group, "model", "system", "gpus")
    table.add(parser, "name", "receive_placement")
    add_family_options(parser)
    parser.add_argument(
        "--messages", choices=names_of(Messages), help="what senders and receivers may rely on"
    )
    add_output(parser)


def _finding(schedule: Schedule, arguments: argparse.Namespace) -> VerificationError | None:
    """The reasons why a schedule is not valid. Any other failure is raised."""
    try:
        is_table = schedule.kind == "schedule"
        placement = arguments.receive_placement if is_table else None
        schedule.verify(arguments.messages, receive_placement=placement)
    except VerificationError as error:
        return error
    return None


def _passes(arguments: argparse.Namespace, origin: files.Origin, schedules: list[Schedule]) -> str:
    kinds = {schedule.kind for schedule in schedules}
    options = {"messages": arguments.messages, "receive-placement": arguments.receive_placement}
    made = input.generate(arguments)
    made += [passes.one_pass("pipe-verify", options)] if "schedule" in kinds else []
    if "program" in kinds:
        made.append(passes.one_pass("exec-verify", {"messages": arguments.messages}))
    return passes.command_line(made, origin)


def _note_groups(schedule: Schedule) -> Iterator[str]:
    """Says whether Megatron-Core runs the groups of an interleaved schedule, and by which flag."""
    if schedule.kind != "schedule" or schedule.family != "interleaved-1f1b":
        return
    from pipesched.planning.launch.rules import VERSIONS, Layout, broken_rules

    def refused(group: int) -> list[str]:
        layout = Layout(pipeline=workers, chunks=2, microbatches=microbatches, group=group)
        return [each.text for each in broken_rules("megatron", VERSIONS["megatron"][0], layout)]

    workers, microbatches = schedule.workers, schedule.microbatches
    forwards = (cell for cell in schedule.rows[0] if "F" in cell)
    group = len([*takewhile(lambda cell: cell.startswith("0F"), forwards)])
    if own := refused(group):
        yield f"note: {schedule.name}: {own[0]}"
    elif group != workers:
        why = "".join(f"; without it {each}" for each in refused(workers))
        flag = f"--microbatch-group-size-per-virtual-pipeline-stage {group}"
        yield f"note: {schedule.name}: Megatron-LM runs these rows with {flag}{why}"


def _refuse(arguments: argparse.Namespace, names: str, about: str) -> None:
    """Raises an error if one of the options is given; `about` names their use."""
    for name in names.split():
        if getattr(arguments, name) not in (None, False):
            raise UsageError(f"--{name.replace('_', '-')} is about {about}")


def _check_recipe(arguments: argparse.Namespace) -> int:
    from pipesched.planning.check import check
    from pipesched.planning.launch.recipes import read_recipe

    _refuse(arguments, "name receive_placement messages show_passes", "schedules, not recipes")
    input.refuse_sizes(arguments, "schedules, not recipes")
    try:
        recipe = read_recipe(arguments.file)
        found = check(
            recipe,
            model=source(arguments.model, pipesched.models),
            system=source(arguments.system, pipesched.systems),
            gpus=arguments.gpus,
        )
    except (PipeSchedError, OSError) as error:
        raise UsageError(said_by(error)) from None
    above = [f"assumed: {', '.join(found.assumed)}"] if found.assumed else []
    above += [f"note: {note}" for note in recipe.notes]
    if recipe.unknown:
        above.append(f"not read, and may change the answer: {', '.join(recipe.unknown)}")
    title = f"{files.show_path(arguments.file)} for {recipe.launcher}"
    write_rows(
        arguments, [vars(each) for each in found.findings], FINDINGS, title=title, above=above
    )
    return 0 if found.runs else 1


def run(arguments: argparse.Namespace) -> int:
    if files.is_recipe(arguments.file):
        return _check_recipe(arguments)
    _refuse(arguments, "model system gpus", "recipes, not schedules")
    arguments.messages = arguments.messages or "unbounded"
    origin, schedules = input.read(arguments)
    if arguments.receive_placement and all(each.kind == "program" for each in schedules):
        raise UsageError(
            "--receive-placement is for schedules; a program says where its receives stand"
        )
    if arguments.show_passes:
        write_text(_passes(arguments, origin, schedules) + "\n", arguments.output)
        return 0
    rows = []
    for schedule in schedules:
        error = _finding(schedule, arguments)
        if error:
            say(str(error))
        rows.append(
            {
                "schedule": schedule.name,
                "kind": schedule.kind,
                "messages": arguments.messages,
                "valid": error is None,
                "diagnostics": [str(found) for found in error.diagnostics] if error else [],
            }
        )
    notes = [note for schedule in schedules for note in _note_groups(schedule)]
    write_rows(arguments, rows, COLUMNS, above=notes)
    return 0 if all(row["valid"] for row in rows) else 1
