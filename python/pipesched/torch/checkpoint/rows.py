"""Some rows of a tensor of the whole model, as a rank has them of a head in shards.

`torch.distributed.checkpoint` asks a tensor for the parts of it that are here, so that each rank
writes and reads its own rows, and another number of ranks reads other ones. Padding is in no shard,
and so in no file.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.checkpoint.metadata import (
    ChunkStorageMetadata,
    MetadataIndex,
    TensorProperties,
)
from torch.distributed.checkpoint.planner import TensorWriteData, WriteItem, WriteItemType


class Rows(Tensor):
    """The rows that are here of a tensor, whose `size()` is that of the whole."""

    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]
    rows: slice
    whole: int

    @staticmethod
    def of(own: Tensor, rows: slice, whole: int) -> Rows:
        """Rows that share the memory of `own`, of `whole` rows."""
        made = own.detach().as_subclass(Rows)
        made.rows, made.whole = rows, whole
        return made

    @property
    def own(self) -> Tensor:
        return self.as_subclass(Tensor)

    def size(self, dim: int | None = None) -> Any:
        found = torch.Size([self.whole, *self.own.shape[1:]])
        return found if dim is None else found[dim]

    def _chunk(self) -> ChunkStorageMetadata:
        offsets = [self.rows.start, *(0 for _ in self.own.shape[1:])]
        return ChunkStorageMetadata(torch.Size(offsets), self.own.shape)

    # What torch.distributed.checkpoint calls

    def __create_write_items__(self, name: str, _: Any) -> list[WriteItem]:
        if not self.own.numel():
            return []
        chunk = self._chunk()
        data = TensorWriteData(chunk, TensorProperties.create_from_tensor(self.own), self.size())
        index = MetadataIndex(name, chunk.offsets)
        return [WriteItem(index, WriteItemType.SHARD, tensor_data=data)]

    def __create_chunk_list__(self) -> list[ChunkStorageMetadata]:
        return [self._chunk()] if self.own.numel() else []

    def __get_tensor_shard__(self, _: MetadataIndex) -> Tensor:
        return self.own


def gather_rows(
    own: Tensor, rows: slice, most: int, whole: int, group: dist.ProcessGroup, to: int
) -> Tensor | None:
    """Returns the whole on the rank `to`, None on others; `most` are the rows of the first rank."""
    sent = own.new_zeros((most, *own.shape[1:]))
    sent[: len(own)] = own
    is_here = dist.get_rank(group) == to
    parts = [torch.empty_like(sent) for _ in range(dist.get_world_size(group))] if is_here else None
    dist.gather(sent, parts, group=group, group_dst=to)
    return None if parts is None else torch.cat(parts)[:whole].clone()
