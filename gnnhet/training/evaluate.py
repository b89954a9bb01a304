"""Evaluation with every neighbour, layer by layer (each node's representation is computed once a layer), or sampled."""

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
import numpy.typing as npt
import psutil
import torch
from torch import Tensor, nn

from gnnhet.datasets.raw import Relation
from gnnhet.errors import SpecError
from gnnhet.models.base import LayeredModel
from gnnhet.samplers import Block, NeighborLoader, NeighborSampler
from gnnhet.storage import Graph
from gnnhet.training.embeddings import EmbeddingTable
from gnnhet.training.ranks import Ranks

_CHUNK_NODES = 32_768
_CHUNK_EDGES = 4_000_000


def predict(
    model: nn.Module,
    graph: Graph,
    node_type: str,
    ids: npt.NDArray[np.int64],
    *,
    loader: NeighborLoader,
    ranks: Ranks,
    place: torch.device,
    table: EmbeddingTable | None = None,
    sampled: bool = False,
) -> Tensor:
    """Class scores of nodes, on every rank.

    A `LayeredModel` is computed layer by layer over the whole graph with every neighbour, each rank its share of the
    nodes; exact, and each layer's rows of all nodes lie in host memory. Any other module is run over mini-batches with
    the loader's own fanouts, epoch 0: reproducible, but sampled.

    Args:
        model: on `place`; its mode is kept.
        graph: whose edges are used.
        node_type: of the ids.
        ids: int64 [nodes].
        loader: of the run, for fanouts and seed.
        ranks: who share the work.
        place: where the model is.
        table: sparse embeddings, or None.
        sampled: take a `LayeredModel` as any other module.

    Returns:
        floating [nodes, classes], on the CPU.
    """
    training = model.training
    model.eval()
    try:
        with torch.no_grad():
            if isinstance(model, LayeredModel) and not sampled:
                return _layer_by_layer(model, graph, node_type, ids, ranks, place, table)
            return _by_batches(model, graph, (node_type, ids), loader, ranks, place, table)
    finally:
        model.train(training)


def _layer_by_layer(
    model: LayeredModel,
    graph: Graph,
    node_type: str,
    ids: npt.NDArray[np.int64],
    ranks: Ranks,
    place: torch.device,
    table: EmbeddingTable | None,
) -> Tensor:
    """All needed nodes through layer 0, then through layer 1, ...; the wanted ones alone through the last."""
    if not model.num_layers:
        return _rows_of(
            ids.size,
            ranks,
            _Chunks(graph, ids, ()),
            lambda part: _plain_scores(model, graph, node_type, part, place, table),
        )
    sampler = NeighborSampler(graph, [-1], with_degrees=model.needs_degrees)
    needed = _needed_types(graph.relations, node_type, model.num_layers)
    below: dict[str, Tensor] = {}
    for number in range(model.num_layers):
        last = number == model.num_layers - 1
        above: dict[str, Tensor] = {}
        for kind in sorted(kind for kind in needed[number] if graph.num_nodes[kind]):
            wanted = ids if last else np.arange(graph.num_nodes[kind])
            into = tuple(relation for relation in graph.relations if relation[2] == kind)

            rows = partial(_layer_rows, model, graph, sampler, number, kind, below if number else None, place, table)
            above[kind] = _rows_of(wanted.size, ranks, _Chunks(graph, wanted, into), rows)
        below = above
    return below[node_type]


def _layer_rows(
    model: LayeredModel,
    graph: Graph,
    sampler: NeighborSampler,
    number: int,
    node_type: str,
    below: Mapping[str, Tensor] | None,
    place: torch.device,
    table: EmbeddingTable | None,
    ids: npt.NDArray[np.int64],
) -> Tensor:
    """One layer's rows of some nodes, through the head behind the last layer."""
    block = sampler.sample((node_type, ids)).blocks[0].to(place)
    out = model.layer(number, block, _inputs(model, graph, block, below, place, table), None)[node_type]
    return model.head(out, block.src_of[node_type][: ids.size], None) if number == model.num_layers - 1 else out


