"""What lies where in a folder of OGB: text (`edge.csv.gz`) or binary (`data.npz`), homogeneous or typed."""

import csv
import gzip
import io
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from gnnhet.datasets.csv_rows import CsvRows, open_csv
from gnnhet.datasets.files import existing, one_line
from gnnhet.datasets.npz_members import Member, ends_of, open_members
from gnnhet.datasets.pickles import ArrayUnpickler
from gnnhet.datasets.raw import HOMOGENEOUS, NO_SPLIT, NODE, TEST, TRAIN, VAL, Array, Relation
from gnnhet.errors import FormatError

PARTS = {"train": TRAIN, "valid": VAL, "test": TEST}
_SEPARATOR = "___"
_RENAMED = {"node-feat": "node_feat", "edge-feat": "edge_feat", "species": "node_species"}
_COUNTS = ("num_nodes_list", "num_edges_list", "edge_index")
_TYPED = ("num_nodes_dict", "num_edges_dict", "edge_index_dict")
_MOST_IDS = 1 << 20


class Rows(Protocol):
    """An array whose rows are read in pieces from the beginning."""

    @property
    def path(self) -> Path:
        """Of the file, for messages."""

    @property
    def dtype(self) -> np.dtype:
        """As stored."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows first."""

    def read(self, most: int) -> Iterator[Array]:
        """Pieces of at most so many rows."""


@dataclass(frozen=True)
class TextRows:
    """A table of text whose count of lines is known; floating numbers are float32, as in OGB.

    Attributes:
        table: the file.
        real: dtype of floating numbers.
    """

    table: CsvRows
    real: type = np.float32

    @property
    def path(self) -> Path:
        """Of the file."""
        return self.table.path

    @property
    def dtype(self) -> np.dtype:
        """int64 or a floating one."""
        return np.dtype(np.int64 if self.table.integer else self.real)

    @property
    def shape(self) -> tuple[int, ...]:
        """Lines and columns."""
        return self.table.rows or 0, self.table.columns

    def read(self, most: int) -> Iterator[Array]:
        """Pieces of at most `most` lines."""
        return (piece.astype(self.dtype, copy=False) for piece in self.table.read(most))


@dataclass(frozen=True)
class Layout:
    """What a folder holds.

    Attributes:
        num_nodes: node type -> count in each graph, int64.
        num_edges: relation -> count in each graph, int64.
        ends: relation -> a table of pairs, or sources and destinations.
        node_arrays: node type -> OGB's name -> rows.
        edge_arrays: relation -> OGB's name -> rows.
        labels: node type -> rows.
    """

    num_nodes: Mapping[str, Array]
    num_edges: Mapping[Relation, Array]
    ends: Mapping[Relation, tuple[Rows, ...]]
    node_arrays: Mapping[str, Mapping[str, Rows]]
    edge_arrays: Mapping[Relation, Mapping[str, Rows]]
    labels: Mapping[str, Rows]


def open_layout(raw: Path) -> Layout:
    """Find out which layout it is, and open every file.

    Raises:
        FormatError: none of the four, or a file of it is missing or damaged.
    """
    for name, read in _LAYOUTS.items():
        if (raw / name).exists():
            layout = read(raw)
            _check(raw, layout)
            return layout
    raise FormatError(f"a folder of OGB must hold one of {', '.join(_LAYOUTS)} in {raw}, got none: name the folder above raw")


def _text(raw: Path) -> Layout:
    """One node type, in text."""
    num_nodes, num_edges = _counts(raw / "num-node-list.csv.gz"), _counts(raw / "num-edge-list.csv.gz")
    nodes, edges = int(num_nodes.sum()), int(num_edges.sum())
    label = raw / "node-label.csv.gz"
    return Layout(
        num_nodes={NODE: num_nodes},
        num_edges={HOMOGENEOUS: num_edges},
        ends={HOMOGENEOUS: (TextRows(open_csv(raw / "edge.csv.gz", edges, integer=True, columns=2)),)},
        node_arrays={NODE: _tables(raw, "node", nodes)},
        edge_arrays={HOMOGENEOUS: _tables(raw, "edge", edges)},
        labels={NODE: _label_table(label, nodes)} if label.exists() else {},
    )


