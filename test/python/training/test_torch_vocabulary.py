"""Heads in shards: their losses and gradients are those of the whole head, over gloo processes."""

from pathlib import Path

import pytest
from runtime_runs import run

torch = pytest.importorskip("torch", reason="needs PyTorch: pip install 'pipesched[test]'")

import torch.distributed as dist  # noqa: E402
from pipesched.torch import PipelineError  # noqa: E402
from pipesched.torch.vocabulary import VocabularyHead, head_rows, padded_vocabulary  # noqa: E402
from vocabulary_ranks import VocabularyJob  # noqa: E402

PRECISION = 1e-12


def test_shards_are_the_whole_head(tmp_path: Path) -> None:
    jobs = [VocabularyJob(f"{ranks} ranks", ranks) for ranks in (1, 2, 3, 4)]
    for job, ranks in run(jobs, tmp_path, "vocabulary_ranks.py").items():
        for found in ranks:
            for name, differences in found.items():
                assert max(differences.values()) <= PRECISION, (job, name, differences)


def test_rows_cover_the_vocabulary() -> None:
    assert padded_vocabulary(50257, 8) == 50272
    assert padded_vocabulary(32000, 8) == 32000
    for ranks in range(1, 7):
        for vocabulary in range(ranks, 60):
            rows = [head_rows(vocabulary, rank, ranks) for rank in range(ranks)]
            assert [i for r in rows for i in range(vocabulary)[r]] == list(range(vocabulary))
    with pytest.raises(PipelineError, match="a vocabulary of 3 has no shard for each of 4 ranks"):
        head_rows(3, 0, 4)


def test_wrong_uses_are_refused(tmp_path: Path) -> None:
    place = f"file://{tmp_path / 'store'}"
    dist.init_process_group("gloo", init_method=place, rank=0, world_size=1)
    try:
        with pytest.raises(PipelineError, match=r"rank 0 has entries 0 to 8 .* found \[7, 2\]"):
            VocabularyHead(torch.ones(7, 2), 8)
        head = VocabularyHead(torch.ones(8, 2), 8)
        with pytest.raises(PipelineError, match=r"takes an input of \[tokens, 2\]"):
            head.logits(torch.ones(3, 4), torch.zeros(3, dtype=torch.long))
        with pytest.raises(PipelineError, match="the target of token 1 is 8, outside"):
            head.logits(torch.ones(2, 2), torch.tensor([0, 8]))
        logits = head.logits(torch.ones(2, 2), torch.tensor([0, 7]))
        with pytest.raises(PipelineError, match="Z comes after T"):
            logits.reduce()
        with pytest.raises(PipelineError, match="T comes after Y"):
            logits.backward()
    finally:
        dist.destroy_process_group()
