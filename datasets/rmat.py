"""R-MAT (Chakrabarti, Zhan, Faloutsos, 2004): skewed graphs of any size, made in pieces.

Edge i is a function of (seed, scale, i), so that pieces of any size and in any order are the same graph.
"""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from gnnhet.datasets.raw import HOMOGENEOUS, NODE, RawGraph
from gnnhet.datasets.source import Edges, EdgeStream, Source, to_raw
from gnnhet.errors import SpecError
from gnnhet.jit import kernel
from gnnhet.mixing import GOLDEN, mix, stream

_LEVELS = 4  # quadrants chosen by one draw of 64 bits, 16 each
_BLOCK = 1024  # edges that go through all levels while they lie in the first cache
_EDGE = np.uint64(GOLDEN)  # odd: spreads the edges of a stream
_LOW16, _S16 = np.uint64(0xFFFF), np.uint64(16)
_ONE, _FOUR = np.uint64(1), np.uint64(_LEVELS)

Ids = npt.NDArray[np.int32]
Keys = npt.NDArray[np.uint64]


def generate(scale: int, num_edges: int, seed: int = 0, a: float = 0.57, b: float = 0.19, c: float = 0.19) -> RawGraph:
    """The whole graph in memory: arguments and errors are those of `source`."""
    return to_raw(source(scale, num_edges, seed, a, b, c))


def source(scale: int, num_edges: int, seed: int = 0, a: float = 0.57, b: float = 0.19, c: float = 0.19) -> Source:
    """2^scale nodes and `num_edges` edges; duplicates and self loops are kept, ids are shuffled by a keyed bijection.

    Each edge falls into one of four quadrants with probabilities a, b, c and the rest (in steps of 2^-16), `scale` times.

    Args:
        scale: from 1 to 31.
        num_edges: stored edges.
        seed: the same seed gives the same graph.
        a: probability of (low, low).
        b: probability of (low, high).
        c: probability of (high, low).

    Raises:
        SpecError: a size or probability out of range.
    """
    if not 1 <= scale <= 31 or num_edges < 0:
        raise SpecError(f"R-MAT needs a scale from 1 to 31 and edges of 0 or more, got {scale} and {num_edges}")
    if min(a, b, c, 1 - a - b - c + 1e-9) < 0:  # 1 - 0.5 - 0.4 - 0.1 is less than 0
        raise SpecError(f"R-MAT's probabilities must be 0 or more and sum to 1, got {a}, {b}, {c}")
    groups = -(-scale // _LEVELS)
    keys = np.array([stream(seed, scale, group) for group in range(groups)], np.uint64)
    odd = np.array([int(stream(seed, scale, groups + turn)) | 1 for turn in range(3)], np.uint64)
    bounds = np.array([round(65536 * share) for share in (a, a + b, a + b + c)], np.uint64)

    def read(most: int) -> Iterator[Edges]:
        for start in range(0, num_edges, most):
            count = min(most, num_edges - start)
            src, dst = np.empty(count, np.int32), np.empty(count, np.int32)
            _fill(start, scale, keys, bounds, odd, src, dst)
            yield Edges(src, dst, {})

    return Source(
        num_nodes={NODE: 1 << scale},
        edges={HOMOGENEOUS: EdgeStream(read=read, count=num_edges)},
        name=f"rmat:{scale}:{num_edges}",
    )


@kernel
def _fill(start: int, scale: int, keys: Keys, bounds: Keys, odd: Keys, src: Ids, dst: Ids) -> None:
    """Edges `start` and those after it.

    Args:
        start: number of the first edge.
        scale: quadrants an edge goes through.
        keys: uint64 [groups of levels].
        bounds: uint64 [3], where the quadrants end in 0..65536.
        odd: uint64 [rounds] of the bijection, odd.
        src: int32 [n], filled.
        dst: int32 [n], filled.
    """
    one, two, three = bounds
    for block in range(0, src.size, _BLOCK):
        u, v = src[block : block + _BLOCK], dst[block : block + _BLOCK]
        u[:] = 0
        v[:] = 0
        first = np.uint64(start + block)
        for group in range(keys.size):
            skipped = np.uint64(max(0, (group + 1) * _LEVELS - scale))  # of the last group, whose draws give more levels
            for i in range(u.size):
                bits = mix(keys[group] + (first + np.uint64(i)) * _EDGE)
                high = right = np.uint64(0)
                for _ in range(_LEVELS):
                    draw = bits & _LOW16
                    bits >>= _S16
                    upper, middle, last = np.uint64(draw >= two), np.uint64(draw >= one), np.uint64(draw >= three)
                    high = (high << _ONE) | upper
                    right = (right << _ONE) | (middle ^ upper) | last
                u[i] = (np.uint64(u[i]) << (_FOUR - skipped)) | (high >> skipped)
                v[i] = (np.uint64(v[i]) << (_FOUR - skipped)) | (right >> skipped)
        for i in range(u.size):
            u[i] = _shuffled(u[i], scale, odd)
            v[i] = _shuffled(v[i], scale, odd)


@kernel
def _shuffled(node: int, scale: int, odd: Keys) -> np.int32:
    """A bijection of 0..2^scale-1: else the hubs would be the low ids."""
    mask = np.uint64((1 << scale) - 1)
    half = np.uint64((scale + 1) // 2)
    x = np.uint64(node)
    for turn in range(odd.size):
        x = (x * odd[turn] + (odd[turn] >> np.uint64(32))) & mask
        x ^= x >> half
    return np.int32(x)
