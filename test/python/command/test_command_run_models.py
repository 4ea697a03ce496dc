"""`pipesched run` on models of transformers, which need no `cuts`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from test_command_run import SIZES, finish, losses_alone, marked

for _library in ("torch", "transformers"):
    pytest.importorskip(_library, reason=f"needs {_library}: pip install 'pipesched[test]'")

__all__ = ["marked"]

BATCHES = """

def batches(size, seed):
    chance = torch.Generator().manual_seed(seed)
    while True:
        words = torch.randint(1, 30, (size, 6), generator=chance)
        yield words, words
"""
LANGUAGE = """
import torch
from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel
from transformers.utils import logging

logging.set_verbosity_error()

def model():
    sizes = dict(vocab_size=30, n_positions=8, n_embd=8, n_layer=4, n_head=2)
    return GPT2LMHeadModel(GPT2Config(**sizes, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0))

def loss(output, target):
    return nn.functional.cross_entropy(output.logits[:, :-1].flatten(0, 1), target[:, 1:].flatten())
"""


@pytest.mark.parametrize("divide", ["even", "measured"])
def test_trains(divide: str, tmp_path: Path, marked: dict[str, str]) -> None:
    """With the parameters of the embedding in the head, on another rank."""
    file = tmp_path / "own.py"
    file.write_text(LANGUAGE + BATCHES)
    line = f"--schedules zb-v,1f1b {file} {SIZES} --dtype float64 --divide {divide}"
    out, _ = finish(f"{line} --seed 3 --lr 0.01 --format json", marked)
    wanted = losses_alone(LANGUAGE + BATCHES)
    for row in json.loads(out):
        assert row["losses"] == pytest.approx(wanted, rel=1e-9)


def test_what_cannot_be_cut_is_said(tmp_path: Path, marked: dict[str, str]) -> None:
    file = tmp_path / "own.py"
    said = "logging.set_verbosity_error()"
    wider = "GPT2Config.output_attentions = True"
    file.write_text(LANGUAGE.replace(said, f"{said}\n{wider}") + BATCHES)
    line = f"--schedules 1f1b {file} {SIZES} --divide even"
    assert "cannot be cut between layers" in finish(line, marked, status=1)[1]
