"""Folders as the Open Graph Benchmark lays them out (Hu et al., 2020), read in place and in pieces.

`named` reads the same sets by name, through OGB's own package and in memory.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from gnnhet.datasets import ogb_layout
from gnnhet.datasets.files import existing
from gnnhet.datasets.ogb_layout import Layout, Rows
from gnnhet.datasets.raw import Array, Relation
from gnnhet.datasets.source import Edges, EdgeStream, RowStream, Source, rows_of
from gnnhet.errors import FormatError

GRAPH = "graph"
_NAMES = {"node_feat": "x"}  # what OGB calls it -> what we do
# OGB's loader adds the reverse of every edge of these, whose files list each edge once.
_BOTH_WAYS = re.compile(r"(ogbn[-_])?(products|proteins)", re.IGNORECASE)


def source(path: str | Path, **options: Any) -> Source:
    """A graph in OGB's layout: `raw` and `split`, text or binary, homogeneous or typed.

    `node_feat` becomes `x`, `node_label` `y` (-1 where there is none), the ids in `split/NAME` become `split`; other arrays
    of nodes and those of edges keep their names. Many graphs in one folder are one graph of as many parts, with `graph`, the
    number of the part, for each node; labels of graphs and splits of links or of graphs are left out. Edges are as they stand
    in the files; those of ogbn-products and ogbn-proteins, told by the name of the folder, are each followed by its reverse,
    as OGB's loader does.

    Args:
        path: the folder, or its `raw`.
        options: of other readers; not needed.

    Raises:
        FormatError: a file that is missing, damaged or of another length than the counts say.
    """
    place = existing(path, "a folder of OGB")
    root = place.resolve().parent if place.resolve().name == "raw" else place
    layout = ogb_layout.open_layout(root / "raw")
    features = {
        node_type: {_NAMES.get(name, name): _node_rows(_NAMES.get(name, name), rows) for name, rows in arrays.items()}
        for node_type, arrays in layout.node_arrays.items()
    }
    num_nodes = {node_type: int(counts.sum()) for node_type, counts in layout.num_nodes.items()}
    for node_type, rows in layout.labels.items():
        features.setdefault(node_type, {})["y"] = _labels(rows)
    if all(counts.size == 1 for counts in layout.num_nodes.values()):
        for node_type, split in ogb_layout.read_split(root / "split", num_nodes).items():
            features.setdefault(node_type, {})["split"] = rows_of(split)
    else:
        for node_type, counts in layout.num_nodes.items():
            features.setdefault(node_type, {})[GRAPH] = rows_of(np.repeat(np.arange(counts.size), counts))
    both_ways = bool(_BOTH_WAYS.fullmatch(root.resolve().name))
    return Source(
        num_nodes=num_nodes,
        edges={relation: _edges(layout, relation, both_ways) for relation in layout.ends},
        features={node_type: arrays for node_type, arrays in features.items() if arrays},
        name=root.resolve().name,
    )


def _node_rows(name: str, rows: Rows) -> RowStream:
    """An array of nodes; `x` is floating."""
    dtype = rows.dtype.newbyteorder("=")
    if name == "x" and dtype.kind != "f":
        dtype = np.dtype(np.float32)
    shape = (*rows.shape, 1) if name == "x" and len(rows.shape) == 1 else rows.shape
    if name != "x" and len(shape) == 2 and shape[1] == 1:
        shape = shape[:1]

    def read(most: int) -> Iterator[Array]:
        for piece in rows.read(most):
            yield piece.reshape(-1, *shape[1:]).astype(dtype, copy=False)

    return RowStream(read=read, shape=shape, dtype=np.dtype(dtype))


def _labels(rows: Rows) -> RowStream:
    """Classes as int64, -1 for NaN; several numbers a node as they are."""
    shape = rows.shape[:1] if len(rows.shape) == 2 and rows.shape[1] == 1 else rows.shape
    dtype = np.dtype(np.int64 if len(shape) == 1 or rows.dtype.kind in "iu" else np.float32)

    def read(most: int) -> Iterator[Array]:
        for piece in rows.read(most):
            if piece.dtype.kind == "f" and dtype.kind == "i":
                missing = np.isnan(piece)
                if (piece[~missing] != np.floor(piece[~missing])).any():
                    raise FormatError(f"{rows.path} must hold classes as whole numbers, got fractions: it is no classification")
                piece = np.where(missing, -1, piece)
            yield piece.reshape(-1, *shape[1:]).astype(dtype, copy=False)

    return RowStream(read=read, shape=shape, dtype=dtype)


@dataclass(frozen=True)
class _Parts:
    """Where the graphs of a folder begin, to number their nodes on."""

    num_edges: Array
    num_src: Array
    num_dst: Array
    path: Path
    first: dict[str, Array] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Add up the counts."""
        for name, counts in (("edges", self.num_edges), ("src", self.num_src), ("dst", self.num_dst)):
            self.first[name] = np.concatenate([[0], np.cumsum(counts)])

    def numbered(self, ends: list[Array], begin: int) -> list[Array]:
        """Ids that count within their graph, as ids of the whole; `begin` is the number of the first edge."""
        part = np.searchsorted(self.first["edges"], np.arange(begin, begin + ends[0].size), "right") - 1
        for ids, counts in zip(ends, (self.num_src, self.num_dst), strict=True):
            if ((ids < 0) | (ids >= counts[part])).any():
                edge = int(((ids < 0) | (ids >= counts[part])).argmax())
                raise FormatError(
                    f"{self.path} must name nodes 0 to {counts[part[edge]] - 1} of graph {part[edge]}, got {ids[edge]} in edge "
                    f"{begin + edge}: restore it"
                )
        return [ends[0].astype(np.int64) + self.first["src"][part], ends[1].astype(np.int64) + self.first["dst"][part]]


def _edges(layout: Layout, relation: Relation, both_ways: bool) -> EdgeStream:
    """A relation's edges with their values."""
    ends, arrays = layout.ends[relation], layout.edge_arrays.get(relation, {})
    source_type, _, target_type = relation
    parts = _Parts(layout.num_edges[relation], layout.num_nodes[source_type], layout.num_nodes[target_type], ends[0].path)
    values: dict[str, np.dtype] = {}
    for name, rows in arrays.items():
        shape = () if int(np.prod(rows.shape[1:])) == 1 else rows.shape[1:]
        values[name] = np.dtype((rows.dtype.newbyteorder("="), shape))

    def read(most: int) -> Iterator[Edges]:
        begin = 0
        step = max(most // 2, 1) if both_ways and most > 1 else most
        for pieces in zip(*(part.read(step) for part in (*ends, *arrays.values())), strict=True):
            found = [np.ascontiguousarray(end) for end in (pieces[0].T if len(ends) == 1 else pieces[:2])]
            given = dict(zip(arrays, pieces[len(ends) :], strict=True))
            if parts.num_edges.size > 1:
                found = parts.numbered(found, begin)
            begin += found[0].size
            columns = {
                name: given[name].reshape(-1, *dtype.shape).astype(dtype.base, copy=False) for name, dtype in values.items()
            }
            if not both_ways:
                yield Edges(found[0], found[1], columns)
                continue
            doubled = {name: np.repeat(column, 2, axis=0) for name, column in columns.items()}
            yield Edges(np.stack(found, 1).reshape(-1), np.stack(found[::-1], 1).reshape(-1), doubled)

    return EdgeStream(
        read=read,
        count=int(parts.num_edges.sum()) * (1 + both_ways),
        values=values,
    )