class _Chunks:
    """Nodes cut so that no chunk has too many nodes, or too many edges of the relations into them."""

    def __init__(
        self, graph: Graph, ids: npt.NDArray[np.int64], into: tuple[Relation, ...], most_nodes: int = _CHUNK_NODES
    ) -> None:
        self.ids = ids
        self._most_nodes = most_nodes
        self._cost = np.ones(ids.size)
        for relation in into:
            indptr, _ = graph.csc(relation)
            self._cost += (indptr[ids + 1] - indptr[ids]) * (most_nodes / _CHUNK_EDGES)

    def between(self, first: int, last: int) -> list[tuple[int, int]]:
        """(start, end) of the chunks of a range."""
        if first == last:
            return []
        number = ((np.cumsum(self._cost[first:last]) - 1) // self._most_nodes).astype(np.int64)
        starts = first + np.flatnonzero(np.diff(number, prepend=-1))
        return list(zip(starts.tolist(), [*starts[1:].tolist(), last], strict=True))


def _rows_of(count: int, ranks: Ranks, chunks: _Chunks, compute: Callable[[npt.NDArray[np.int64]], Tensor]) -> Tensor:
    """Rows of all nodes, each rank computing its part."""
    first, last = ranks.own_part(count)
    out: Tensor | None = None
    for start, end in chunks.between(first, last):
        rows = compute(chunks.ids[start:end]).to("cpu")
        if out is None:
            out = torch.empty((count, *rows.shape[1:]), dtype=rows.dtype)
        out[start:end] = rows
    if out is None:  # a rank without a part learns the shape from one node
        rows = compute(chunks.ids[:1])
        out = torch.empty((count, *rows.shape[1:]), dtype=rows.dtype)
    ranks.complete_rows(out)
    return out


def _inputs(
    model: LayeredModel,
    graph: Graph,
    block: Block,
    below: Mapping[str, Tensor] | None,
    place: torch.device,
    table: EmbeddingTable | None,
) -> dict[str, Tensor]:
    """What a block's sources bring to its layer: encoded features, or rows of the layer below."""
    if below is not None:
        return {t: rows[block.src_of[t].cpu()].to(place) for t, rows in below.items()}
    return _encoded(model, graph, block.src_of, table)


def _encoded(model: LayeredModel, graph: Graph, ids_of: Mapping[str, Tensor], table: EmbeddingTable | None) -> dict[str, Tensor]:
    """Encoded inputs of nodes, where their ids are."""
    rows_of = {t: partial(graph.features.gather, t, "x") for t in ids_of if graph.features.has(t, "x")}
    if table is not None:
        rows_of |= {t: partial(table.gather, t) for t in table.types if t in ids_of}
    return model.encode({t: rows(ids_of[t].cpu()).to(ids_of[t].device) for t, rows in rows_of.items()}, ids_of)


def _plain_scores(
    model: LayeredModel,
    graph: Graph,
    node_type: str,
    ids: npt.NDArray[np.int64],
    place: torch.device,
    table: EmbeddingTable | None,
) -> Tensor:
    """Scores of a model without layers over neighbours."""
    nodes = torch.from_numpy(ids).to(place)
    return model.head(_encoded(model, graph, {node_type: nodes}, table)[node_type], nodes, None)


def _needed_types(relations: list[Relation], node_type: str, num_layers: int) -> list[set[str]]:
    """Node types whose rows each layer must give, input layer first."""
    needed = [{node_type}]
    while len(needed) < num_layers:
        above = needed[0]
        needed.insert(0, above | {source for source, _, destination in relations if destination in above})
    return needed


def _by_batches(
    model: nn.Module,
    graph: Graph,
    seeds: tuple[str, npt.NDArray[np.int64]],
    loader: NeighborLoader,
    ranks: Ranks,
    place: torch.device,
    table: EmbeddingTable | None,
) -> Tensor:
    """Scores by mini-batches, keyed as epoch 0."""
    batches = loader.over(seeds)

    def scores(part: npt.NDArray[np.int64]) -> Tensor:
        batch = batches.make(part, 0, 0)
        found: Tensor = model((batch if table is None else table.attach(batch)).to(place))
        return found

    count = batches.seeds.size
    return _rows_of(count, ranks, _Chunks(graph, np.arange(count), (), batches.batch_size), scores)


def refuse_large(model: nn.Module, graph: Graph, node_type: str, hidden: int) -> None:
    """Refuse a run whose evaluation would need more memory than is free, before its first step.

    Args:
        model: of the run.
        graph: whose nodes are computed.
        node_type: that is predicted.
        hidden: columns between layers.

    Raises:
        SpecError: two layers' rows of all nodes do not fit.
    """
    if not isinstance(model, LayeredModel) or model.num_layers < 2:
        return
    widest = max(
        sum(graph.num_nodes[t] for t in types) for types in _needed_types(graph.relations, node_type, model.num_layers)[:-1]
    )
    need, free = 2 * 4 * hidden * widest, psutil.virtual_memory().available
    if need > free:
        raise SpecError(
            f"full evaluation holds two layers' rows of {widest:,} nodes, {need / 1e9:.0f} GB, got {free / 1e9:.0f} GB free: "
            "choose the evaluation sampled, or none"
        )
