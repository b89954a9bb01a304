"""Copies of rows by id that become another dtype on their way: `out[places[i]] = rows[ids[i]]`, int8 times its scale."""

import platform
from functools import cache
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from gnnhet.jit import frozen, kernel, prefetch, read_float, write_float
from gnnhet.storage.gather import check_ids, gather_rows

_AHEAD = 16  # rows on their way from memory while one is read
_SOURCES = {torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8}
_TARGETS = {torch.float32, torch.float16, torch.bfloat16}
_BITS: dict[torch.dtype, Any] = {torch.float16: np.uint16, torch.bfloat16: np.int16}  # as kernels see them


def convertible(source: torch.dtype, target: torch.dtype) -> bool:
    """Whether `convert_rows` knows the way from one dtype to another, on this processor."""
    halves = torch.float16 in (source, target)
    return source in _SOURCES and target in _TARGETS and (not halves or _has_halves())


def convert_rows(
    rows: npt.NDArray[Any],
    dtype: torch.dtype,
    ids: npt.NDArray[np.int64],
    out: Tensor,
    places: npt.NDArray[np.int64] | None = None,
    scale: npt.NDArray[np.float32] | None = None,
) -> None:
    """Fill `out[places[i]] = rows[ids[i]] * scale`, rounded once, to nearest.

    Args:
        rows: C-contiguous, shape [count, ...].
        dtype: what the rows are; bfloat16 is held as uint16.
        ids: int64, shape [n].
        out: contiguous on the CPU, shape [m, ...], of a dtype that `convertible` allows.
        places: int64, shape [n], in range; by default i.
        scale: float32, of the shape of a row; by default 1.

    Raises:
        GraphError: an id outside 0..count-1; `out` is then untouched.
    """
    check_ids(ids, rows.shape[0])
    width = int(np.prod(rows.shape[1:], dtype=np.int64))
    if not ids.size or not width:
        return
    source = rows.reshape(-1).view(_BITS.get(dtype, rows.dtype))
    target = flat(out)
    nothing = np.empty(0, np.int64)
    where = frozen(nothing if places is None else places)
    if scale is None:
        _convert(frozen(source), frozen(ids), where, target, width)
    else:
        _convert_scaled(frozen(source), frozen(ids), where, target, width, frozen(scale.reshape(-1)))


def put_rows(
    array: npt.NDArray[Any],
    dtype: torch.dtype,
    scale: npt.NDArray[np.float32] | None,
    ids: npt.NDArray[np.int64],
    out: Tensor,
    places: npt.NDArray[np.int64] | None = None,
) -> None:
    """Fill `out[places[i]]` with row `ids[i]` by the fastest way there is from one dtype to the other.

    Args:
        array: C-contiguous, shape [count, ...], as stored.
        dtype: what it holds; bfloat16 is held as uint16.
        scale: float32, of the shape of a row, that int8 is multiplied by.
        ids: int64, shape [n].
        out: contiguous on the CPU, shape [m, ...].
        places: int64, shape [n], in range; by default i.

    Raises:
        GraphError: an id out of range; `out` is then untouched.
    """
    if scale is None and out.dtype == dtype:
        gather_rows(array, ids, flat(out).view(array.dtype).reshape(out.shape), places)
    elif convertible(dtype, out.dtype):
        convert_rows(array, dtype, ids, out, places, scale)
    else:  # rare pairs, by way of a copy
        copy = np.empty((ids.size, *array.shape[1:]), array.dtype)
        gather_rows(array, ids, copy)
        bits = torch.from_numpy(copy.view(np.int16) if dtype == torch.bfloat16 else copy)
        tensor = bits.view(torch.bfloat16) if dtype == torch.bfloat16 else bits
        if scale is not None:
            tensor = tensor.float() * torch.from_numpy(scale.reshape(tensor.shape[1:]).copy())
        where = slice(None) if places is None else torch.from_numpy(places)
        out[where] = tensor.to(out.dtype)


def flat(out: Tensor) -> npt.NDArray[Any]:
    """A contiguous CPU tensor's numbers on one axis, as kernels see them."""
    plain = out.detach().view(-1)
    if out.dtype == torch.bfloat16:
        return plain.view(torch.int16).numpy()
    array: npt.NDArray[Any] = plain.numpy()
    return array.view(np.uint16) if out.dtype == torch.float16 else array


@cache
def _has_halves() -> bool:
    """Whether the processor converts float16 by itself; LLVM would call a library that may be absent."""
    if platform.machine().lower() in ("aarch64", "arm64"):
        return True
    return bool(dict(llvm.get_host_cpu_features()).get("f16c", False))


@kernel
def _convert(
    rows: npt.NDArray[Any], ids: npt.NDArray[np.int64], places: npt.NDArray[np.int64], out: npt.NDArray[Any], width: int
) -> None:
    """Rows of `width` numbers; ids and places are in range, no places are 0, 1, ..."""
    last = ids.size - 1
    line = 64 // rows.itemsize
    for i in range(ids.size):
        coming = ids[min(i + _AHEAD, last)] * width
        for k in range(0, width, line):
            prefetch(rows, coming + k)
        come, to = ids[i] * width, (places[i] if places.size else i) * width
        for k in range(width):
            write_float(out, to + k, read_float(rows, come + k))


@kernel
def _convert_scaled(
    rows: npt.NDArray[Any],
    ids: npt.NDArray[np.int64],
    places: npt.NDArray[np.int64],
    out: npt.NDArray[Any],
    width: int,
    scale: npt.NDArray[np.float32],
) -> None:
    """As `_convert`, times a number a column."""
    last = ids.size - 1
    line = 64 // rows.itemsize
    for i in range(ids.size):
        coming = ids[min(i + _AHEAD, last)] * width
        for k in range(0, width, line):
            prefetch(rows, coming + k)
        come, to = ids[i] * width, (places[i] if places.size else i) * width
        for k in range(width):
            write_float(out, to + k, read_float(rows, come + k) * read_float(scale, k))
