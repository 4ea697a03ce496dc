"""Configurations: random ones of all families and options, and a small grid in which some are
impossible.
"""

from collections.abc import Iterator
from typing import Any, get_args, get_type_hints

import pipesched
from hypothesis import strategies as st
from pipesched import Configuration, Costs, FamilyOptions, PipeSchedError, Schedule, generate
from pipesched.support.options import ForwardSends, ReceivePlacement, Runtime, Transport

PROFILE = Costs(times={"F": "2us", "I": "3us", "W": "1us", "comm": "500ns", "send": "700ns"})
ROOFLINE = Costs(model="toy", system="toy", microbatch_size=1)

SLICED = ("seq1f1b", "slimpipe", "terapipe")
"""The families that cut sequences into slices, which neither programs nor other formats have."""
SPREAD = ("vocab-1f1b", "vocab-v-half", "interlaced-1f1b")
"""The families that spread the head over the workers, which profiles without S and T, models
without a head, and PyTorch refuse."""
WHOLE = [name for name in pipesched.families() if name not in (*SLICED, *SPREAD)]

SMALL: dict[str, Any] = {
    "family": ["1f1b", "interleaved-1f1b", "dualpipe", "zb-h1"],
    "workers": [2, 4],
    "microbatches": [3, 8],
    "chunks": [1, 2],
    "times": ["F=1ms,I=1ms,W=1ms,comm=0.1ms"],
    "transport": ["overlap", "blocking"],
}

SIZES = [(1, 2), (2, 2), (2, 4), (3, 6), (4, 8)]


def schedules(family: str, transform: str | None) -> Iterator[Schedule]:
    """Schedules of a family of several sizes, after a pass. Leaves out sizes for which it has no
    rule, or at which a row exceeds the limit of an offload.
    """
    for workers, microbatches in SIZES:
        try:
            made = generate(family, workers=workers, microbatches=microbatches)
        except PipeSchedError:
            continue
        try:
            yield made.transform(transform) if transform else made
        except PipeSchedError:
            assert transform == "pipe-add-offload{memory=4}"


_VALUES = {
    name: st.sampled_from(get_args(hint))
    if get_args(hint)
    else st.booleans()
    if hint is bool
    else st.integers(0, 4)
    for name, hint in get_type_hints(FamilyOptions).items()
}


@st.composite
def configurations(draw: st.DrawFn) -> Configuration:
    """Draws one point; about half of the points have a schedule."""
    family = draw(st.sampled_from(list(pipesched.families().values())))
    options = draw(st.fixed_dictionaries({}, optional={o: _VALUES[o] for o in family.options}))
    return Configuration(
        family.name,
        workers=draw(st.integers(0, 6)),
        microbatches=draw(st.integers(0, 16)),
        options=options,  # type: ignore[arg-type]
        costs=draw(st.sampled_from([None, PROFILE, ROOFLINE])),
        transport=draw(st.sampled_from(get_args(Transport))),
        receive_placement=draw(st.sampled_from(get_args(ReceivePlacement))),
        forward_sends=draw(st.sampled_from(get_args(ForwardSends))),
        runtime=draw(st.sampled_from(get_args(Runtime))),
    )
