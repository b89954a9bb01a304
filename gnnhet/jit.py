"""The one decorator of every kernel: compiled on first use, cached on disk, runs without the interpreter's lock."""

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numpy.typing as npt

F = TypeVar("F", bound=Callable[..., Any])


def kernel(function: F) -> F:
    """Compile `function` for flat arrays: `nogil`, cached, exact floating point (no fastmath)."""
    return cast(F, numba.njit(nogil=True, cache=True)(function))


def frozen(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """A read-only view of the same memory.

    Kernels are compiled once for read-only inputs, whether they come from RAM or from a file mapped read-only.
    """
    view = array.view()
    view.flags.writeable = False
    return view
