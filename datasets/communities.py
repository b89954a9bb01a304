"""A typed graph with planted communities: features alone say little, the structure says more."""

import numpy as np
import numpy.typing as npt

from gnnhet.datasets.edges import REVERSE
from gnnhet.datasets.raw import TEST, TRAIN, VAL, Array, RawGraph, Relation
from gnnhet.errors import SpecError

ITEM, USER, TAG = "item", "user", "tag"
COMMUNITIES = 10
_NODES = {ITEM: 0.6, USER: 0.35, TAG: 0.05}
_COLUMNS = 32
_SIGNAL = 0.2  # how far apart the communities' features are, in standard deviations of the noise
_WITHIN = {"like": 0.75, "rates": 0.6, "marks": 0.5}  # share of a relation's edges inside a community


def generate(num_nodes: int, num_edges: int, seed: int = 0) -> RawGraph:
    """Items like items, users rate items, tags mark items; each with its reverse.

    Every node belongs to one of ten communities; of each relation a share of the edges stays inside one (a degree-corrected
    block model, Karrer and Newman, 2011), endpoints are drawn by power-law weights. Features of items are noise with a weak
    trace of the community; users and tags have none. The task: the community of items, 20 / 20 / 60.

    Args:
        num_nodes: of all types together.
        num_edges: of all relations together, reverses counted; of an odd number the last is left out.
        seed: the same seed gives the same graph.

    Raises:
        SpecError: too few nodes for the communities.
    """
    if num_nodes < 20 * COMMUNITIES or num_edges < 6:
        raise SpecError(
            f"planted communities need {20 * COMMUNITIES} nodes and 6 edges at least, got {num_nodes} and {num_edges}"
        )
    rng = np.random.default_rng(seed)
    counts = {USER: int(num_nodes * _NODES[USER]), TAG: int(num_nodes * _NODES[TAG])}
    counts[ITEM] = num_nodes - counts[USER] - counts[TAG]
    community = {node_type: rng.integers(0, COMMUNITIES, count) for node_type, count in sorted(counts.items())}
    half = num_edges // 2
    sizes = {"like": half // 2, "rates": half - half // 2 - half // 6, "marks": half // 6}
    edges: dict[Relation, tuple[Array, Array]] = {}
    for source, name in ((ITEM, "like"), (USER, "rates"), (TAG, "marks")):
        src, dst = _join(rng, community[source], community[ITEM], sizes[name], _WITHIN[name])
        edges[(source, name, ITEM)], edges[(ITEM, REVERSE + name, source)] = (src, dst), (dst, src)
    centres = rng.standard_normal((COMMUNITIES, _COLUMNS)).astype(np.float32) * _SIGNAL
    x = rng.standard_normal((counts[ITEM], _COLUMNS), np.float32) + centres[community[ITEM]]
    split = rng.choice(np.array([TRAIN, VAL, TEST], np.int8), counts[ITEM], p=[0.2, 0.2, 0.6])
    return RawGraph(
        num_nodes=counts,
        edges=edges,
        features={ITEM: {"x": x, "y": community[ITEM], "split": split}},
        name=f"communities:{num_nodes}:{num_edges}",
    )


def _join(
    rng: np.random.Generator,
    source: npt.NDArray[np.int64],
    destination: npt.NDArray[np.int64],
    count: int,
    within: float,
) -> tuple[Array, Array]:
    """`count` edges: endpoints by power-law weights, a share of them inside the source's community."""
    src = _draw(rng, _weights(rng, source.size), count)
    weights = _weights(rng, destination.size)
    dst = _draw(rng, weights, count)
    inside = rng.random(count) < within
    for number in range(COMMUNITIES):
        members = np.flatnonzero(destination == number)
        wanted = np.flatnonzero(inside & (source[src] == number))
        if members.size:
            dst[wanted] = members[_draw(rng, weights[members], wanted.size)]
    return src, dst


def _weights(rng: np.random.Generator, count: int) -> npt.NDArray[np.float64]:
    """Pareto weights of exponent 2.5 from 1 on, cut at 1,000 so that no node takes most edges of a large graph."""
    return np.minimum(rng.pareto(1.5, count) + 1, 1000.0)


def _draw(rng: np.random.Generator, weights: npt.NDArray[np.float64], count: int) -> npt.NDArray[np.int64]:
    """Positions drawn by weight, with replacement."""
    ends = np.cumsum(weights)
    found: npt.NDArray[np.int64] = np.searchsorted(ends, rng.random(count) * ends[-1], side="right")
    return np.minimum(found, weights.size - 1)