def _typed_text(raw: Path) -> Layout:
    """Several types, in text."""
    header, *rows = _cells(raw / "num-node-dict.csv.gz")
    num_nodes = {name: _whole(raw / "num-node-dict.csv.gz", [row[place] for row in rows]) for place, name in enumerate(header)}
    num_edges: dict[Relation, Array] = {}
    ends: dict[Relation, tuple[Rows, ...]] = {}
    edge_arrays: dict[Relation, dict[str, Rows]] = {}
    for cells in _cells(raw / "triplet-type-list.csv.gz"):
        relation = _relation(raw / "triplet-type-list.csv.gz", cells)
        folder = existing(raw / "relations" / _SEPARATOR.join(relation), "a relation of OGB")
        num_edges[relation] = _counts(folder / "num-edge-list.csv.gz")
        count = int(num_edges[relation].sum())
        ends[relation] = (TextRows(open_csv(folder / "edge.csv.gz", count, integer=True, columns=2)),)
        edge_arrays[relation] = _tables(folder, "edge", count)
    counts = {node_type: int(found.sum()) for node_type, found in num_nodes.items()}
    labels = {}
    for node_type in num_nodes:
        file = raw / "node-label" / node_type / "node-label.csv.gz"
        if file.exists():
            labels[node_type] = _label_table(file, counts[node_type])
    return Layout(
        num_nodes=num_nodes,
        num_edges=num_edges,
        ends=ends,
        node_arrays={node_type: _tables(raw / "node-feat" / node_type, "node", counts[node_type]) for node_type in num_nodes},
        edge_arrays=edge_arrays,
        labels=labels,
    )


def _binary(raw: Path) -> Layout:
    """One node type, in `data.npz`."""
    file = raw / "data.npz"
    members = open_members(file)
    num_nodes, num_edges = (_small(file, members, name) for name in _COUNTS[:2])
    labels = open_members(raw / "node-label.npz") if (raw / "node-label.npz").exists() else {}
    return Layout(
        num_nodes={NODE: num_nodes},
        num_edges={HOMOGENEOUS: num_edges},
        ends={HOMOGENEOUS: ends_of(_member(file, members, "edge_index"), "edge_index")},
        node_arrays={NODE: {name: rows for name, rows in members.items() if name.startswith("node_")}},
        edge_arrays={
            HOMOGENEOUS: {name: rows for name, rows in members.items() if name.startswith("edge_") and name not in _COUNTS}
        },
        labels={NODE: _member(raw / "node-label.npz", labels, "node_label")} if labels else {},
    )


def _typed_binary(raw: Path) -> Layout:
    """Several types, an `.npz` for each array."""
    nodes, counts, pairs = (open_members(raw / f"{name}.npz") for name in _TYPED)
    relations = {key: _relation(raw / "edge_index_dict.npz", key.split(_SEPARATOR)) for key in pairs}
    node_arrays: dict[str, dict[str, Rows]] = {node_type: {} for node_type in nodes}
    edge_arrays: dict[Relation, dict[str, Rows]] = {relation: {} for relation in relations.values()}
    for file in sorted(raw.glob("*.npz")):
        if file.stem in _TYPED or file.name == "node-label.npz":
            continue
        for key, member in open_members(file).items():
            if file.stem.startswith("node_") and key in node_arrays:
                node_arrays[key][file.stem] = member
            elif file.stem.startswith("edge_") and key in relations:
                edge_arrays[relations[key]][file.stem] = member
    label = raw / "node-label.npz"
    return Layout(
        num_nodes={node_type: _small(raw / "num_nodes_dict.npz", nodes, node_type) for node_type in nodes},
        num_edges={relation: _small(raw / "num_edges_dict.npz", counts, key) for key, relation in relations.items()},
        ends={relations[key]: ends_of(member, key) for key, member in pairs.items()},
        node_arrays=node_arrays,
        edge_arrays=edge_arrays,
        labels=dict(open_members(label)) if label.exists() else {},
    )


