"""Parts of answers for papers: tables in LaTeX, and the entries of families in BibTeX."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

import pipesched
from pipesched import PipeSchedError
from pipesched.viz.image import latex_of

from ..options.arguments import canonical
from .output import Column, Row, View, show_cell, table_columns


def latex_table(
    rows: Sequence[Row],
    columns: Sequence[Column],
    *,
    title: str | None = None,
    above: Sequence[str] = (),
    view: View = View(),
) -> str:
    """The table for a document that uses `booktabs`; lines above it become comments."""
    shown = table_columns(rows, columns, view)
    if not shown and rows:
        shown = [Column(str(key), str(key)) for key in rows[0]]
    sides = "".join("l" if column.left else "r" for column in shown)
    comments = [f"% {line}" for part in (title, *above) if part for line in part.splitlines()]

    def line(texts: Iterable[str]) -> str:
        return f"  {' & '.join(map(latex_of, texts))} \\\\"

    head = line(column.heading for column in shown)
    body = [line(show_cell(column, row) for column in shown) for row in rows]
    made = [*comments, f"\\begin{{tabular}}{{{sides}}}", "  \\toprule", head, "  \\midrule"]
    return "\n".join([*made, *body, "  \\bottomrule", "\\end{tabular}"]) + "\n"


# Families

_PAPERS = {
    "1811.06965": (
        "Yanping Huang and Youlong Cheng and Ankur Bapna and Orhan Firat and others",
        "{GPipe}: Efficient Training of Giant Neural Networks using Pipeline Parallelism",
    ),
    "2104.04473": (
        "Deepak Narayanan and Mohammad Shoeybi and Jared Casper and others",
        "Efficient Large-Scale Language Model Training on {GPU} Clusters Using {Megatron-LM}",
    ),
    "2107.06925": (
        "Shigang Li and Torsten Hoefler",
        "Chimera: Efficiently Training Large-Scale Neural Networks with Bidirectional Pipelines",
    ),
    "2211.05953": ("Joel Lamy-Poirier", "Breadth-First Pipeline Parallelism"),
    "2308.15762": (
        "Ziming Liu and Shenggan Cheng and Haotian Zhou and Yang You",
        "Hanayo: Harnessing Wave-like Pipeline Parallelism for Enhanced Large Model Training"
        " Efficiency",
    ),
    "2401.10241": (
        "Penghui Qi and Xinyi Wan and Guangxing Huang and Min Lin",
        "Zero Bubble Pipeline Parallelism",
    ),
    "2405.15362": (
        "Penghui Qi and Xinyi Wan and Nyamdavaa Amar and Min Lin",
        "Pipeline Parallelism with Controllable Memory",
    ),
    "2411.05288": (
        "Man Tsung Yeung and Penghui Qi and Min Lin and Xinyi Wan",
        "Balancing Pipeline Parallelism with Vocabulary Parallelism",
    ),
    "2412.14374": (
        "Anxhelo Xhebraj and Sean Lee and Hanfeng Chen and Vinod Grover",
        "Scaling Deep Learning Training with {MPMD} Pipeline Parallelism",
    ),
    "2605.24006": (
        'D. Barley and J. Leis and B. Klenk and H. Fr{\\"o}ning',
        "A Tabular Schedule Abstraction for Communication-Aware Evaluation of Pipeline-Parallel"
        " {LLM} Training",
    ),
    "2412.19437": ("{DeepSeek-AI}", "{DeepSeek-V3} Technical Report"),
    "2102.07988": (
        "Zhuohan Li and Siyuan Zhuang and Shiyuan Guo and Danyang Zhuo and Hao Zhang and Dawn Song"
        " and Ion Stoica",
        "{TeraPipe}: Token-Level Pipeline Parallelism for Training Large-Scale Language Models",
    ),
    "2406.03488": (
        "Ao Sun and Weilin Zhao and Xu Han and Cheng Yang and Xinrong Zhang and Zhiyuan Liu"
        " and Chuan Shi and Maosong Sun",
        "{Seq1F1B}: Efficient Sequence-Level Pipeline Parallelism for Large Language Model"
        " Training",
    ),
    "2504.14519": (
        "Zhouyang Li and Yuliang Liu and Wei Zhang and Tailing Yuan and Bin Chen and Chengru Song"
        " and Di Zhang",
        "{SlimPipe}: Memory-Thrifty and Efficient Pipeline Parallelism for Long-Context {LLM}"
        " Training",
    ),
}
"""Authors and titles, by the arXiv number that the source of a family gives."""

_NUMBER = re.compile(r"\barXiv[ :](\d{4}\.\d{4,5})")
_CITED = re.compile(r"(?:after )?(?:.*, after )?(?P<who>[^\d,]+?) (?P<year>(?:19|20)\d\d)\b")


def _key(who: str, year: str, number: str) -> str:
    first = re.sub(r"[^a-z]", "", who.split()[0].casefold())
    return f"{first}{year}-{number}"


def _entry(name: str, source: str) -> str:
    """The entry of one source: a paper of arXiv, or else a note."""
    number, cited = _NUMBER.search(source), _CITED.match(source)
    fields: dict[str, str] = {}
    key = re.sub(r"[^\w-]", "-", name)
    if number and cited:
        others = re.sub(r"\s+et al\.?$", " and others", cited["who"].strip())
        who, title = _PAPERS.get(number[1], (others, ""))
        key = _key(cited["who"], cited["year"], number[1])
        fields = {"author": who, "title": title, "year": cited["year"], "eprint": number[1]}
        fields |= {"archivePrefix": "arXiv", "url": f"https://arxiv.org/abs/{number[1]}"}
    else:
        # Without an author, BibTeX sorts by `key`.
        fields = {"key": key, "title": latex_of(name), "note": latex_of(source)}
    lines = [f"  {field} = {{{value}}}," for field, value in fields.items() if value]
    return "\n".join([f"@misc{{{key},", *lines, "}"])


def _sources(rows: Iterable[Mapping[str, object]]) -> dict[str, str]:
    """The families of rows, with the sources that they have."""
    known, found = pipesched.families(), {}
    for row in rows:
        name = row.get("family") or row.get("schedule")
        if not isinstance(name, str):
            continue
        try:
            family = known.get(canonical(name))
        except PipeSchedError:
            continue
        if family is not None and family.source:
            found[family.name] = family.source
    return found


def bibtex(rows: Sequence[Row]) -> str:
    """One entry for each source, with the families from it listed above it."""
    entries: dict[str, list[str]] = {}
    for name, source in _sources(rows).items():
        entries.setdefault(_entry(name, source), []).append(name)
    if not entries:
        raise PipeSchedError("--format bibtex: no row is of a family that has a source")
    return "\n".join(f"% {', '.join(names)}\n{entry}\n" for entry, names in entries.items())
