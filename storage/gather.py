"""Copies of rows by id: `out[i] = rows[ids[i]]`, for any fixed-width dtype."""

from typing import Any

import numpy as np
import numpy.typing as npt

from gnnhet.errors import GraphError
from gnnhet.jit import copy_1, copy_4, copy_8, copy_16, copy_32, copy_64, frozen, kernel, prefetch, stream_64

_LINE = 64  # bytes the processor moves at once
_AHEAD = 16  # rows on their way from memory while one is copied
_LONG = 512  # bytes; of shorter rows the first and the last line are asked for, of longer ones as many from the first on
_STREAMED = 2048  # bytes; from here on copies go past the caches

Bytes = npt.NDArray[np.uint8]


def gather_rows(
    rows: npt.NDArray[Any],
    ids: npt.NDArray[np.int64],
    out: npt.NDArray[Any],
    places: npt.NDArray[np.int64] | None = None,
) -> None:
    """Fill `out[i] = rows[ids[i]]`, or `out[places[i]]`.

    Args:
        rows: C-contiguous, shape [count, ...].
        ids: int64, shape [n].
        out: C-contiguous, shape [n, ...], the dtype of `rows`.
        places: int64, shape [n], in range of `out`.

    Raises:
        GraphError: an id outside 0..count-1; `out` is then untouched.
    """
    if not ids.size:
        return
    check_ids(ids, rows.shape[0])
    row_bytes = rows.nbytes // rows.shape[0]
    if row_bytes:
        source, target = rows.reshape(-1).view(np.uint8), out.reshape(-1).view(np.uint8)
        if places is not None:
            _copy_to(frozen(source), frozen(ids), frozen(places), target, row_bytes)
        elif row_bytes in (16, 32, 64):
            _copy_short_rows(frozen(source), frozen(ids), target, row_bytes)
        elif row_bytes < _LONG:
            _copy_rows(frozen(source), frozen(ids), target, row_bytes)
        else:
            _copy_long_rows(frozen(source), frozen(ids), target, row_bytes, -target.ctypes.data % _LINE)


def check_ids(ids: npt.NDArray[np.int64], count: int) -> None:
    """Refuse ids that are not those of `count` rows.

    Raises:
        GraphError: one is outside 0..count-1.
    """
    bad = _first_outside(frozen(ids), count)
    if bad >= 0:
        raise GraphError(f"ids must lie in 0..{count - 1}, got {int(ids[bad])} at position {bad}")


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
def _copy_rows(rows: Bytes, ids: npt.NDArray[np.int64], out: Bytes, size: int) -> None:
    """Copy rows of `size` bytes, fewer than `_LONG`; ids are in range."""
    last = ids.size - 1
    for i in range(ids.size):
        coming = ids[min(i + _AHEAD, last)] * size
        prefetch(rows, coming)
        prefetch(rows, coming + size - 1)
        if size >= _LINE:
            _copy_lines(rows, ids[i] * size, out, i * size, size)
        else:
            _copy_part(rows, ids[i] * size, out, i * size, size)


@kernel
def _copy_to(rows: Bytes, ids: npt.NDArray[np.int64], places: npt.NDArray[np.int64], out: Bytes, size: int) -> None:
    """Copy rows of `size` bytes, each to a place of its own; ids and places are in range."""
    last = ids.size - 1
    for i in range(ids.size):
        coming = ids[min(i + _AHEAD, last)] * size
        for k in range(0, min(size, _LONG), _LINE):
            prefetch(rows, coming + k)
        prefetch(rows, coming + size - 1)
        if size >= _LINE:
            _copy_lines(rows, ids[i] * size, out, places[i] * size, size)
        else:
            _copy_part(rows, ids[i] * size, out, places[i] * size, size)


@kernel
def _copy_long_rows(rows: Bytes, ids: npt.NDArray[np.int64], out: Bytes, size: int, skew: int) -> None:
    """Copy rows of `size` bytes, `_LONG` or more; ids are in range.

    Args:
        rows: uint8 [count * size].
        ids: int64 [n].
        out: uint8 [n * size], filled.
        size: bytes of a row.
        skew: where in `out` the first whole line begins.
    """
    last = ids.size - 1
    for i in range(ids.size):
        coming = ids[min(i + _AHEAD, last)] * size
        for k in range(0, _LONG, _LINE):
            prefetch(rows, coming + k)
        if size >= _STREAMED:
            _stream_row(rows, ids[i] * size, out, i * size, size, (skew - i * size) % _LINE)
        else:
            _copy_lines(rows, ids[i] * size, out, i * size, size)


@kernel
def _copy_lines(rows: Bytes, come: int, out: Bytes, to: int, size: int) -> None:
    """Copy 64 bytes or more."""
    for k in range(0, size - _LINE, _LINE):
        copy_64(out, to + k, rows, come + k)
    copy_64(out, to + size - _LINE, rows, come + size - _LINE)  # laps over the one before: no tail to branch for


@kernel
def _stream_row(rows: Bytes, come: int, out: Bytes, to: int, size: int, head: int) -> None:
    """Copy `size` bytes, whole lines of `out` past the caches; its first `head` bytes come before a whole line."""
    _copy_part(rows, come, out, to, head)
    done = head
    while done + _LINE <= size:
        stream_64(out, to + done, rows, come + done)
        done += _LINE
    _copy_part(rows, come + done, out, to + done, size - done)


@kernel
def _copy_part(rows: Bytes, come: int, out: Bytes, to: int, size: int) -> None:
    """Copy 0 to 63 bytes."""
    if size >= 32:  # two copies that lap over each other
        copy_32(out, to, rows, come)
        copy_32(out, to + size - 32, rows, come + size - 32)
    elif size >= 16:
        copy_16(out, to, rows, come)
        copy_16(out, to + size - 16, rows, come + size - 16)
    elif size >= 8:
        copy_8(out, to, rows, come)
        copy_8(out, to + size - 8, rows, come + size - 8)
    elif size >= 4:
        copy_4(out, to, rows, come)
        copy_4(out, to + size - 4, rows, come + size - 4)
    else:
        for k in range(size):
            copy_1(out, to + k, rows, come + k)
