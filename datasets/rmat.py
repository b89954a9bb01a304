"""R-MAT (Chakrabarti, Zhan, Faloutsos, 2004): skewed graphs of any size."""

import numpy as np

from gnnhet.datasets.raw import HOMOGENEOUS, NODE, RawGraph
from gnnhet.errors import SpecError

_CHUNK = 1 << 22


def generate(scale: int, num_edges: int, seed: int = 0, a: float = 0.57, b: float = 0.19, c: float = 0.19) -> RawGraph:
    """2^scale nodes and `num_edges` edges; duplicates and self loops are kept, ids are permuted.

    Each edge falls into one of four quadrants with probabilities a, b, c and the rest, `scale` times.

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
    rng = np.random.default_rng([seed, scale])
    src, dst = np.empty(num_edges, np.int64), np.empty(num_edges, np.int64)
    for start in range(0, num_edges, _CHUNK):
        count = min(_CHUNK, num_edges - start)
        u, v = np.zeros(count, np.int64), np.zeros(count, np.int64)
        for _ in range(scale):
            draw = rng.random(count, np.float32)
            low_low, low_high, high_low = draw < a, (draw >= a) & (draw < a + b), (draw >= a + b) & (draw < a + b + c)
            u = 2 * u + ~(low_low | low_high)
            v = 2 * v + ~(low_low | high_low)
        src[start : start + count], dst[start : start + count] = u, v
    shuffled = rng.permutation(1 << scale)  # else the hubs would be the low ids
    return RawGraph(
        num_nodes={NODE: 1 << scale},
        edges={HOMOGENEOUS: (shuffled[src], shuffled[dst])},
        name=f"rmat:{scale}:{num_edges}",
    )
