"""Floating features stored in fewer bytes: float16, bfloat16, or int8 times a scale of each column."""

from collections.abc import Callable, Iterable, Iterator

import numpy as np
import numpy.typing as npt
import torch

from gnnhet.errors import GraphError, SpecError
from gnnhet.storage.features import Rows

STORED = ("float32", "float16", "bfloat16", "int8")
_MOST = 127  # codes are symmetric: -127..127

Pieces = Callable[[], Iterable[Rows]]


def compacted(pieces: Pieces, dtype: str, what: str) -> tuple[Iterator[Rows], npt.NDArray[np.float32] | None]:
    """A feature's pieces in the dtype it is stored in.

    int8 is `x = code * scale` with the scale of a column its largest magnitude / 127: no number is off by more than half of
    that. The pieces are then read twice.

    Args:
        pieces: called once or twice; floating, rows of one shape.
        dtype: one of `STORED`.
        what: the feature's name for messages.

    Returns:
        (pieces, the scale of the shape of a row or None).

    Raises:
        SpecError: another dtype.
        GraphError: numbers that are not floating, or not finite where a scale is needed; also while the pieces are read.
    """
    if dtype not in STORED:
        raise SpecError(f"features are stored as one of {', '.join(STORED)}, got {dtype!r}")
    if dtype == "int8":
        scale = _scale(pieces, what)
        return (_coded(rows, scale, what) for rows in pieces()), scale
    return (_cast(rows, getattr(torch, dtype), what) for rows in pieces()), None


def _scale(pieces: Pieces, what: str) -> npt.NDArray[np.float32]:
    """The scale of each column."""
    largest: torch.Tensor | None = None
    for rows in pieces():
        tensor = _floats(rows, what).float()
        if not tensor.numel():
            found = torch.zeros(tensor.shape[1:])
        elif not bool(torch.isfinite(tensor).all()):
            raise GraphError(f"{what} must be finite to be stored as int8, got NaN or infinity: store it as float16")
        else:
            found = tensor.abs().amax(0)
        largest = found if largest is None else torch.maximum(largest, found)
    if largest is None:
        raise GraphError(f"{what} must come in one piece or more, got none")
    scale = largest / _MOST
    made: npt.NDArray[np.float32] = torch.where(scale > 0, scale, 1.0).numpy()
    return made


def _coded(rows: Rows, scale: npt.NDArray[np.float32], what: str) -> Rows:
    """A piece as int8."""
    codes = torch.round(_floats(rows, what).float() / torch.from_numpy(scale)).clamp(-_MOST, _MOST).to(torch.int8)
    return Rows(array=codes.numpy(), dtype=torch.int8, scale=scale)


def _cast(rows: Rows, dtype: torch.dtype, what: str) -> Rows:
    """A piece in another floating dtype."""
    return Rows.of(_floats(rows, what).to(dtype), what)


def _floats(rows: Rows, what: str) -> torch.Tensor:
    """A piece as a tensor."""
    if not rows.dtype.is_floating_point:
        raise GraphError(f"{what} must be floating to be stored in another dtype, got {rows.dtype}: leave the dtype out")
    bits = torch.from_numpy(rows.array.copy() if not rows.array.flags.writeable else rows.array)
    return bits.view(torch.bfloat16) if rows.dtype == torch.bfloat16 else bits
