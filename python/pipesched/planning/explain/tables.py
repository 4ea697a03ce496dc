"""How plans and proposals look in an interpreter, in a terminal and in a notebook."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ...support.text import gib, plural, printable
from ...viz.pages import text_of
from ...viz.pictures import MOST_CELLS
from ..candidate import describe

if TYPE_CHECKING:
    from ..proposals import Plan, Proposal
    from ..request import Request

NOTHING = "-"


class Shown(NamedTuple):
    """A column: its heading, the text of a proposal, and whether it is a word."""

    heading: str
    text: Callable[[Proposal], str]
    is_word: bool = False


def _text(value: Any, show: Callable[[Any], str] = str, usual: object = None) -> str:
    """The value as text; a dash if it is not known, or as usual."""
    return NOTHING if value in (None, usual) else show(value)


def _memory(proposal: Proposal) -> str:
    used = _text(None if proposal.request.model is None else proposal.peak_bytes, gib)
    return f"{used} (full)" if proposal.request.model is not None and proposal.is_tight else used


def _band(proposal: Proposal, end: int) -> str:
    """The lower or the upper end of the band of the step."""
    ends = None if proposal.band is None else proposal.band.seconds(proposal.step_s)
    return _text(ends and ends[end], "{:.4g} s".format)


COLUMNS = (
    Shown("", lambda p: p.name, True),
    Shown("runs in", lambda p: ", ".join(p.runs_in), True),
    Shown("step", lambda p: f"{p.expected_s:.4g} s"),
    Shown("from", lambda p: _band(p, 0)),
    Shown("to", lambda p: _band(p, 1)),
    Shown("disturbed", lambda p: _text(p.expected_disturbed_s, "{:.4g} s".format)),
    Shown("tokens/s/GPU", lambda p: _text(p.tokens_per_s_per_gpu, "{:,.0f}".format)),
    Shown("MFU", lambda p: _text(p.mfu, lambda mfu: f"{100 * mfu:.2f} %")),
    Shown("memory/GPU", _memory),
    Shown("missing/GPU", lambda p: _text(p.missing_bytes, gib, usual=0)),
    Shown("tensor", lambda p: str(p.shape.tensor)),
    Shown("context", lambda p: _text(p.shape.context, usual=1)),
    Shown("pp", lambda p: str(p.shape.pipeline)),
    Shown("data", lambda p: str(p.shape.data)),
    Shown("expert", lambda p: _text(p.shape.expert, usual=1)),
    Shown("B", lambda p: str(p.shape.microbatch_size)),
    Shown("N", lambda p: str(p.shape.microbatches)),
    Shown("chunks", lambda p: _text(p.candidate.chunks, usual=1)),
    Shown("slices", lambda p: _text(p.candidate.slices, usual=1)),
    Shown("layers", lambda p: p.candidate.layers_text, True),
    Shown("vocabulary", lambda p: _text(p.candidate.vocabulary, usual="whole"), True),
    Shown("receives", lambda p: _text(p.candidate.receives, usual="arrival"), True),
    Shown("recompute", lambda p: p.shape.recompute, True),
    Shown("sharding", lambda p: p.shape.sharding, True),
)


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


def _results(proposals: Sequence[Proposal]) -> tuple[list[Shown], list[list[str]]]:
    """The columns with a value, and the texts of each proposal in them."""
    rows = [[column.text(proposal) for column in COLUMNS] for proposal in proposals]
    kept = [at for at in range(len(COLUMNS)) if at == 0 or any(row[at] != NOTHING for row in rows)]
    return [COLUMNS[at] for at in kept], [[row[at] for at in kept] for row in rows]


def _table(proposals: Sequence[Proposal]) -> list[str]:
    columns, rows = _results(proposals)
    heads = [column.heading for column in columns]
    widths = [max(map(len, texts)) for texts in zip(heads, *rows, strict=True)]

    def line(texts: Sequence[str]) -> str:
        parts = zip(columns, texts, widths, strict=True)
        return "  ".join(
            text.ljust(width) if column.is_word else text.rjust(width)
            for column, text, width in parts
        ).rstrip()

    return [line(heads), *map(line, rows)]


def _cell(tag: str, column: Shown, text: str) -> str:
    side = "left" if column.is_word else "right"
    return f'<{tag} style="text-align: {side}">{text_of(text)}</{tag}>'


def _html_table(proposals: Sequence[Proposal]) -> str:
    columns, rows = _results(proposals)
    head = "".join(_cell("th", column, column.heading) for column in columns)
    body = ""
    for proposal, texts in zip(proposals, rows, strict=True):
        faded = "" if proposal.fits else ' style="opacity: 0.6"'
        cells = (_cell("td", c, text) for c, text in zip(columns, texts, strict=True))
        body += f"<tr{faded}>{''.join(cells)}</tr>\n"
    return f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody>\n</table>\n"


def _html(title: str, proposals: Sequence[Proposal], lines: Sequence[str], more: str = "") -> str:
    listed = "".join(f"<li>{text_of(line)}</li>\n" for line in lines)
    table = _html_table(proposals) if proposals else ""
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
    """The proposals as a table, and why."""
    table = _table(plan.proposals) if plan.proposals else []
    return "\n".join([_title(plan.request), *table, "", *(f"- {line}" for line in plan.why())])


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
