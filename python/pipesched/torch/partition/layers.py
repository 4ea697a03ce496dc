"""Cutting a model between its layers, as causal language models of Hugging Face are built: code,
then a list of layers, then a norm and a head. Each part is the model itself with some modules
replaced, so that masks, position embeddings and keywords are made in each part by the model's
code.

    layers      0        1        2        3        4        5
    part 0    runs     stops                                        the embedding is here
    part 1    gives    runs     stops                               its input replaces the
                                                                    layers before
    part 2    gives    gives    runs                                the norm and the head are here

A layer after a part ends its forward; a layer before it returns the part's input. Whether only the
hidden state passes between layers is tried once, with one part for each layer.
"""

from __future__ import annotations

import copy
import inspect
import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from pipesched import Schedule

from ..core.errors import PipelineError
from ..core.random import RandomState
from ..core.values import Arguments, in_mode, tensors_in
from .cut import CutStages, Taking
from .split import HOOKS, SequentialStages, measure_children, sizes_of

TOKENS = 4
"""The size of the input that tests whether a model can be cut."""
EMBEDDINGS = "inputs_embeds"
WIDER = ("output_router_logits", "output_hidden_states", "output_attentions")
"""Options of a configuration that return values of all layers, which no part has."""


class _Done(Exception):
    """The forward of a part has reached a later layer."""

    def __init__(self, hidden: Any) -> None:
        super().__init__()
        self.hidden = hidden


class _Given:
    """The hidden state that a part has got, while it runs."""

    hidden: Any = None


