"""Copies of rows by id: `out[i] = rows[ids[i]]`, for any fixed-width dtype."""

from typing import Any

import numpy as np
import numpy.typing as npt

from gnnhet.errors import GraphError
from gnnhet.jit import frozen, kernel

_WORDS = (np.uint64, np.uint32, np.uint16, np.uint8)


def as_words(rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """`rows` seen as [count, words] unsigned integers of the widest size that divides a row and its alignment.

    So that one kernel a width serves every dtype and shape.

    Args:
        rows: C-contiguous, first axis the row.
    """
    count = rows.shape[0]
    row_bytes = int(np.prod(rows.shape[1:], dtype=np.int64)) * rows.dtype.itemsize
    flat = rows.reshape(-1).view(np.uint8)
    for word in _WORDS:
        size = np.dtype(word).itemsize
        if row_bytes % size == 0 and rows.ctypes.data % size == 0:
            return flat.view(word).reshape(count, row_bytes // size)
    raise GraphError(f"rows must be of a fixed width in bytes, got dtype {rows.dtype}")


def gather_rows(rows: npt.NDArray[Any], ids: npt.NDArray[np.int64], out: npt.NDArray[Any]) -> None:
    """Fill `out[i] = rows[ids[i]]`.

    Args:
        rows: C-contiguous, shape [count, ...].
        ids: int64, shape [n].
        out: C-contiguous, shape [n, ...], the dtype of `rows`.

    Raises:
        GraphError: an id outside 0..count-1; `out` is then untouched.
    """
    if not ids.size:
        return
    bad = _first_outside(frozen(ids), rows.shape[0])
    if bad >= 0:
        raise GraphError(f"ids must lie in 0..{rows.shape[0] - 1}, got {int(ids[bad])} at position {bad}")
    source, target = as_words(rows), as_words(out)
    if source.dtype != target.dtype:  # alignments differ: meet at bytes
        source, target = source.view(np.uint8), target.view(np.uint8)
    _copy_rows(frozen(source), frozen(ids), target)


@kernel
def _first_outside(ids: npt.NDArray[np.int64], count: int) -> int:
    """Position of the first id outside 0..count-1, or -1."""
    for i in range(ids.size):
        if ids[i] < 0 or ids[i] >= count:
            return i
    return -1


@kernel
def _copy_rows(rows: npt.NDArray[Any], ids: npt.NDArray[np.int64], out: npt.NDArray[Any]) -> None:
    """Copy word by word; ids are in range."""
    for i in range(ids.size):
        row = ids[i]
        for j in range(rows.shape[1]):
            out[i, j] = rows[row, j]
