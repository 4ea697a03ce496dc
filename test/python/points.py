"""Random configurations: of all families, of any option, possible and impossible ones."""

from typing import get_args, get_type_hints

import pipesched
from hypothesis import strategies as st
from pipesched import Configuration, Costs, FamilyOptions
from pipesched._options import ForwardSends, ReceivePlacement, Transport

PROFILE = Costs(times={"F": "2us", "I": "3us", "W": "1us", "comm": "500ns", "send": "700ns"})
ROOFLINE = Costs(model="toy", system="toy", microbatch_size=1)

_VALUES = {
    name: st.sampled_from(get_args(hint)) if get_args(hint) else st.booleans()
    if hint is bool
    else st.integers(0, 4)
    for name, hint in get_type_hints(FamilyOptions).items()
}


@st.composite
def configurations(draw: st.DrawFn) -> Configuration:
    """One point; about half of them have a schedule."""
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
    )
