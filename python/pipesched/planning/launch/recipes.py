"""Reads recipes of launchers: shell scripts, TOML of torchtitan, YAML of Primus, NeMo and
Megatron-Bridge. All become values by one name for each setting.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import Any

from ...costs.catalogue import models
from ...costs.frameworks import LauncherName
from ...errors import PipeSchedError
from ...support.text import closest, truth
from .shell import flags_of, mark, reason_of

SETTINGS: dict[LauncherName, dict[str, tuple[str, ...]]] = {
    "megatron": {
        "tensor": ("tensor_model_parallel_size",),
        "pipeline": ("pipeline_model_parallel_size",),
        "context": ("context_parallel_size",),
        "expert": ("expert_model_parallel_size",),
        "expert_tensor": ("expert_tensor_parallel_size",),
        "groups": ("num_distributed_optimizer_instances",),
        "sequence_parallel": ("sequence_parallel",),
        "chunks": ("num_virtual_stages_per_pipeline_rank", "virtual_pipeline_model_parallel_size"),
        "chunk_layers": ("num_layers_per_virtual_pipeline_stage",),
        "group": (
            "microbatch_group_size_per_virtual_pipeline_stage",
            "microbatch_group_size_per_vp_stage",
        ),
        "layout": ("pipeline_model_parallel_layout",),
        "first_layers": ("decoder_first_pipeline_num_layers", "num_layers_in_first_pipeline_stage"),
        "last_layers": ("decoder_last_pipeline_num_layers", "num_layers_in_last_pipeline_stage"),
        "first_less": ("account_for_embedding_in_pipeline_split",),
        "last_less": ("account_for_loss_in_pipeline_split",),
        "microbatch_size": ("micro_batch_size",),
        "global_batch": ("global_batch_size",),
        "sequence": ("seq_length", "sequence_length"),
        "recompute": ("recompute_granularity",),
        "distributed": ("use_distributed_optimizer",),
        "fsdp": ("use_megatron_fsdp",),
        "fp8": ("fp8_format", "fp8"),
        "nvfp4": ("fp4_format", "fp4"),
        "rampup": ("rampup_batch_size",),
        "adapters": ("peft", "peft_scheme", "lora_rank"),
        "nodes": ("nnodes", "num_nodes"),
        "per_node": ("nproc_per_node", "devices", "gpus_per_node"),
        "layers": ("num_layers",),
        "hidden": ("hidden_size",),
        "attention_heads": ("num_attention_heads",),
        "named": ("_target_",),
    },
    "torchtitan": {
        "tensor": ("parallelism.tensor_parallel_degree",),
        "pipeline": ("parallelism.pipeline_parallel_degree",),
        "context": ("parallelism.context_parallel_degree",),
        "expert": ("parallelism.expert_parallel_degree",),
        "expert_tensor": ("parallelism.expert_tensor_parallel_degree",),
        "schedule": ("parallelism.pipeline_parallel_schedule",),
        "csv": ("parallelism.pipeline_parallel_schedule_csv",),
        "chunk_layers": ("parallelism.pipeline_parallel_layers_per_stage",),
        "first_less": ("parallelism.pipeline_parallel_first_stage_less_layers",),
        "last_less": ("parallelism.pipeline_parallel_last_stage_less_layers",),
        "microbatch_size": ("parallelism.pipeline_parallel_microbatch_size",),
        "groups": ("parallelism.data_parallel_replicate_degree",),
        "global_batch": ("training.global_batch_size",),
        "local_batch": ("training.local_batch_size",),
        "sequence": ("training.seq_len",),
        "recompute": ("activation_checkpoint.mode",),
        "named": ("model.name", "model.flavor", "module", "config"),
        "nodes": ("nnodes",),
        "per_node": ("nproc_per_node",),
    },
}
"""The settings with their names in each framework. NeMo, Primus and Megatron-Bridge use the names
of Megatron-LM.
"""

_MATTERS = re.compile(
    r"parallel|pipeline|virtual|micro_?batch|recompute|offload|fsdp|zero_bubble|pp_algorithm|mtp"
    r"|vpp|module_fqns|stage"
)
_HARMLESS = re.compile(r"reshard|timeout|backend|data_parallel_shard|context_parallel_rotate")
_NONE = ("", "none", "null", "~", "false")
_INCLUDES = ("bases", "extends", "includes")
MOST_FILES, MOST_VALUES = 32, 20_000


@dataclass
class Recipe:
    """The values of a recipe by the names of settings."""

    file: str
    launcher: LauncherName = "megatron"
    values: dict[str, tuple[Any, str, str]] = field(default_factory=dict)
    """For each setting its value, its place and its name in the recipe."""
    unknown: list[str] = field(default_factory=list)
    """Names in the recipe that may change the answer and are not read."""
    notes: list[str] = field(default_factory=list)
    named: list[str] = field(default_factory=list)
    """Texts that may have the name of the model."""

    def wrong(self, name: str, wanted: str) -> PipeSchedError:
        """The error that a setting has a wrong value."""
        value, place, key = self.values[name]
        return PipeSchedError(f"{place}: {key}: expected {wanted}, found {str(value)!r}")

    def text(self, name: str) -> str | None:
        """The value as text; None if it is not given. Raises an error if its value is not known."""
        value = str(self.values.get(name, ("",))[0])
        if why := reason_of(value):
            raise PipeSchedError(f"{self.values[name][2]}: {why}")
        return None if value.strip().casefold() in _NONE else value

    def number(self, name: str, default: int) -> int:
        """The value as a positive integer."""
        found = self.text(name)
        if found is not None and not re.fullmatch(r"[1-9]\d{0,8}", found):
            raise self.wrong(name, "a positive integer")
        return default if found is None else int(found)

    def flag(self, name: str) -> bool:
        """The value as a truth; false if it is not given."""
        found = self.text(name)
        try:
            return found is not None and truth(found)
        except ValueError:
            raise self.wrong(name, "true or false") from None

    @property
    def model(self) -> str | None:
        """The model that ships and that the recipe names, such as `llama3.1_405B`."""
        plain = [_plain(text) for text in (" ".join(self.named), FilePath(self.file).stem)]
        found = (name for text in plain for name in models() if _plain(name) in text)
        return next(found, None)

    def put(self, found: Iterable[tuple[str, Any]], place: str) -> None:
        """Stores values by the names of settings; keeps the relevant names of others."""
        is_dotted = self.launcher == "torchtitan"
        table = SETTINGS[self.launcher]
        names = {key: setting for setting, keys in table.items() for key in keys}
        for count, (path, value) in enumerate(found):
            if count > MOST_VALUES:
                raise PipeSchedError(f"{place}: more than {MOST_VALUES:,} values")
            path = path.replace("-", "_")
            key = path if is_dotted else path.rpartition(".")[2]
            setting = names.get(key)
            old, _, other = self.values.get(setting or "", ("", "", ""))
            if setting == "named":
                self.named.append(str(value))
            elif setting and "." in path and "." in other and not is_dotted and old != value:
                self.notes.append(f"{other} is {old} and {path} is {value}: the first counts")
            elif setting:
                self.values[setting] = value, place, path
            elif _MATTERS.search(key) and not _HARMLESS.search(key):
                if str(value).strip().casefold() not in (*_NONE, "1", "0"):
                    self.unknown.append(f"{path}{closest(key, list(names))}")


def _plain(name: str) -> str:
    """A name without its version and signs.

    >>> _plain("llama3.1_405B"), _plain("Llama31Config405B"), _plain("deepseek_v3")
    ('llama3405b', 'llama3405b', 'deepseekv3')
    """
    name = re.sub(r"(llama)[_-]?3[._]?[1-3](?!\d*b)", r"\g<1>3", name.casefold())
    return re.sub(r"[^a-z0-9]|config", "", name)


def _flatten(value: Any, prefix: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    """The plain values in nested fields with their paths; a list becomes its words."""
    if isinstance(value, Mapping) and depth < 20:
        for name, each in value.items():
            yield from _flatten(each, f"{prefix}{name}.", depth + 1)
    elif isinstance(value, list) and not any(isinstance(each, (dict, list)) for each in value):
        yield prefix[:-1], " ".join(map(str, value))
    elif not isinstance(value, (Mapping, list)):
        yield prefix[:-1], value


# Files


def _read(path: FilePath) -> str:
    try:
        return path.read_text(encoding="utf-8-sig").replace("\x00", "")
    except UnicodeDecodeError:
        raise PipeSchedError(f"{path} is not a text in UTF-8") from None
    except OSError as error:
        raise PipeSchedError(f"{path}: {error.strerror}") from None


def _parse_yaml(path: FilePath) -> Any:
    text = _read(path)
    try:
        import yaml
    except ImportError:
        raise PipeSchedError(f"{path} is YAML: pip install pyyaml reads it") from None

    class Loader(yaml.SafeLoader):  # type: ignore[misc]
        """Reads the fields of objects of Python without their classes."""

    def plain(loader: Any, _: str, node: Any) -> Any:
        if isinstance(node, yaml.MappingNode):
            return loader.construct_mapping(node, deep=True)
        if isinstance(node, yaml.SequenceNode):
            return loader.construct_sequence(node, deep=True)
        return loader.construct_scalar(node)

    Loader.add_multi_constructor("", plain)
    try:
        return yaml.load(text, Loader)
    except (yaml.YAMLError, RecursionError, ValueError, TypeError) as error:
        raise PipeSchedError(f"{path} is not YAML: {' '.join(str(error).split())}") from None


def _fill(value: Any, file: FilePath) -> Any:
    """The value with `${NAME:default}` replaced by the environment or the default."""
    if isinstance(value, Mapping):
        return {name: _fill(each, file) for name, each in value.items()}

    def get(found: re.Match[str]) -> str:
        name, colon, default = found[1].partition(":")
        lacking = mark(f"{file}: ${{{name}}} has no value and no default; set it before")
        return os.environ.get(name, default.removeprefix("-") if colon else lacking)

    return re.sub(r"\$\{([^{}]+)\}", get, value) if isinstance(value, str) else value


def _find(name: str, folder: FilePath, kind: str) -> FilePath | None:
    """The file of an include: in the same folder, or in the configurations of Primus above it."""
    roots = folder.resolve(), *folder.resolve().parents
    above = [root / "primus/configs" / kind for root in roots]
    folders = [folder, *(each / part for each in above for part in ("megatron", "."))]
    return next((each / name for each in folders if (each / name).is_file()), None)


def _load(path: FilePath, kind: str, above: tuple[FilePath, ...] = ()) -> dict[str, Any]:
    """The fields of a file and of the files that it includes, whose values it overrides."""
    if path.resolve() in above or len(above) > MOST_FILES:
        chain = " -> ".join(each.name for each in (*above, path))
        raise PipeSchedError(f"{path}: files include each other: {chain}")
    fields = _fill(_parse_yaml(path), path)
    if not isinstance(fields, Mapping):
        raise PipeSchedError(f"{path}: expected names with values")
    found: dict[str, Any] = {}
    for word in _INCLUDES:
        given = fields.get(word) or []
        for name in [given] if isinstance(given, str) else given:
            other = _find(str(name), path.parent, kind)
            if other is None:
                raise PipeSchedError(f"{path}: {word} names {name}, which is not found")
            found |= _load(other, kind, (*above, path.resolve()))
    return found | {name: value for name, value in fields.items() if name not in _INCLUDES}


def _read_yaml(recipe: Recipe, path: FilePath) -> None:
    """Reads a dump, or the training of Primus: its configuration, its model, its overrides."""
    fields = _load(path, "modules")
    modules = fields.get("modules")
    listed = modules.values() if isinstance(modules, Mapping) else ()
    trainer = next((m for m in listed if isinstance(m, Mapping) and "framework" in m), None)
    if trainer is None:
        recipe.put(_flatten(fields), str(path))
        return
    framework = trainer["framework"]
    if framework not in SETTINGS:
        known = " or ".join(SETTINGS)
        raise PipeSchedError(f"{path}: framework: expected {known}, found {framework!r}")
    recipe.launcher = framework
    for kind, word in (("modules", "config"), ("models", "model")):
        if (name := trainer.get(word)) is None:
            continue
        if file := _find(str(name), path.parent, kind):
            recipe.put(_flatten(_load(file, kind)), str(file))
        else:
            recipe.notes.append(f"{word} {name} is not found")
        recipe.named += [FilePath(str(name)).stem] if word == "model" else []
    recipe.put(_flatten(trainer.get("overrides") or {}), str(path))


def _read_toml(recipe: Recipe, path: FilePath) -> None:
    import tomllib

    recipe.launcher = "torchtitan"
    try:
        fields = tomllib.loads(_read(path))
    except tomllib.TOMLDecodeError as error:
        raise PipeSchedError(f"{path} is not TOML: {error}") from None
    recipe.put(_flatten(fields), str(path))


def _read_shell(recipe: Recipe, path: FilePath) -> None:
    flags = flags_of(_read(path), str(path))
    if any(re.match(r"(parallelism|training|job)\.", name) for name in flags):
        recipe.launcher = "torchtitan"
    if toml := flags.get("job.config_file") or flags.get("job.config-file"):
        if why := reason_of(toml[0]):
            raise PipeSchedError(f"job.config_file: {why}")
        _read_toml(recipe, path.parent / toml[0])
    for name, (value, line) in flags.items():
        recipe.put([(name, value)], f"{path}:{line}")


def read_recipe(file: str) -> Recipe:
    """Reads a recipe by the ending of its name; any other than YAML and TOML is a shell script."""
    path, recipe = FilePath(file), Recipe(file)
    if path.suffix == ".py":
        raise PipeSchedError(f"{file}: recipes in Python are not read; give the YAML they dump")
    kinds = {".yaml": _read_yaml, ".yml": _read_yaml, ".toml": _read_toml}
    kinds.get(path.suffix, _read_shell)(recipe, path)
    if not recipe.values:
        known = SETTINGS[recipe.launcher]["pipeline"][0]
        raise PipeSchedError(f"{file} has no setting that is known, such as {known}")
    return recipe
