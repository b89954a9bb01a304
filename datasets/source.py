"""A graph to be ingested: read in pieces, as often as asked for, so that it may be larger than memory.

Readers of `gnnhet.datasets` make a `Source`; `gnnhet.storage.ingest` turns it into a graph folder. Ids are dense already:
they count from 0 within their node type.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np

from gnnhet.datasets.raw import Array, RawGraph, Relation

_PIECE = 1 << 22


class Edges(NamedTuple):
    """A piece of a relation's edges.

    Attributes:
        src: integers, shape [n].
        dst: integers, shape [n].
        values: named numbers, one an edge, shape [n] each.
    """

    src: Array
    dst: Array
    values: Mapping[str, Array]


@dataclass(frozen=True, kw_only=True)
class EdgeStream:
    """A relation's edges in the order they were given in.

    Attributes:
        read: called with the most edges a piece may have; every call begins anew and yields the same edges.
        count: how many there are, where that is known beforehand.
        values: name -> dtype of the numbers that come with every edge (`weight`, `time`, ...).
    """

    read: Callable[[int], Iterator[Edges]]
    count: int | None = None
    values: Mapping[str, np.dtype] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class RowStream:
    """A node type's named array in the order of ids.

    Attributes:
        read: called with the most rows a piece may have; every call begins anew and yields arrays [n, ...] of `dtype`.
        shape: of the whole, rows first.
        dtype: of the arrays; bfloat16 is uint16 of the same bits, with `bfloat16` true.
        bfloat16: whether uint16 stands for bfloat16.
        scale: float32, of the shape of a row, that int8 is to be multiplied by.
    """

    read: Callable[[int], Iterator[Array]]
    shape: tuple[int, ...]
    dtype: np.dtype
    bfloat16: bool = False
    scale: Array | None = None


@dataclass(frozen=True, kw_only=True)
class Source:
    """A graph in pieces.

    Attributes:
        num_nodes: node type -> count; None where only the ids in the edges tell (the largest and 1).
        edges: relation -> its edges.
        features: node type -> name -> rows. Reserved names are those of `RawGraph`.
        ids: node type -> Parquet file with columns `id` (as the person wrote it) and `node` (int64, dense), ordered by `node`;
            none for types whose ids were dense already. The graph folder keeps a copy.
        report: what was skipped on `--on-error skip`, filled while the streams are read; one line each.
        name: what the graph is called in reports.
    """

    num_nodes: Mapping[str, int | None]
    edges: Mapping[Relation, EdgeStream]
    features: Mapping[str, Mapping[str, RowStream]] = field(default_factory=dict)
    ids: Mapping[str, Path] = field(default_factory=dict)
    report: Sequence[str] = ()
    name: str = ""


def edges_of(src: Array, dst: Array, values: Mapping[str, Array] | None = None) -> EdgeStream:
    """A stream over arrays, in memory or mapped; pieces are views of them.

    Args:
        src: integers, shape [edges].
        dst: integers, shape [edges].
        values: named numbers, one an edge.
    """
    more = dict(values or {})

    def read(most: int) -> Iterator[Edges]:
        for start in range(0, src.size, most):
            piece = slice(start, start + most)
            yield Edges(src[piece], dst[piece], {name: array[piece] for name, array in more.items()})

    return EdgeStream(read=read, count=src.size, values={name: array.dtype for name, array in more.items()})


def rows_of(array: Array, *, bfloat16: bool = False) -> RowStream:
    """A stream over an array, in memory or mapped; pieces are views of it."""

    def read(most: int) -> Iterator[Array]:
        for start in range(0, array.shape[0], most):
            yield array[start : start + most]

    return RowStream(read=read, shape=array.shape, dtype=array.dtype, bfloat16=bfloat16)


def of_raw(raw: RawGraph) -> Source:
    """A source over a graph that a reader holds in memory.

    Only edge features of one number an edge are carried.
    """
    return Source(
        num_nodes=dict(raw.num_nodes),
        edges={
            relation: edges_of(
                src,
                dst,
                {
                    name: np.asarray(array)
                    for name, array in raw.edge_features.get(relation, {}).items()
                    if np.asarray(array).ndim == 1
                },
            )
            for relation, (src, dst) in raw.edges.items()
        },
        features={
            node_type: {name: rows_of(np.asarray(array)) for name, array in arrays.items()}
            for node_type, arrays in raw.features.items()
        },
        name=raw.name,
    )


def to_raw(source: Source) -> RawGraph:
    """The whole graph in memory, for those who want it there."""
    edges: dict[Relation, tuple[Array, Array]] = {}
    edge_features: dict[Relation, dict[str, Array]] = {}
    num_nodes = {node_type: count or 0 for node_type, count in source.num_nodes.items()}
    for relation, stream in source.edges.items():
        pieces = list(stream.read(_PIECE))
        src = np.concatenate([np.empty(0, np.int64), *(piece.src for piece in pieces)])
        dst = np.concatenate([np.empty(0, np.int64), *(piece.dst for piece in pieces)])
        edges[relation] = src, dst
        if stream.values:
            edge_features[relation] = {
                name: np.concatenate([np.empty(0, dtype), *(piece.values[name] for piece in pieces)])
                for name, dtype in stream.values.items()
            }
        for node_type, ids in ((relation[0], src), (relation[2], dst)):
            if source.num_nodes[node_type] is None and ids.size:
                num_nodes[node_type] = max(num_nodes[node_type], int(ids.max()) + 1)
    features = {
        node_type: {
            name: np.concatenate([np.empty((0, *rows.shape[1:]), rows.dtype), *rows.read(_PIECE)])
            for name, rows in arrays.items()
        }
        for node_type, arrays in source.features.items()
    }
    return RawGraph(num_nodes=num_nodes, edges=edges, features=features, edge_features=edge_features, name=source.name)
