"""Samplers by name, all called alike.

`SAMPLERS[name](graph, **options)` makes a sampler of a homogeneous or typed graph. Every one takes `seed` (of all draws) and
`with_edge_ids`; the others' options are those of its function here, all by name, and those of the class that it returns.

`sampler.sample(seeds, epoch, step)` draws one step: a `MiniBatch` of blocks from the neighbour laws, a `Subgraph` from the
others, which `Subgraph.to_batch(num_layers)` turns into a `MiniBatch`; a `LinkBatch` from `link`, whose seeds are edges.
Seeds are ids, or (node type, ids). A sampler whose `steps` is above 0 chooses its nodes itself where the seeds are None. What
is drawn is a function of (seed, epoch, step) and what is asked for, for any number of threads; `sample` may be called from
several at once.
"""

import difflib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gnnhet.errors import SpecError
from gnnhet.samplers.cluster import ClusterSampler, Parts
from gnnhet.samplers.edges import Values
from gnnhet.samplers.hgt_subgraph import HGTSubgraphSampler
from gnnhet.samplers.induced import InducedSampler
from gnnhet.samplers.link import LinkSampler
from gnnhet.samplers.neighbor import Fanouts, NeighborSampler
from gnnhet.samplers.saint import SaintSampler
from gnnhet.samplers.shadow import ShadowSampler
from gnnhet.storage.graph import Graph


def neighbor(graph: Graph, *, fanouts: Fanouts, **options: Any) -> NeighborSampler:
    """min(degree, fanout) neighbours without replacement, every subset as likely (Hamilton, Ying, Leskovec, 2017)."""
    return NeighborSampler(graph, fanouts, **options)


def neighbor_replace(graph: Graph, *, fanouts: Fanouts, **options: Any) -> NeighborSampler:
    """Exactly `fanout` independent draws of each node that has neighbours (Hamilton, Ying, Leskovec, 2017)."""
    return NeighborSampler(graph, fanouts, replace=True, **options)


def weighted(graph: Graph, *, fanouts: Fanouts, weight: Values, **options: Any) -> NeighborSampler:
    """Successive sampling in proportion to an edge's weight, without replacement (Efraimidis, Spirakis, 2006)."""
    return NeighborSampler(graph, fanouts, weight=weight, **options)


def full(graph: Graph, *, num_layers: int, **options: Any) -> NeighborSampler:
    """Every neighbour in each of `num_layers` layers: the full graph's computation of the seeds, nothing drawn.

    Raises:
        SpecError: fewer than no layers.
    """
    if num_layers < 0:
        raise SpecError(f"num_layers must be 0 or more, got {num_layers}")
    return NeighborSampler(graph, [-1] * num_layers, **options)


def labor(graph: Graph, *, fanouts: Fanouts, **options: Any) -> NeighborSampler:
    """LABOR-0: an edge from u is kept iff u's number of the layer is at most fanout / degree (Balin, Catalyurek, 2023)."""
    return NeighborSampler(graph, fanouts, method="labor", **options)


def dependent(graph: Graph, *, fanouts: Fanouts, **options: Any) -> NeighborSampler:
    """As `neighbor`, with one list of neighbours a node through all layers; a smaller fanout takes its beginning."""
    return NeighborSampler(graph, fanouts, dependent_layers=True, **options)


def disjoint(graph: Graph, *, fanouts: Fanouts, **options: Any) -> NeighborSampler:
    """As `neighbor`, where every seed grows a tree of its own: a node stands once a tree."""
    return NeighborSampler(graph, fanouts, disjoint=True, **options)


def temporal(graph: Graph, *, fanouts: Fanouts, time: Values, **options: Any) -> NeighborSampler:
    """As `disjoint`, among the edges that are not later than the seed's own time, as likely (Xu et al., 2020, TGAT)."""
    return NeighborSampler(graph, fanouts, time=time, **options)


def temporal_last(graph: Graph, *, fanouts: Fanouts, time: Values, **options: Any) -> NeighborSampler:
    """As `temporal`, the latest edges instead of draws (Rossi et al., 2020, TGN)."""
    return NeighborSampler(graph, fanouts, time=time, strategy="last", **options)


def induced(graph: Graph, **options: Any) -> InducedSampler:
    """All edges among the seeds themselves, nothing drawn."""
    return InducedSampler(graph, **options)


def shadow(graph: Graph, *, fanouts: Fanouts, **options: Any) -> ShadowSampler:
    """ShaDow: around each seed the edges among its own k-hop sample, seeds kept apart (Zeng et al., 2021)."""
    return ShadowSampler(graph, fanouts, **options)


def saint_walk(graph: Graph, *, size: int, walk_length: int = 2, **options: Any) -> SaintSampler:
    """GraphSAINT: the edges among the nodes that `size` uniform walks visit (Zeng et al., 2020, random walk sampler)."""
    return SaintSampler(graph, size, walk_length, law="walk", **options)


def saint_node(graph: Graph, *, size: int, **options: Any) -> SaintSampler:
    """GraphSAINT: among `size` nodes in proportion to the squared norm of their column (Zeng et al., 2020, node sampler)."""
    return SaintSampler(graph, size, law="node", **options)


def saint_edge(graph: Graph, *, size: int, **options: Any) -> SaintSampler:
    """GraphSAINT: among the ends of `size` edges by 1 / degree of both ends (Zeng et al., 2020, edge sampler)."""
    return SaintSampler(graph, size, law="edge", **options)


def cluster(graph: Graph, *, parts: Parts | None = None, num_parts: int | None = None, **options: Any) -> ClusterSampler:
    """Cluster-GCN: the edges among the nodes of a random group of parts, each part once an epoch (Chiang et al., 2019)."""
    return ClusterSampler(graph, parts, num_parts, **options)


def hgt(graph: Graph, *, num_samples: Sequence[int] | Mapping[str, Sequence[int]], **options: Any) -> HGTSubgraphSampler:
    """HGSampling: in each hop every type draws nodes by their squared budget (Hu, Dong, Wang, Sun, 2020, algorithm 2)."""
    return HGTSubgraphSampler(graph, num_samples, **options)


def link(graph: Graph, *, fanouts: Fanouts, **options: Any) -> LinkSampler:
    """As `neighbor`, around both ends of seed edges and of keyed negatives; the seeds are edges of `relation`."""
    return LinkSampler(graph, fanouts, **options)


SAMPLERS: dict[str, Callable[..., Any]] = {
    "cluster": cluster,
    "dependent": dependent,
    "disjoint": disjoint,
    "full": full,
    "hgt": hgt,
    "induced": induced,
    "labor": labor,
    "link": link,
    "neighbor": neighbor,
    "neighbor_replace": neighbor_replace,
    "saint_edge": saint_edge,
    "saint_node": saint_node,
    "saint_walk": saint_walk,
    "shadow": shadow,
    "temporal": temporal,
    "temporal_last": temporal_last,
    "weighted": weighted,
}


def make_sampler(name: str, graph: Graph, **options: Any) -> Any:
    """A sampler by its name.

    Args:
        name: of `SAMPLERS`.
        graph: what to sample from.
        options: of its function.

    Raises:
        SpecError: no such sampler, or options that do not fit.
    """
    if name not in SAMPLERS:
        near = difflib.get_close_matches(name, SAMPLERS, 1)
        hint = f": did you mean {near[0]}?" if near else ""
        raise SpecError(f"a sampler must be one of {', '.join(SAMPLERS)}, got {name!r}{hint}")
    return SAMPLERS[name](graph, **options)
