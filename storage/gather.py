"""Copies of rows by id: `out[i] = rows[ids[i]]`, for any fixed-width dtype."""

from typing import Any

import numpy as np
import numpy.typing as npt

from gnnhet.errors import GraphError
from gnnhet.jit import copy_1, copy_2, copy_4, copy_8, copy_16, copy_32, copy_64, frozen, kernel, prefetch, stream_64

_LINE = 64  # bytes the processor moves at once
_AHEAD = 16  # rows on their way from memory while one is copied
_LONG = 2048  # bytes; from here on the processor itself runs ahead within a row, and copies go past the caches
_LEAD = 512  # bytes of a long row to ask for

Bytes = npt.NDArray[np.uint8]


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
    row_bytes = rows.nbytes // rows.shape[0]
    if row_bytes:
        source, target = rows.reshape(-1).view(np.uint8), out.reshape(-1).view(np.uint8)
        if row_bytes in (16, 32, 64):
            _copy_short_rows(frozen(source), frozen(ids), target, row_bytes)
        else:
            _copy_rows(frozen(source), frozen(ids), target, row_bytes, -target.ctypes.data % _LINE)


@kernel
def _first_outside(ids: npt.NDArray[np.int64], count: int) -> int:
    """Position of the first id outside 0..count-1, or -1."""
    good = True
    for i in range(ids.size):  # no early way out: this runs in wide registers
        good &= (ids[i] >= 0) & (ids[i] < count)
    if not good:
        for i in range(ids.size):
            if ids[i] < 0 or ids[i] >= count:
                return i
    return -1


@kernel
def _copy_short_rows(rows: Bytes, ids: npt.NDArray[np.int64], out: Bytes, size: int) -> None:
    """Copy rows of 16, 32 or 64 bytes, one load and one store each; ids are in range."""
    last = ids.size - 1
    if size == 16:
        for i in range(ids.size):
            prefetch(rows, ids[min(i + _AHEAD, last)] * 16)
            copy_16(out, i * 16, rows, ids[i] * 16)
    elif size == 32:
        for i in range(ids.size):
            prefetch(rows, ids[min(i + _AHEAD, last)] * 32)
            copy_32(out, i * 32, rows, ids[i] * 32)
    else:
        for i in range(ids.size):
            prefetch(rows, ids[min(i + _AHEAD, last)] * 64)
            copy_64(out, i * 64, rows, ids[i] * 64)


@kernel
def _copy_rows(rows: Bytes, ids: npt.NDArray[np.int64], out: Bytes, size: int, skew: int) -> None:
    """Copy rows of `size` bytes; ids are in range.

    Args:
        rows: uint8 [count * size].
        ids: int64 [n].
        out: uint8 [n * size], filled.
        size: bytes of a row, 1 or more.
        skew: where in `out` the first whole line begins.
    """
    lead = size if size < _LONG else _LEAD
    last = ids.size - 1
    for i in range(ids.size):
        coming = ids[min(i + _AHEAD, last)] * size
        for k in range(0, lead, _LINE):
            prefetch(rows, coming + k)
        prefetch(rows, coming + lead - 1)
        come, to, left = ids[i] * size, i * size, size
        if size >= _LONG:
            head = (skew - to) % _LINE
            _copy_part(rows, come, out, to, head)
            come, to, left = come + head, to + head, left - head
            while left >= _LINE:
                stream_64(out, to, rows, come)
                come, to, left = come + _LINE, to + _LINE, left - _LINE
        else:
            while left >= _LINE:
                copy_64(out, to, rows, come)
                come, to, left = come + _LINE, to + _LINE, left - _LINE
        if left:
            _copy_part(rows, come, out, to, left)


@kernel
def _copy_part(rows: Bytes, come: int, out: Bytes, to: int, size: int) -> None:
    """Copy fewer than 64 bytes, widest parts first."""
    if size & 32:
        copy_32(out, to, rows, come)
        come, to = come + 32, to + 32
    if size & 16:
        copy_16(out, to, rows, come)
        come, to = come + 16, to + 16
    if size & 8:
        copy_8(out, to, rows, come)
        come, to = come + 8, to + 8
    if size & 4:
        copy_4(out, to, rows, come)
        come, to = come + 4, to + 4
    if size & 2:
        copy_2(out, to, rows, come)
        come, to = come + 2, to + 2
    if size & 1:
        copy_1(out, to, rows, come)
