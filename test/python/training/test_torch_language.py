"""Language models of transformers as stages; language_cases.py trains them."""

from __future__ import annotations

import time
from typing import Any

import pytest
from case_runs import Cases, run_cases
from pipesched import generate

for _library in ("torch", "transformers"):
    pytest.importorskip(_library, reason=f"needs {_library}: pip install 'pipesched[test]'")

import torch  # noqa: E402
from language_cases import KINDS, language_model, words  # noqa: E402
from pipesched.torch import PipelineError, from_hugging_face, measure_layers  # noqa: E402
from torch import Tensor, nn  # noqa: E402

PRECISION = 1e-9
"""The largest error of losses, gradients and parameters in float64."""
TWO = generate("1f1b", workers=2, microbatches=2)
FOUR = generate("1f1b", workers=4, microbatches=4)


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> Cases:
    return run_cases(tmp_path_factory.mktemp("language"), "language_cases")


@pytest.mark.parametrize("name", ["language_models", "language_models_by_name"])
def test_trains_as_without_a_pipeline(cases: Any, name: str) -> None:
    for result in cases[name]:
        assert result["text"] == "", result["text"]
        assert len(result["value"]) >= 6
        assert max(result["value"].values()) <= PRECISION, result["value"]


def run(stages: Any, count: int, value: Any) -> Any:
    for number in range(count):
        stage = stages(0, number)
        value = stage(value)
    return value


@pytest.mark.parametrize("kind", KINDS)
def test_stages_have_what_is_theirs(kind: str) -> None:
    model = language_model(kind)
    before = {name: each.clone() for name, each in model.state_dict().items()}
    modes = [each.training for each in model.modules()]
    random = torch.get_rng_state()
    stages = from_hugging_face(model, FOUR)
    assert torch.equal(random, torch.get_rng_state())
    assert modes == [each.training for each in model.modules()]
    held = [[*stages(0, i).named_parameters(remove_duplicate=False)] for i in range(4)]
    names = [[stages(0, i).whole_name(name) for name, _ in own] for i, own in enumerate(held)]
    assert {name for own in names for name in own} == {
        name for name, _ in model.named_parameters(remove_duplicate=False)
    }
    inner = [name for own in names[1:3] for name in own]
    assert all(any(f".{n}." in name for n in (1, 2)) for name in inner), inner
    assert not set(names[0]) & set(names[3])
    x = words(0, 2)
    found = run(stages, 4, x).logits
    assert torch.equal(found, model(x, use_cache=False).logits)
    assert all(torch.equal(before[name], each) for name, each in model.state_dict().items())


def test_layers_are_divided_by_times() -> None:
    model = language_model("llama")
    times = measure_layers(model, words(0, 2), repeats=1)
    assert len(times) == 4 and min(times) > 0
    for options, last in (({"times": [9.0, 1, 1, 1]}, 1), ({"sizes": [3, 1]}, 3), ({}, 2)):
        given: Any = options
        stages = from_hugging_face(model, TWO, **given)
        names = [stages(0, 1).whole_name(name) for name in stages(0, 1).state_dict()]
        assert min(name.split(".")[2] for name in names if ".layers." in name) == str(last)


def test_a_model_without_memory_is_cut() -> None:
    """On the device `meta`, as large models are made before their weights are loaded."""
    with torch.device("meta"):
        model = language_model("llama", hidden_size=4096, intermediate_size=11008)
    begin = time.thread_time()
    stages = from_hugging_face(model, FOUR)
    assert time.thread_time() - begin < 1
    names = [[*stages(0, number).state_dict()] for number in range(4)]
    assert "0.model.embed_tokens.weight" in names[0] and "3.lm_head.weight" in names[3]
    assert len(names[1]) == len(names[2]) == 9


