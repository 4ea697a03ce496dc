"""How plans and proposals look in an interpreter, in a terminal and in a notebook."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ...support.text import gib, plural, printable
from ...viz.pages import text_of
from ...viz.pictures import MOST_CELLS
from ..candidate import describe

if TYPE_CHECKING:
    from ..proposals import Plan, Proposal
    from ..request import Request


def _name(what: object, otherwise: str) -> str:
    """The name of a model or a system."""
    if what is None:
        return otherwise
    if isinstance(what, Mapping):
        return printable(str(what.get("name", otherwise)))
    return printable(str(what))


def _title(request: Request) -> str:
    launcher = f", for {request.framework.title}" if request.launcher else ""
    return (
        f"{_name(request.model, 'times of layers')} on {plural(request.gpus, 'accelerator')} of"
        f" {_name(request.system, 'a system')}, {plural(request.global_batch, 'sequence')} a step"
        f"{launcher}"
    )


def _html(title: str, proposals: Sequence[Proposal], lines: Sequence[str], more: str = "") -> str:
    from ...command.render.plans import html_table

    listed = "".join(f"<li>{text_of(line)}</li>\n" for line in lines)
    table = html_table([each.to_dict() for each in proposals]) if proposals else ""
    return f"<div>\n<p>{text_of(title)}</p>\n{table}<ul>\n{listed}</ul>\n{more}</div>\n"


# Plans


def plan_line(plan: Plan) -> str:
    """One line in angle brackets, for `repr`."""
    if plan.fitting:
        best = plan.fitting[0]
        found = f"{len(plan.fitting)} fit, the best takes {best.expected_s:.4g} s: "
        found += describe(best.candidate)
    elif plan.missing:
        found = f"nothing fits, the nearest lacks {gib(plan.missing[0].missing_bytes)}"
    else:
        found = "nothing fits"
    return f"<plan of {_title(plan.request)}: {found}>"


def plan_text(plan: Plan) -> str:
    from ...command.render.output import table_text
    from ...command.render.plans import COLUMNS, drop_alike

    table = table_text(drop_alike(plan.to_dicts()), COLUMNS) if plan.proposals else ""
    return "\n".join([_title(plan.request), table, *(f"- {line}" for line in plan.why())])


def plan_html(plan: Plan) -> str:
    """The same for notebooks."""
    return _html(_title(plan.request), plan.proposals, plan.why())


# Proposals


def _memory_text(proposal: Proposal) -> str:
    if proposal.request.model is None:
        return ""
    missing = f", {gib(proposal.missing_bytes)} too much" if not proposal.fits else ""
    usable = gib(proposal.request.usable_bytes)
    return f", {gib(proposal.peak_bytes)} of {usable} an accelerator{missing}"


def proposal_line(proposal: Proposal) -> str:
    """One line in angle brackets, for `repr`."""
    return f"<proposal {_proposal_title(proposal)}>"


def _proposal_title(proposal: Proposal) -> str:
    numbers = f"{proposal.expected_s:.4g} s{_memory_text(proposal)}"
    return f"{proposal.name}: {numbers}; {describe(proposal.candidate)}"


def proposal_text(proposal: Proposal) -> str:
    """Its numbers, and the uses of its time and memory."""
    lines = (f"- {line}" for line in proposal.why()[1:])  # the title says the first
    return "\n".join([_proposal_title(proposal), *lines])


def proposal_html(proposal: Proposal) -> str:
    """The same for notebooks, with the timeline unless that would be too large."""
    report = proposal.report
    is_small = report._evaluation.num_cells <= MOST_CELLS
    picture = f"{report.to_svg()}\n" if is_small else ""
    return _html(_proposal_title(proposal), [proposal], proposal.why()[1:], picture)
