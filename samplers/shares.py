"""How a step's seeds are divided over ranks."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from gnnhet.errors import SpecError


def integer_shares(total: int, weights: Sequence[float]) -> npt.NDArray[np.int64]:
    """Whole numbers that sum to `total`, as near to the weights as can be: the largest remainder method.

    Ties go to the lower position, so that every rank computes the same division.

    Args:
        total: what is divided, 0 or more.
        weights: finite, 0 or more, not all 0.

    Raises:
        SpecError: weights that are negative, not finite, or all 0.
    """
    parts = np.asarray(weights, np.float64)
    if parts.ndim != 1 or not parts.size or not np.isfinite(parts).all() or (parts < 0).any() or parts.sum() <= 0:
        raise SpecError(f"shares must be numbers of 0 or more, one a rank and not all 0, got {list(weights)}")
    exact = parts / parts.sum() * total
    whole: npt.NDArray[np.int64] = np.floor(exact).astype(np.int64)
    left = total - int(whole.sum())
    order = np.argsort(-(exact - whole), kind="stable")
    whole[order[:left]] += 1
    return whole


def share_bounds(total: int, weights: Sequence[float], rank: int) -> tuple[int, int]:
    """(first, last + 1) of a rank's consecutive part of `total` things."""
    ends = np.cumsum(integer_shares(total, weights))
    return (int(ends[rank - 1]) if rank else 0), int(ends[rank])
