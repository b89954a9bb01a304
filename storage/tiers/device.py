"""Some rows of a slower tier, held in the memory of the device that computes with them."""

import numpy as np
import torch
from torch import Tensor

from gnnhet.storage.tiers.cache import Ids, Slots
from gnnhet.storage.tiers.reader import Reader


class DeviceCache:
    """Rows on a device in the dtype of batches; the rest is read from below and copied there."""

    def __init__(self, below: Reader, ids: Ids, device: torch.device, dtype: torch.dtype) -> None:
        """Read the rows to hold.

        Args:
            below: the slower tier.
            ids: int64, ascending, none twice.
            device: where the rows lie.
            dtype: of the rows there.

        Raises:
            GraphError, FormatError: as `Reader.read`.
            torch.OutOfMemoryError: the device is too small.
        """
        self._below = below
        self.slots = Slots(ids, below.rows.array.shape[0])
        row = below.rows.array.shape[1:]
        self._held = torch.empty((ids.size, *row), dtype=dtype, device=device)
        step = max((64 << 20) // max(int(np.prod(row, dtype=np.int64)) * dtype.itemsize, 1), 1)
        for first in range(0, ids.size, step):
            self._held[first : first + step] = _rows(below, ids[first : first + step], dtype, pinned=False).to(device)

    @property
    def size(self) -> int:
        """Bytes of rows held."""
        return self._held.numel() * self._held.dtype.itemsize

    def take(self, ids: Ids) -> Tensor:
        """Rows by id, on the device.

        Args:
            ids: int64, shape [n].

        Returns:
            shape [n, ...].

        Raises:
            GraphError, FormatError: as `Reader.read`.
        """
        part, held = self.slots.split(ids), self._held
        rest = _rows(self._below, part.ids, held.dtype, pinned=held.device.type == "cuda")
        out = torch.empty((ids.size, *held.shape[1:]), dtype=held.dtype, device=held.device)
        out[torch.from_numpy(part.hits).to(held.device)] = held[torch.from_numpy(part.slots).to(held.device)]
        out[torch.from_numpy(part.misses).to(held.device)] = rest.to(held.device, non_blocking=True)
        return out


def _rows(below: Reader, ids: Ids, dtype: torch.dtype, *, pinned: bool) -> Tensor:
    """Rows on the CPU."""
    out = torch.empty((ids.size, *below.rows.array.shape[1:]), dtype=dtype, pin_memory=pinned)
    below.read(ids, out)
    return out
