"""A graph to be ingested: read in pieces, as often as asked for, so that it may be larger than memory.

Readers of `gnnhet.datasets` make a `Source`; `gnnhet.storage.ingest` turns it into a graph folder. Ids are dense already:
they count from 0 within their node type.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from gnnhet.datasets.raw import Array, RawGraph, Relation
from gnnhet.errors import GraphError

_PIECE = 1 << 22


class Watched(Protocol):
    """What is told how far a step has come."""

    def advance(self, amount: int = 1) -> None:
        """So many more units are done."""


Watch = Callable[[str, int | None, str], AbstractContextManager[Watched]]  # what is done, units in all or None, unit


@contextmanager
def unwatched(what: str, total: int | None, unit: str) -> Iterator[Watched]:
    """A `Watch` that nobody looks at."""
    yield _Nobody()


class _Nobody:
    def advance(self, amount: int = 1) -> None:
        """Nothing."""


class Edges(NamedTuple):
    """A piece of a relation's edges.

    Attributes:
        src: integers, shape [n].
        dst: integers, shape [n].
        values: named numbers, a row an edge, shape [n, ...] each.
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
        values: name -> dtype of the numbers that come with every edge (`weight`, `time`, ...); of several an edge a dtype with
            a shape.
        bfloat16: names of the values whose uint16 are bfloat16 of the same bits.
        scales: name -> float32, of the shape of an edge's numbers, that int8 is to be multiplied by.
        held_bytes: that reading holds beside its pieces.
    """

    read: Callable[[int], Iterator[Edges]]
    count: int | None = None
    values: Mapping[str, np.dtype] = field(default_factory=dict)
    bfloat16: frozenset[str] = frozenset()
    scales: Mapping[str, Array] = field(default_factory=dict)
    held_bytes: int = 0


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
        files: that it is read from: an ingest goes on only with the same, unchanged.
    """

    num_nodes: Mapping[str, int | None]
    edges: Mapping[Relation, EdgeStream]
    features: Mapping[str, Mapping[str, RowStream]] = field(default_factory=dict)
    ids: Mapping[str, Path] = field(default_factory=dict)
    report: Sequence[str] = ()
    name: str = ""
    files: Sequence[Path] = ()


def edges_of(
    src: Array, dst: Array, values: Mapping[str, Array] | None = None, *, bfloat16: frozenset[str] = frozenset()
) -> EdgeStream:
    """A stream over arrays, in memory or mapped; pieces are views of them.

    Args:
        src: integers, shape [edges].
        dst: integers, shape [edges].
        values: named numbers, shape [edges, ...], in any byte order.
        bfloat16: names of the values whose uint16 are bfloat16 of the same bits.

    Raises:
        GraphError: an array has another length than there are edges.
    """
    more = dict(values or {})
    for name, array in {"dst": dst, **more}.items():
        if array.shape[:1] != (src.size,):
            raise GraphError(f"`{name}` must have a row for each of the {src.size} edges, got shape {array.shape}")

    def read(most: int) -> Iterator[Edges]:
        for start in range(0, src.size, most):
            piece = slice(start, start + most)
            yield Edges(src[piece], dst[piece], {name: array[piece] for name, array in more.items()})

    dtypes = {name: np.dtype((array.dtype.newbyteorder("="), array.shape[1:])) for name, array in more.items()}
    return EdgeStream(read=read, count=src.size, values=dtypes, bfloat16=bfloat16)


def rows_of(array: Array, *, bfloat16: bool = False) -> RowStream:
    """A stream over an array, in memory or mapped; pieces are views of it."""

    def read(most: int) -> Iterator[Array]:
        for start in range(0, array.shape[0], most):
            yield array[start : start + most]

    return RowStream(read=read, shape=array.shape, dtype=array.dtype, bfloat16=bfloat16)


def as_array(values: Any) -> tuple[Array, bool]:
    """An array or tensor as numpy holds it, and whether its uint16 are bfloat16.

    Raises:
        GraphError: a tensor that numpy cannot hold: sparse, or of a dtype it lacks.
    """
    if isinstance(values, np.ndarray):
        return values, False
    import torch

    tensor = torch.as_tensor(values).detach().cpu()
    if tensor.dtype == torch.bfloat16 and tensor.layout == torch.strided:
        return tensor.contiguous().view(torch.int16).numpy().view(np.uint16), True
    try:
        return tensor.numpy(), False
    except TypeError as error:
        raise GraphError(
            f"a tensor must be dense and of a dtype that numpy has, or bfloat16, got {tensor.dtype} {tensor.layout}: convert it"
        ) from error


def of_raw(raw: RawGraph) -> Source:
    """A source over a graph that a reader holds in memory.

    Raises:
        GraphError: an array of edges has another length than there are edges.
    """
    return Source(
        num_nodes=dict(raw.num_nodes),
        edges={relation: _edges_of_raw(*ends, raw.edge_features.get(relation, {})) for relation, ends in raw.edges.items()},
        features={
            node_type: {name: _rows_of_raw(values) for name, values in arrays.items()}
            for node_type, arrays in raw.features.items()
        },
        name=raw.name,
    )


def to_raw(source: Source) -> RawGraph:
    """The whole graph in memory, for those who want it there; bfloat16 as torch tensors, int8 with a scale as float32."""
    edges: dict[Relation, tuple[Array, Array]] = {}
    edge_features: dict[Relation, dict[str, Any]] = {}
    num_nodes = {node_type: count or 0 for node_type, count in source.num_nodes.items()}
    for relation, stream in source.edges.items():
        pieces = list(stream.read(_PIECE))
        src = np.concatenate([np.empty(0, np.int64), *(piece.src for piece in pieces)])
        dst = np.concatenate([np.empty(0, np.int64), *(piece.dst for piece in pieces)])
        edges[relation] = src, dst
        if stream.values:
            edge_features[relation] = {
                name: _decoded(
                    np.concatenate([np.empty((0, *dtype.shape), dtype.base), *(piece.values[name] for piece in pieces)]),
                    name in stream.bfloat16,
                    stream.scales.get(name),
                )
                for name, dtype in stream.values.items()
            }
        for node_type, ids in ((relation[0], src), (relation[2], dst)):
            if source.num_nodes[node_type] is None and ids.size:
                num_nodes[node_type] = max(num_nodes[node_type], int(ids.max()) + 1)
    features = {
        node_type: {
            name: _decoded(
                np.concatenate([np.empty((0, *rows.shape[1:]), rows.dtype), *rows.read(_PIECE)]), rows.bfloat16, rows.scale
            )
            for name, rows in arrays.items()
        }
        for node_type, arrays in source.features.items()
    }
    return RawGraph(num_nodes=num_nodes, edges=edges, features=features, edge_features=edge_features, name=source.name)


def _edges_of_raw(src: Array, dst: Array, values: Mapping[str, Any]) -> EdgeStream:
    """A relation's edges with arrays or tensors."""
    coded = {name: as_array(array) for name, array in values.items()}
    return edges_of(
        src,
        dst,
        {name: array for name, (array, _) in coded.items()},
        bfloat16=frozenset(name for name, (_, half) in coded.items() if half),
    )


def _rows_of_raw(values: Any) -> RowStream:
    """An array or tensor of nodes."""
    array, half = as_array(values)
    return rows_of(array, bfloat16=half)


def _decoded(array: Array, half: bool, scale: Array | None) -> Any:
    """An array for whom knows neither bfloat16 of bits nor scales."""
    if half:
        import torch

        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return array if scale is None else array.astype(np.float32) * scale