class Passing(nn.Module):
    """A model whose layers pass a second value on: to the layer after the next, or in an object."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind
        self.embed = nn.Embedding(40, 8)
        self.layers = nn.ModuleList([nn.Linear(8, 8) for _ in range(4)])

    def forward(self, input_ids: Any = None, inputs_embeds: Any = None) -> Tensor:
        hidden = self.embed(input_ids) if inputs_embeds is None else inputs_embeds
        first: Tensor = hidden
        if self.kind == "noise":
            return first
        for number, layer in enumerate(self.layers):
            before = hidden
            hidden = torch.tanh(layer(hidden)) if self.kind != "code" else layer(hidden)
            if number == 2 and self.kind == "skip":
                hidden = hidden + first
            if self.kind == "residual":
                hidden = hidden + before
        result: Tensor = hidden
        return result


def refused(model: nn.Module, text: str, **options: Any) -> None:
    begin = time.thread_time()
    with pytest.raises(PipelineError, match=text):
        from_hugging_face(model, TWO, **options)
    assert time.thread_time() - begin < 1


def test_layers_that_pass_more_on_are_refused() -> None:
    from_hugging_face(Passing("code"), TWO)
    for kind in ("skip", "residual", "tanh"):  # Code between layers runs in no part, or in two.
        refused(Passing(kind), "run layer by layer it gives something else")
    refused(Passing("noise"), "its forward does not run each layer of layers once and in order")


def test_what_is_no_such_model_is_refused() -> None:
    refused(nn.Linear(3, 3), "a Linear cannot be cut between layers: it has no ModuleList of any")
    refused(nn.Tanh(), "a Tanh cannot be cut between layers: it has no parameters")
    model = language_model("llama")
    refused(model, "`layers` names 'layers', which is no module; wanted a", layers="layers")
    refused(model, "`layers` names 'model', which is LlamaModel; wanted a", layers="model")
    with pytest.raises(PipelineError, match="the module has 4 layers, and the placement 8 blocks"):
        from_hugging_face(model, generate("1f1b", workers=8, microbatches=8))
    model.config.output_hidden_states = True
    refused(model, "its configuration says output_hidden_states, which a stage has of its own")
    model.config.output_hidden_states = False
    model.model.register_forward_hook(lambda *_: None)
    refused(model, "model has hooks, which would run in each stage")
    model = language_model("llama")
    model.model.forward = model.model.forward
    refused(model, "the forward of model has been replaced in the object")


def test_encoders_and_shared_layers_are_refused() -> None:
    from transformers import T5Config, T5ForConditionalGeneration

    small: dict[str, Any] = {"d_model": 8, "d_kv": 4, "d_ff": 8, "num_layers": 2, "num_heads": 2}
    refused(
        T5ForConditionalGeneration(T5Config(vocab_size=40, **small)),
        "it has an encoder and a decoder; wanted a causal language model",
    )
    own: dict[str, Any] = {
        "vocab_size_per_layer_input": 40,
        "hidden_size_per_layer_input": 4,
        "laurel_rank": 2,
    }
    model = language_model("gemma3n_text", **own, num_kv_shared_layers=2)
    refused(model, "what its layer 1 gets from others is more than a hidden state")


def test_towers_of_images_are_refused() -> None:
    """They have no place among stages, and batches with images would fail inside the model."""
    transformers = pytest.importorskip("transformers")
    text = {
        "hidden_size": 16,
        "intermediate_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "vocab_size": 50,
        "rope_scaling": {"mrope_section": [1, 1, 0], "rope_type": "default"},
    }
    tower = {"depth": 1, "hidden_size": 16, "intermediate_size": 32, "num_heads": 2}
    config = transformers.Qwen2_5_VLConfig(
        text_config=text, vision_config={**tower, "out_hidden_size": 16}
    )
    model = transformers.AutoModelForImageTextToText.from_config(config)
    wanted = r"it has 'model\.visual' \(.*\), which tokens do not run: towers of images or audio"
    with pytest.raises(PipelineError, match=wanted):
        from_hugging_face(model, TWO)