_LAYOUTS: dict[str, Callable[[Path], Layout]] = {
    "edge.csv.gz": _text,
    "triplet-type-list.csv.gz": _typed_text,
    "data.npz": _binary,
    "edge_index_dict.npz": _typed_binary,
}


def read_split(place: Path, num_nodes: Mapping[str, int]) -> dict[str, Array]:
    """Train, validation and test nodes as one array per type, where the folder has them.

    Args:
        place: with one folder, the name of the split.
        num_nodes: count of each node type.

    Raises:
        FormatError: several splits, damaged files, or ids out of range.
    """
    folders = sorted(folder for folder in place.iterdir() if folder.is_dir()) if place.is_dir() else []
    if len(folders) > 1:
        names = ", ".join(folder.name for folder in folders)
        raise FormatError(f"{place} must hold one split, got {names}: keep the one to be used")
    if not folders:
        return {}
    found: dict[str, Array] = {}
    for node_type, part, ids in _split_ids(folders[0], list(num_nodes)):
        count = num_nodes.get(node_type, 0)
        if ids.dtype.kind not in "iu" or ids.ndim != 1 or (ids.size and not 0 <= int(ids.min()) <= int(ids.max()) < count):
            raise FormatError(f"{folders[0]} must name nodes 0 to {count - 1} of {node_type} for {part}, got others: restore it")
        found.setdefault(node_type, np.full(count, NO_SPLIT, np.int8))[ids] = PARTS[part]
    return found


def _split_ids(folder: Path, node_types: list[str]) -> Iterator[tuple[str, str, Array]]:
    """(node type, part, ids) of a split; nothing of one of links."""
    if (folder / "split_dict.pt").exists():
        for part, ids in _load(folder / "split_dict.pt").items():
            if part not in PARTS:
                raise FormatError(f"{folder / 'split_dict.pt'} must hold {', '.join(PARTS)}, got {part!r}: restore it")
            for node_type, own in ids.items() if isinstance(ids, Mapping) else [(NODE, ids)]:
                if node_type in node_types:  # a split of links has names of arrays here
                    yield node_type, part, np.asarray(own)
        return
    for node_type in node_types:
        own_folder = folder if (folder / "train.csv.gz").exists() else folder / node_type
        if (own_folder / "train.csv.gz").exists():
            for part in PARTS:
                table = open_csv(own_folder / f"{part}.csv.gz", integer=True)
                pieces = [piece[:, 0] for piece in table.read(_MOST_IDS)]
                yield node_type, part, np.concatenate([np.empty(0, np.int64), *pieces])


def _load(file: Path) -> dict[str, Any]:
    """A dict that torch saved, of tensors or of arrays; nothing else is admitted."""
    import torch

    try:
        try:
            found = torch.load(file, map_location="cpu", weights_only=True)
        except Exception:  # arrays are not tensors
            admitted = types.SimpleNamespace(Unpickler=ArrayUnpickler, __name__="arrays")
            found = torch.load(file, pickle_module=admitted, weights_only=False)
    except Exception as error:  # torch raises by what is broken
        reason = one_line(error).split(". ")[0]
        raise FormatError(f"{file} must hold tensors or arrays, got {reason}: save it with torch.save") from error
    if not isinstance(found, dict):
        raise FormatError(f"{file} must hold a dict of train, valid and test, got {type(found).__name__}: restore it")
    return found


def _tables(folder: Path, what: str, count: int) -> dict[str, Rows]:
    """Tables of numbers of nodes or of edges."""
    found: dict[str, Rows] = {}
    for file in sorted(folder.glob("*.csv.gz")) if folder.is_dir() else []:
        stem = file.name.removesuffix(".csv.gz")
        name = _RENAMED.get(stem, stem)
        if name.startswith(f"{what}_"):
            found[name] = TextRows(open_csv(file, count, integer=False if name == "node_feat" else None))
    return found


def _label_table(file: Path, count: int) -> Rows:
    """Labels; of one a node, NaN may stand for none in any line."""
    table = open_csv(file, count)
    return TextRows(replace(table, integer=table.integer and table.columns > 1), np.float64)


