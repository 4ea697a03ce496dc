"""How plans and proposals look: in an interpreter, in a terminal and in a notebook."""

from html.parser import HTMLParser
from typing import Any

import pipesched
import pytest
from pipesched import Plan, plan
from pipesched.planning.explain import tables

SMALL: dict[str, Any] = {"gpus": 16, "global_batch": 32, "top": 3, "pp": [2, 4]}


@pytest.fixture(scope="module")
def made() -> Plan:
    return plan("llama3-8b", "dgx-h100", **SMALL, misses=2)


class Tags(HTMLParser):
    """The tags of a page, which have to be closed in order, and its texts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.count: dict[str, int] = {}
        self.texts: list[str] = []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.open.append(tag)
        self.count[tag] = self.count.get(tag, 0) + 1

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_one_line(made: Plan) -> None:
    best = made.fitting[0]
    assert "\n" not in repr(made) and len(repr(made)) < 400
    assert repr(made).startswith("<plan of llama3-8b on 16 accelerators of dgx-h100, 32 sequences")
    assert best.expected_s != best.step_s
    assert f"3 fit, the best takes {best.expected_s:.4g} s" in repr(made)
    assert repr(best).startswith(f"<proposal {best.name}: {best.expected_s:.4g} s, ")
    assert "\n" not in repr(best) and best.schedule in repr(best)
    for missing in made.missing:
        assert "too much" in repr(missing)


def test_text(made: Plan) -> None:
    lines = str(made).splitlines()
    for proposal in made.proposals:
        (row,) = (line for line in lines if line.startswith(f"{proposal.name} "))
        assert f"{proposal.expected_s:.4g} s" in row
    assert [line[2:] for line in lines if line.startswith("- ")] == made.why()
    best = made.fitting[0]
    assert [line[2:] for line in str(best).splitlines()[1:]] == best.why()[1:]
    heads = lines[1]
    ends = heads.index("step") + len("step")
    assert all(line[:ends].endswith(" s") for line in lines[2 : 2 + len(made.proposals)])


def test_notebook(made: Plan) -> None:
    found = Tags(made._repr_html_())
    assert found.count["tr"] == 1 + len(made.proposals)
    assert found.count["li"] == len(made.why())
    assert "".join(found.texts).count(made.fitting[0].name) >= 1
    assert made._repr_html_().count("opacity") == len(made.missing)
    alone = Tags(made.fitting[0]._repr_html_())
    assert alone.count["tr"] == 2 and alone.count["svg"] == 1


def test_large_timelines_are_left_out(made: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "MOST_CELLS", 10)
    assert "svg" not in Tags(made.fitting[0]._repr_html_()).count


def test_names_are_escaped() -> None:
    fields: dict[str, Any] = dict(pipesched.models()["llama3-8b"])
    fields["name"] = "<b>&\u202e\x1b"
    odd = plan(fields, "dgx-h100", **SMALL)
    assert "<b>" not in odd._repr_html_() and "&lt;b&gt;&amp;" in odd._repr_html_()
    for text in (repr(odd), str(odd), odd._repr_html_()):
        assert "\u202e" not in text and "\x1b" not in text
        assert "\\u202e" in text


def test_nothing_fits() -> None:
    none = plan("llama3-70b", "dgx-h100", gpus=8, global_batch=8, tp=[8])
    assert not none.fitting and "nothing fits, the nearest lacks" in repr(none)
    assert "missing/GPU" in str(none) and Tags(none._repr_html_()).count["tr"] > 1


def test_without_a_model() -> None:
    times = {"F": "11ms", "B": "22ms", "layers": 32}
    given: dict[str, Any] = {"times": times, "tensor": [1], "microbatch_size": [1]}
    own = plan(None, "dgx-h100", gpus=8, global_batch=16, memory="80GB", top=2, **given)
    assert repr(own).startswith("<plan of times of layers on 8 accelerators of dgx-h100")
    assert "memory/GPU" not in str(own) and "MFU" not in str(own)
    assert "GiB" not in repr(own.fitting[0])
    Tags(own.fitting[0]._repr_html_())
