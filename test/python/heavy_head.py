"""A model whose head is as heavy as its vocabulary is large."""

import json
from pathlib import Path


def heavy_head(folder: Path, vocabulary: int) -> str:
    """The file of a model with 16 layers, in this folder."""
    fields = {
        "name": "spread",
        "aliases": [],
        "description": "a model",
        "hidden": 2048,
        "feedforward": 8192,
        "sequence": 2048,
        "layers": 16,
        "attention_heads": 16,
        "vocabulary": vocabulary,
        "activation": "gelu",
        "norm": "layer",
        "attention": "fused",
        "sources": {},
    }
    file = folder / "model.json"
    file.write_text(json.dumps(fields))
    return str(file)