def _counts(file: Path) -> Array:
    """A list of counts, one a graph."""
    pieces = [piece[:, 0] for piece in open_csv(file, integer=True, columns=1).read(_MOST_IDS)]
    counts = np.concatenate([np.empty(0, np.int64), *pieces])
    return _checked(file, counts)


def _checked(file: Path, counts: Array) -> Array:
    """Counts that are there and not negative."""
    if not counts.size or counts.min() < 0:
        raise FormatError(f"{file} must hold a count of 0 or more for each graph, got others: restore it")
    return counts


def _whole(file: Path, cells: list[str]) -> Array:
    """Counts that stand in text."""
    try:
        return _checked(file, np.array([int(float(cell)) for cell in cells], np.int64))
    except (ValueError, OverflowError):
        raise FormatError(f"{file} must hold counts, got {', '.join(cells)[:60]!r}: restore it") from None


def _cells(file: Path) -> list[list[str]]:
    """A small table of text."""
    existing(file, "a table of OGB")
    try:
        text = gzip.decompress(file.read_bytes()).decode()
        rows = [row for row in csv.reader(io.StringIO(text), strict=True) if row]
    except Exception as error:  # gzip's, zlib's, csv's and those of decoding
        raise FormatError(f"{file} must be a table of text, got {one_line(error)}: restore it") from error
    if not rows or any(len(row) != len(rows[0]) for row in rows):
        raise FormatError(f"{file} must have as many cells in each line, got others: restore it")
    return rows


def _relation(file: Path, words: list[str]) -> Relation:
    """Three names, which are parts of paths."""
    if len(words) != 3 or any(not word or "/" in word or "\\" in word or word in (".", "..") for word in words):
        raise FormatError(f"{file} must name relations as source, name and destination, got {words!r}: restore it")
    return words[0], words[1], words[2]


def _member(file: Path, members: Mapping[str, Member], name: str) -> Member:
    """The array of that name."""
    if name not in members:
        raise FormatError(f"{file} must hold {name}, got {', '.join(members) or 'nothing'}: restore it")
    return members[name]


def _small(file: Path, members: Mapping[str, Member], name: str) -> Array:
    """Counts as an array in memory."""
    member = _member(file, members, name)
    if member.dtype.kind not in "iu" or len(member.shape) > 1:
        raise FormatError(f"{file} must hold {name} as integers, got {member.dtype} {member.shape}: restore it")
    pieces = list(member.read(_MOST_IDS)) if member.shape else []
    return _checked(file, np.concatenate([np.empty(0, np.int64), *(piece.astype(np.int64) for piece in pieces)]))


def _check(raw: Path, layout: Layout) -> None:
    """Lengths and types fit together."""
    graphs = {counts.size for counts in (*layout.num_nodes.values(), *layout.num_edges.values())}
    if len(graphs) != 1:
        raise FormatError(f"{raw} must count nodes and edges of as many graphs everywhere, got {sorted(graphs)}: restore it")
    for relation, ends in layout.ends.items():
        count = int(layout.num_edges[relation].sum())
        missing = {relation[0], relation[2]} - set(layout.num_nodes)
        if missing:
            raise FormatError(f"{raw} must count the nodes of every type, got no {', '.join(sorted(missing))}: restore it")
        for rows in (*ends, *layout.edge_arrays.get(relation, {}).values()):
            _check_rows(rows, count, "edge")
    for node_type, counts in layout.num_nodes.items():
        own = dict(layout.node_arrays.get(node_type, {}))
        for rows in (*own.values(), *([layout.labels[node_type]] if node_type in layout.labels else [])):
            _check_rows(rows, int(counts.sum()), "node")


def _check_rows(rows: Rows, count: int, what: str) -> None:
    """One row an edge or a node, in one or two axes."""
    if len(rows.shape) not in (1, 2) or rows.shape[0] != count:
        raise FormatError(f"{rows.path} must have a row for each {what}, {count:,}, got shape {rows.shape}: restore it")
