"""`pipesched verify`: a proof that schedules are complete and do not deadlock."""

from __future__ import annotations

import argparse

from pipesched import PipeSchedError, Schedule
from pipesched._options import Messages, ReceivePlacement, names_of

from . import files, passes
from .arguments import Verbs, add_verb
from .output import Column, add_output, say, write_rows, write_text

EXAMPLE = "  pipesched verify schedule.mlir --messages batched"

COLUMNS = (
    Column("schedule", "schedule", left=True),
    Column("kind", "kind", left=True),
    Column("messages", "messages", left=True),
    Column("valid", "valid", lambda valid: "yes" if valid else "no", left=True),
)


def add(verbs: Verbs) -> None:
    """Adds the parser."""
    parser = add_verb(
        verbs,
        "verify",
        run,
        summary="Proves schedules complete and free of deadlock; says where they are not.",
        example=EXAMPLE,
    )
    files.add_input(parser)
    parser.add_argument(
        "--messages",
        choices=names_of(Messages),
        default="unbounded",
        help="what senders and receivers may rely on",
    )
    parser.add_argument(
        "--receive-placement", choices=names_of(ReceivePlacement), default="arrival"
    )
    add_output(parser)


def _finding(schedule: Schedule, arguments: argparse.Namespace) -> PipeSchedError | None:
    try:
        schedule.verify(arguments.messages, receive_placement=arguments.receive_placement)
    except PipeSchedError as error:
        return error
    return None


def run(arguments: argparse.Namespace) -> int:
    """Verifies each schedule; fails if one does not verify."""
    if arguments.show_passes:
        options = {"messages": arguments.messages, "receive-placement": arguments.receive_placement}
        write_text(
            passes.command_line([passes.one_pass("pipe-verify", options)], arguments.file) + "\n"
        )
        return 0
    rows = []
    for schedule in files.read(arguments):
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
