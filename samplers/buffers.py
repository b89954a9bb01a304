"""Reused memory: fresh pages cost more than the work that fills them."""

import math
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

T = TypeVar("T")

_SPARE = 1.25  # room above what was asked for, so that batches of about one size share a buffer
_SMALL = 1 << 16  # bytes; below, the allocator itself reuses memory
_WASTE = 4  # a block this many times larger than what is asked for is left to others


class BufferPool:
    """Hands out tensors over a few reused blocks of memory.

    A block is used again once nothing refers to the tensors over it: a person may keep as many batches as they like, they
    are never overwritten. May be used by several threads at once.

    Args:
        pinned: page-locked memory, for copies to an accelerator.
        most: blocks kept at most; more tensors alive than that get memory of their own.
    """

    def __init__(self, *, pinned: bool = False, most: int = 64) -> None:
        """Hold nothing yet."""
        self._pinned = pinned
        self._most = most
        self._blocks: list[npt.NDArray[np.uint8]] = []
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        """In another process: an empty one."""
        return partial(BufferPool, pinned=self._pinned, most=self._most), ()

    def take(self, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        """An uninitialised contiguous CPU tensor.

        Args:
            shape: of the tensor.
            dtype: of the tensor.
        """
        num_bytes = math.prod(shape) * dtype.itemsize
        if num_bytes < _SMALL and not self._pinned:
            return torch.empty(shape, dtype=dtype)
        with self._lock:
            block = self._free(num_bytes)
            if block is None:
                block = self._new(num_bytes)
            return torch.from_numpy(block[:num_bytes]).view(dtype).view(shape)

    def _free(self, num_bytes: int) -> npt.NDArray[np.uint8] | None:
        """A block nobody uses that is large enough and not far too large; the smallest such."""
        best: npt.NDArray[np.uint8] | None = None
        for number in range(len(self._blocks)):
            # 2: the list's own reference and the call's argument; each tensor over the block adds one through its array
            if sys.getrefcount(self._blocks[number]) == 2 and num_bytes <= self._blocks[number].size <= _WASTE * num_bytes:
                if best is None or self._blocks[number].size < best.size:
                    best = self._blocks[number]
        return best

    def _new(self, num_bytes: int) -> npt.NDArray[np.uint8]:
        """A new block, kept for later where there is room or an unused one to drop."""
        size = max(int(num_bytes * _SPARE), 64)
        block: npt.NDArray[Any] = (
            torch.empty(size, dtype=torch.uint8, pin_memory=True).numpy() if self._pinned else np.empty(size, np.uint8)
        )
        if len(self._blocks) >= self._most:
            for number in range(len(self._blocks)):
                if sys.getrefcount(self._blocks[number]) == 2:
                    del self._blocks[number]
                    break
        if len(self._blocks) < self._most:
            self._blocks.append(block)
        return block


class Spares(Generic[T]):
    """Things that one thread uses at a time, kept for the next: as many as calls ever ran at once.

    Args:
        make: a new one, where none is free.
    """

    def __init__(self, make: Callable[[], T]) -> None:
        """Hold none yet."""
        self._make = make
        self._free: list[T] = []

    def __reduce__(self) -> tuple[Any, ...]:
        """In another process: none kept."""
        return Spares, (self._make,)

    @contextmanager
    def use(self) -> Iterator[T]:
        """One that nobody else uses; one that met an error is dropped, not kept."""
        try:
            thing = self._free.pop()
        except IndexError:  # also where another thread took the last one just now
            thing = self._make()
        yield thing
        self._free.append(thing)


class Scratch:
    """Named work arrays of one thread, grown when asked for more; the next call of the same name overwrites them."""

    def __init__(self) -> None:
        """Hold nothing yet."""
        self._arrays: dict[str, npt.NDArray[Any]] = {}

    def take(self, name: str, size: int, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """An uninitialised array of `size`.

        Args:
            name: of the array.
            size: entries.
            dtype: of the array; always the same for a name.
        """
        held = self._arrays.get(name)
        if held is None or held.size < size or held.dtype != dtype:
            held = self._arrays[name] = np.empty(size + size // 4, dtype)
        return held[:size]