def _hidden_of(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Returns the hidden state among the arguments of a layer: the first one."""
    return args[0] if args else next(iter(kwargs.values()), None)


class _Elsewhere(nn.Module):
    """Replaces a layer of another part. It has the layer's numbers and words (`layer_type`)."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        for name, value in vars(layer).items():
            if isinstance(value, (bool, int, float, str)) and name not in vars(self):
                setattr(self, name, value)


class _Before(_Elsewhere):
    def __init__(self, layer: nn.Module, given: _Given, length: int | None) -> None:
        super().__init__(layer)
        self.given, self.length = given, length

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        hidden = self.given.hidden
        return hidden if self.length is None else (hidden, *[None] * (self.length - 1))


class _Behind(_Elsewhere):
    def forward(self, *args: Any, **kwargs: Any) -> Any:
        raise _Done(_hidden_of(args, kwargs))


def _edge(layer: nn.Module, given: _Given | None, ends: bool) -> nn.Module:
    """Returns a layer that takes the given input, and with `ends` stops the forward after it."""
    kind: Any = type(layer)

    class Edge(kind):  # type: ignore[misc]
        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            if given is not None and args:
                args = (given.hidden, *args[1:])
            elif given is not None:
                kwargs[next(iter(kwargs))] = given.hidden
            output = super().__call__(*args, **kwargs)
            if ends:
                raise _Done(output[0] if isinstance(output, (tuple, list)) else output)
            return output

    twin = _twin(layer)
    twin.__class__ = Edge
    return twin


class _NoEmbedding(nn.Module):
    """Replaces an embedding of the first part, whose result nothing uses in the others."""

    def __init__(self, like: nn.Embedding) -> None:
        super().__init__()
        self.width = like.embedding_dim
        self.dtype = like.weight.dtype

    def forward(self, numbers: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        zero = torch.zeros((), dtype=self.dtype, device=numbers.device)
        return zero.expand(*numbers.shape, self.width)


class _Nothing(nn.Module):
    """Replaces another module of the first or last part."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return _hidden_of(args, kwargs)


@dataclass
class _Plan:
    """The structure of a model, as its forward has shown."""

    model: nn.Module
    layers: str
    """The name of the list of layers."""
    lengths: list[int | None] = field(default_factory=list)
    """For the tuple that each layer returns; None for a tensor."""
    first: set[str] = field(default_factory=set)
    """The modules with parameters, other than layers, that run before the layers, or never."""
    last: set[str] = field(default_factory=set)
    """Modules that run after them."""

    @property
    def count(self) -> int:
        return len(self.lengths)

    def outer(self) -> list[str]:
        """Returns the names of the modules around the layers."""
        parts = self.layers.split(".")
        return [".".join(parts[:end]) for end in range(len(parts))]


class LayersPart(nn.Module):
    """Some layers of a model under its names; the ends have the embedding, or norm and head."""

    def __init__(self, plan: _Plan, begin: int, end: int, is_first: bool, is_last: bool) -> None:
        super().__init__()
        self._is_first, self._is_last = is_first, is_last
        self._is_empty = begin == end and not (is_first or is_last)
        self._given = _Given()
        known = dict(plan.model.named_modules())
        given = {name: known[name] for name in (*plan.outer(), plan.layers)}
        twins = {name: _twin(module) for name, module in given.items()}
        for number, layer in enumerate(list(given[plan.layers].children())):
            replaced: nn.Module | None = None
            starts, ends = number == 0 and not is_first, number == plan.count - 1 and not is_last
            if number < begin:
                replaced = _Before(layer, self._given, plan.lengths[number])
            elif number >= end:
                replaced = _Behind(layer)
            elif starts or ends:
                replaced = _edge(layer, self._given if starts else None, ends)
            if replaced is not None:
                twins[plan.layers]._modules[str(number)] = replaced
        for name, twin in twins.items():
            if name:
                outer, _, own = name.rpartition(".")
                twins[outer]._modules[own] = twin
        for name in plan.first | plan.last:
            if not ((is_first and name in plan.first) or (is_last and name in plan.last)):
                outer, _, own = name.rpartition(".")
                twins[outer]._modules[own] = (
                    _NoEmbedding(known[name])
                    if isinstance(known[name], nn.Embedding)
                    else _Nothing()
                )
        # Not registered as a child under another name: parameters keep the model's names.
        self._modules.update(twins[""]._modules)
        self._parameters.update(twins[""]._parameters)
        self._buffers.update(twins[""]._buffers)
        self._non_persistent_buffers_set |= twins[""]._non_persistent_buffers_set
        twins[""]._modules, twins[""]._parameters = self._modules, self._parameters
        twins[""]._buffers = self._buffers
        self.__dict__["_model"] = twins[""]

    def train(self, mode: bool = True) -> LayersPart:
        self.__dict__["_model"].training = mode
        return super().train(mode)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        model: nn.Module = self.__dict__["_model"]
        if self._is_empty:
            return args
        if self._is_first:
            rest = _by_name(model, args, kwargs)
            given = rest
            rest = {
                name: value for name, value in rest.items() if name not in ("input_ids", EMBEDDINGS)
            }
        else:
            self._given.hidden, rest = args
            given = {**rest, EMBEDDINGS: self._given.hidden.detach()}
        try:
            output = _run(model, given)
        except _Done as done:
            return done.hidden, rest
        finally:
            self._given.hidden = None
        if not self._is_last:
            raise PipelineError("the forward of the model did not come to the layers of all stages")
        return output


def _twin(module: nn.Module) -> nn.Module:
    """Returns a copy that shares all that the module holds, and whose children can be replaced."""
    twin = copy.copy(module)
    for name in ("_modules", "_parameters", "_buffers"):
        setattr(twin, name, dict(getattr(module, name)))
    return twin


def _by_name(model: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    names = list(inspect.signature(model.forward).parameters)
    if len(args) == 1 and isinstance(args[0], dict) and not kwargs:
        return dict(args[0])
    if len(args) > len(names):
        raise PipelineError(f"a batch gives {len(args)} values; the forward has {len(names)}")
    return {**dict(zip(names, args, strict=False)), **kwargs}


def _run(model: nn.Module, given: Mapping[str, Any]) -> Any:
    """Runs a forward that keeps no keys and values for tokens to come."""
    parameters = inspect.signature(model.forward).parameters.values()
    takes = any(each.name == "use_cache" or each.kind == each.VAR_KEYWORD for each in parameters)
    return model.forward(**{**given, **({"use_cache": False} if takes else {})})


# Parts of a model


def _refuse(model: nn.Module, why: str) -> PipelineError:
    return PipelineError(f"a {type(model).__name__} cannot be cut between layers: {why}")


def _count_wanted(model: nn.Module) -> int | None:
    config: Any = getattr(model, "config", None)
    if config is None:
        return None
    if getattr(config, "is_encoder_decoder", False):
        raise _refuse(
            model, "it has an encoder and a decoder; wanted a causal language model, or layers="
        )
    for name in WIDER:
        if getattr(config, name, False):
            raise _refuse(
                model,
                f"its configuration says {name}, which a stage has of its own layers alone; set "
                "it to False",
            )
    text = config.get_text_config() if hasattr(config, "get_text_config") else config
    count = getattr(text, "num_hidden_layers", None)
    return count if isinstance(count, int) else None


def _candidates(model: nn.Module, layers: str | None) -> list[str]:
    known = dict(model.named_modules())
    if layers is not None:
        if not isinstance(known.get(layers), nn.ModuleList):
            kind = type(known[layers]).__name__ if layers in known else "no module"
            raise _refuse(model, f"`layers` names {layers!r}, which is {kind}; wanted a ModuleList")
        return [layers]
    count = _count_wanted(model)
    found = [
        name
        for name, module in known.items()
        if isinstance(module, nn.ModuleList) and (count is None or len(module) == count)
    ]
    if not found:
        raise _refuse(
            model,
            f"it has no ModuleList of {'any' if count is None else count} layers; name its list "
            "with layers=",
        )
    return found


@contextmanager
def trying(model: nn.Module) -> Iterator[None]:
    """Runs the trial in evaluation mode, without gradients, and leaves the model as it was."""
    tensor = next(itertools.chain(model.parameters(), model.buffers()), None)
    random = RandomState(torch.device("cpu") if tensor is None else tensor.device)
    try:
        with in_mode(model.modules(), is_training=False), torch.no_grad(), ExitStack() as stack:
            if tensor is not None and tensor.is_meta:
                # Code of models asks for values unless it is traced, which such tensors imitate.
                stack.enter_context(FakeTensorMode(allow_non_fake_inputs=True))
            yield
    finally:
        random.restore()


def _example(model: nn.Module) -> dict[str, Tensor]:
    device = next(model.parameters()).device
    return {"input_ids": torch.arange(1, TOKENS + 1, device=device).unsqueeze(0)}


class _Watch:
    """Notes the calls of a forward: the modules, their order, and the results of layers."""

    def __init__(self, model: nn.Module) -> None:
        self.calls: list[str] = []
        self.returned: dict[str, Any] = {}
        self._names = {id(module): name for name, module in model.named_modules()}

    def before(self, module: nn.Module, *_: Any) -> None:
        self.calls.append(self._names[id(module)])

    def behind(self, module: nn.Module, _: Any, output: Any) -> None:
        self.returned[self._names[id(module)]] = (
            len(output) if isinstance(output, (tuple, list)) else None
        )


def _watch_forward(model: nn.Module, example: Mapping[str, Any]) -> _Watch:
    watch = _Watch(model)
    with ExitStack() as stack:
        for module in model.modules():
            for handle in (
                module.register_forward_pre_hook(watch.before),
                module.register_forward_hook(watch.behind),
            ):
                stack.callback(handle.remove)
        try:
            _run(model, example)
        except Exception as error:
            said = str(error).strip().splitlines()
            raise _refuse(
                model,
                f"its forward of {TOKENS} tokens raised {type(error).__name__}: "
                f"{said[0] if said else ''}",
            ) from error
    return watch


def _plan(model: nn.Module, layers: str | None, example: Mapping[str, Any]) -> _Plan:
    names = _candidates(model, layers)
    watch = _watch_forward(model, example)
    known: dict[str, Any] = dict(model.named_modules())
    run = [
        name
        for name in names
        if [call for call in watch.calls if call.rpartition(".")[0] == name]
        == [f"{name}.{number}" for number in range(len(known[name]))]
    ]
    run = [name for name in run if not any(name.startswith(f"{outer}.") for outer in run)]
    if not run:
        raise _refuse(
            model, f"its forward does not run each layer of {', '.join(names)} once and in order"
        )
    if len(run) > 1:
        raise _refuse(
            model, f"it runs several lists of layers, {', '.join(run)}; name one with layers="
        )
    plan = _Plan(model, run[0])
    plan.lengths = [watch.returned[f"{run[0]}.{n}"] for n in range(len(known[run[0]]))]
    for name in plan.outer():
        if "forward" in vars(known[name]):
            raise _refuse(
                model, f"the forward of {name or 'the model'} has been replaced in the object"
            )
        if any(getattr(known[name], hooks, None) for hooks in HOOKS):
            raise _refuse(
                model,
                f"{name or 'the model'} has hooks, which would run in each stage; put them on "
                "modules that are not cut",
            )
    _place_others(plan, known, watch)
    return plan


def _place_others(plan: _Plan, known: Mapping[str, nn.Module], watch: _Watch) -> None:
    """Finds whether modules with parameters outside of the layers run before or after them. Refuses
    towers of images or audio, which tokens do not run.
    """
    start = watch.calls.index(f"{plan.layers}.0")
    around = {*plan.outer(), plan.layers}
    towers = []
    for outer in plan.outer():
        for own, child in known[outer].named_children():
            name = f"{outer}.{own}" if outer else own
            if name in around or next(child.parameters(), None) is None:
                continue
            calls = [
                place
                for place, call in enumerate(watch.calls)
                if call == name or call.startswith(f"{name}.")
            ]
            if not calls or calls[0] < start:
                plan.first.add(name)
            if calls and calls[-1] > start:
                plan.last.add(name)
            if not calls:
                towers.append(f"{name!r} ({type(child).__name__})")
    if towers and _is_of_several(plan.model):
        raise _refuse(
            plan.model,
            f"it has {' and '.join(towers)}, which tokens do not run: towers of images or audio "
            "are not cut; wanted a causal language model",
        )


def _is_of_several(model: nn.Module) -> bool:
    config: Any = getattr(model, "config", None)
    return hasattr(config, "get_text_config") and config.get_text_config() is not config


def _cut(plan: _Plan, sizes: Sequence[int]) -> list[nn.Module]:
    ends = list(itertools.accumulate(sizes))
    last = len(ends) - 1
    return [
        LayersPart(plan, end - size, end, number == 0, number == last)
        for number, (size, end) in enumerate(zip(sizes, ends, strict=True))
    ]


def _check(plan: _Plan, example: Mapping[str, Any]) -> None:
    """Refuses a model that its parts would not be, by one part for each layer."""
    wanted = _run(plan.model, example)
    value: Any = (example,)
    for number, part in enumerate(_cut(plan, [1] * plan.count)):
        try:
            value = part(*value)
        except Exception as error:
            said = str(error).strip().splitlines()
            raise _refuse(
                plan.model,
                f"what its layer {number} gets from others is more than a hidden state "
                f"({type(error).__name__}: {said[0] if said else ''})",
            ) from error
    pairs = list(zip(tensors_in(value), tensors_in(wanted), strict=False))
    for found, like in pairs:
        exact = isinstance(found, FakeTensor) or torch.equal(found, like)
        if found.shape != like.shape or not (exact or _near(found, like)):
            raise _refuse(
                plan.model,
                "run layer by layer it gives something else, so that more than the hidden state "
                f"passes between its layers ({plan.layers})",
            )
    if not pairs:
        raise _refuse(plan.model, "its forward returns no tensor")


def _near(found: Tensor, like: Tensor) -> bool:
    if not found.is_floating_point():
        return False
    limit = 100 * torch.finfo(found.dtype).eps
    return torch.allclose(found, like, rtol=limit, atol=limit * float(like.abs().max()))


def _make_plan(model: nn.Module, layers: str | None) -> _Plan:
    if next(model.parameters(), None) is None:
        raise _refuse(model, "it has no parameters")
    with trying(model):
        example = _example(model)
        plan = _plan(model, layers, example)
        _check(plan, example)
    return plan


def measure_layers(
    model: nn.Module,
    example: Any,
    *,
    layers: str | None = None,
    repeats: int = 5,
    group: dist.ProcessGroup | None = None,
) -> list[float]:
    """Returns the seconds that each layer takes for a forward and a backward, for
    `from_hugging_face`: the first with the embedding, the last with the norm and the head. See
    `measure_children` for `repeats` and `group`.
    """
    plan = _make_plan(model, layers)
    parts = [Taking(part) for part in _cut(plan, [1] * plan.count)]
    if isinstance(example, Arguments):
        example = {**_by_name(model, example.args, example.kwargs)}
    return measure_children(nn.Sequential(*parts), example, repeats=repeats, group=group)


def from_hugging_face(
    model: nn.Module,
    schedule: Schedule,
    *,
    sizes: Sequence[int] | None = None,
    times: Sequence[float] | None = None,
    layers: str | None = None,
) -> SequentialStages:
    """Returns the stages of a schedule, as a function of (path, stage), from a causal language
    model of Hugging Face's transformers, or from any module with the same structure.

    sizes: the number of layers, also 0, of each of the `schedule.blocks` blocks. times: the same by
    the times of the layers (`measure_layers`), as in `split_sequential`. By default the numbers of
    layers are as equal as possible. layers: the name of the list of layers ("model.layers"); by
    default the list with as many modules as the configuration says.

    The first block has the embedding, the last one the norm and the head. They take and return the
    same values as the model: tokens, a tuple, a dict or `Arguments`, with masks, positions and
    labels. Parts share the modules of the model under the same names; parameters that several parts
    use are tied. No keys and values are cached. A model whose layers pass on more than a hidden
    state is refused, by a try with a few tokens.
    """
    plan = _make_plan(model, layers)
    chosen = sizes_of(plan.count, schedule.blocks, sizes, times, ("layer", "layers"))
    return CutStages(_cut(plan, chosen), schedule, [1] * len(chosen))
