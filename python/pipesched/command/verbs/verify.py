"""`pipesched verify`: a proof that schedules are complete and do not deadlock."""

from __future__ import annotations

import argparse

from pipesched import Schedule, VerificationError
from pipesched.support.options import Messages, names_of

from ..options import files, input, passes, table
from ..options.arguments import UsageError
from ..render.output import Column, add_output, say, write_rows, write_text

EXAMPLE = """  pipesched verify schedule.mlir --messages batched
  pipesched verify zb-v --pp 4 --microbatches 8"""

COLUMNS = (
    Column("schedule", "schedule", left=True),
    Column("kind", "kind", left=True),
    Column("messages", "messages", left=True),
    Column("valid", "valid", lambda valid: "yes" if valid else "no", left=True),
)


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar=input.METAVAR, help=input.HELP)
    table.add(parser, "name", "receive_placement")
    input.add_sizes(parser)
    parser.add_argument(
        "--messages",
        choices=names_of(Messages),
        default="unbounded",
        help="what senders and receivers may rely on",
    )
    add_output(parser)


def _finding(schedule: Schedule, arguments: argparse.Namespace) -> VerificationError | None:
    """The reasons why a schedule is not valid. Any other failure is no answer, and is raised."""
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


def run(arguments: argparse.Namespace) -> int:
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
    write_rows(arguments, rows, COLUMNS)
    return 0 if all(row["valid"] for row in rows) else 1
