"""Counter-based randomness: every draw is a function of what it is for, and of nothing else.

`key = mix(seed, epoch, step, layer, relation index, destination id)`; draw i of a key is `mix(key + (i + 1) * odd)`. The
mixer is the finaliser of splitmix64 (Steele, Lea, Flood, 2014, "Fast splittable pseudorandom number generators"). Bounded
integers by multiply-shift with rejection (Lemire, 2019, "Fast random integer generation in an interval"): exact, where a
remainder would favour small numbers.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from gnnhet.jit import kernel
from gnnhet.mixing import GOLDEN
from gnnhet.mixing import mix as mix
from gnnhet.mixing import stream as stream

_STEP = np.uint64(0xD1342543DE82EF95)  # odd: spreads the draws of a key
_NODE = np.uint64(GOLDEN)  # odd: spreads the nodes of a stream
_S32 = np.uint64(32)
_LOW32 = np.uint64(0xFFFFFFFF)
_TWO32 = np.uint64(1 << 32)
_ONE = np.uint64(1)

# What a stream is for, beside the layers and relations, which are small numbers.
ORDER, DROPOUT, SOURCES, ANY_LAYER, TREES, NEGATIVES = (1 << bit for bit in range(32, 38))
WALKS, ROOTS, PRESAMPLES, PARTS = (1 << bit for bit in range(40, 44))


@kernel
def node_key(base: np.uint64, node: int) -> np.uint64:
    """The key of a node in a stream."""
    return mix(base + np.uint64(node) * _NODE)


@kernel
def draw(key: np.uint64, i: int) -> np.uint64:
    """Draw i of a key: 64 random bits."""
    return mix(key + (np.uint64(i) + _ONE) * _STEP)


@kernel
def below(key: np.uint64, i: int, bound: int) -> Any:
    """Draw i of a key as an integer in 0..bound-1, each exactly as likely.

    Args:
        key: from `node_key`.
        i: which draw.
        bound: 1 or more.
    """
    n = np.uint64(bound)
    bits = draw(key, i)
    if n < _TWO32:
        product = (bits >> _S32) * n
        if (product & _LOW32) < n:
            least = (_TWO32 - n) % n
            while (product & _LOW32) < least:
                bits = mix(bits + _STEP)
                product = (bits >> _S32) * n
        return np.int64(product >> _S32)
    mask = n - _ONE
    for shift in (1, 2, 4, 8, 16, 32):
        mask |= mask >> np.uint64(shift)
    while (bits & mask) >= n:
        bits = mix(bits + _STEP)
    return np.int64(bits & mask)


@kernel
def fill_below(key: np.uint64, bound: int, count: int, out: npt.NDArray[np.int64]) -> None:
    """out[j] = below(key, j, bound + j) for j = 0..count-1, all draws at once: they need not wait for each other.

    Args:
        key: from `node_key`.
        bound: 1 or more; bound + count at most 2^32.
        count: of draws.
        out: int64, filled.
    """
    redrawn: bool | np.bool_ = False
    for j in range(count):
        n = np.uint64(bound + j)
        product = (draw(key, j) >> _S32) * n
        redrawn |= (product & _LOW32) < n  # only then may a draw have to be repeated
        out[j] = np.int64(product >> _S32)
    if redrawn:
        for j in range(count):
            out[j] = below(key, j, bound + j)


@kernel
def _fill_keys(base: np.uint64, out: npt.NDArray[np.uint64]) -> None:
    """The key of each position."""
    for i in range(out.size):
        out[i] = node_key(base, i)


def permutation(count: int, *parts: int) -> npt.NDArray[np.int64]:
    """A permutation of 0..count-1 keyed by integers: positions sorted by their keys.

    Args:
        count: length.
        parts: what it is for, such as (seed, epoch).
    """
    keys = np.empty(count, np.uint64)
    _fill_keys(stream(ORDER, *parts), keys)
    return np.argsort(keys, kind="stable")
