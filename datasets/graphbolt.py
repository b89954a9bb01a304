"""Folders of GraphBolt's `OnDiskDataset` (DGL), read in place and in pieces, without DGL."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from gnnhet.datasets.csv_rows import open_csv
from gnnhet.datasets.files import existing, torch_refusal
from gnnhet.datasets.graphbolt_metadata import Entry, open_document
from gnnhet.datasets.npz_members import ends_of
from gnnhet.datasets.raw import HOMOGENEOUS, NO_SPLIT, NODE, TEST, TRAIN, VAL, Array, Relation
from gnnhet.datasets.source import Edges, EdgeStream, RowStream, Source, as_array, rows_of
from gnnhet.datasets.tables.npy import open_npy
from gnnhet.errors import FormatError, GraphError

_SETS = {"train_set": TRAIN, "validation_set": VAL, "test_set": TEST}
_SEEDS = ("seeds", "seed_nodes")  # now, and before DGL 2.1
_AXES = (1, 2, 3, 4)
_MOST_IDS = 1 << 20


def source(path: str | Path, **options: Any) -> Source:
    """A graph that a `metadata.yaml` describes.

    Of nodes, `feat` becomes `x`; other features, and those of edges, keep their names. Seeds and labels of the first task
    about nodes become `split` and `y` (-1 where there is none), where no feature is called so; tasks about links are left
    out. Features in torch's format are mapped: those in numpy's keep to the memory of an ingest better.

    Args:
        path: the folder; or its `preprocessed`, as long as what that was made of is there.
        options: of other readers; not needed.

    Raises:
        FormatError: a file that is missing, damaged, outside the folder, or of another length than the counts say.
        MissingDependencyError: no PyYAML.
    """
    root, document = open_document(existing(path, "a folder of GraphBolt"))
    graph = document.entry("graph")
    num_nodes: dict[str, int] = {}
    for node in graph.entries("nodes"):
        node_type = node.text("type") or NODE
        if node_type in num_nodes:
            node.refuse("type", "a node type of its own", node_type)
        num_nodes[node_type] = node.count("num")
    relations: dict[Relation, Entry] = {}
    for edge in graph.entries("edges"):
        relation = _relation(edge, num_nodes)
        if relation in relations:
            edge.refuse("type", "an edge type of its own", ":".join(relation))
        relations[relation] = edge
    described = _described([*graph.entries("feature_data"), *document.entries("feature_data")], num_nodes, relations)
    features: dict[str, dict[str, RowStream]] = {}
    for node_type, count in num_nodes.items():
        own = described.get(node_type, {})
        for name, entry in own.items():
            rows = _counted(entry, _array(entry, root), count, "node")
            name = "x" if name == "feat" and "x" not in own else name
            features.setdefault(node_type, {})[name] = _input(rows) if name == "x" else rows
    for node_type, arrays in _targets(document, root, num_nodes, relations).items():
        features[node_type] = {**arrays, **features.get(node_type, {})}
    return Source(
        num_nodes=num_nodes,
        edges={relation: _edges(edge, root, described.get(relation, {})) for relation, edge in relations.items()},
        features=features,
        files=_files(document, root, [*relations.values(), *(own for named in described.values() for own in named.values())]),
        name=document.text("dataset_name") or root.name,
    )


def _files(document: Entry, root: Path, entries: list[Entry]) -> list[Path]:
    """The document and all files that it names."""
    sets = [part for task in document.entries("tasks") for key in _SETS for part in task.entries(key)]
    named = {entry.path(root) for entry in (*entries, *(item for part in sets for item in part.entries("data")))}
    return [document.file, *sorted(path for path in named if path.is_file())]


def _relation(entry: Entry, num_nodes: dict[str, int]) -> Relation:
    """The edge type of an entry, whose ends are node types."""
    given = entry.text("type")
    words = HOMOGENEOUS if given is None else tuple(given.split(":"))
    if len(words) != 3 or not {words[0], words[2]} <= set(num_nodes):
        entry.refuse("type", f"source:name:destination of the node types {', '.join(num_nodes)}", given)
    return words[0], words[1], words[2]


def _described(
    entries: list[Entry], num_nodes: dict[str, int], relations: dict[Relation, Entry]
) -> dict[str | Relation, dict[str, Entry]]:
    """Features by node type or relation and by name; those of whole graphs are left out."""
    found: dict[str | Relation, dict[str, Entry]] = {}
    for entry in entries:
        domain, name = entry.one_of("domain", ("node", "edge", "graph")), entry.text("name")
        if name is None:
            entry.refuse("name", "a string", name)
        owner: str | Relation
        if domain == "graph":
            continue
        if domain == "node":
            owner = entry.text("type") or NODE
            if owner not in num_nodes:
                entry.refuse("type", f"one of the node types {', '.join(num_nodes)}", entry.text("type"))
        else:
            owner = _relation(entry, num_nodes)
            if owner not in relations:
                entry.refuse("type", "one of the graph's edge types", entry.text("type"))
        held = found.setdefault(owner, {}).setdefault(name, entry)  # one that samplers need may stand in `graph`, too
        if held.text("path") != entry.text("path"):
            entry.refuse("name", "a name of its own", name)
    return found


def _edges(entry: Entry, root: Path, described: dict[str, Entry]) -> EdgeStream:
    """A relation's edges with their features."""
    path, kind = entry.path(root), entry.one_of("format", ("csv", "numpy"))
    values = {name: _array(own, root) for name, own in described.items()}
    count = next((rows.shape[0] for rows in values.values()), None)
    if kind == "csv":
        table = open_csv(path, count, integer=True, columns=2)
        parts: tuple[Any, ...] = (table,)
    else:
        file = open_npy(path, "iu", "integers", (2,), fortran=True)
        parts = (file,) if file.transposed else ends_of(file, "edges")
        count = file.shape[0] if file.transposed else file.shape[1]
        if file.transposed and file.shape[1] != 2:
            raise FormatError(f"{path} must hold edges as integers [2, edges], got {file.shape[::-1]}: reshape it")
    for name, own in described.items():
        _counted(own, values[name], count or 0, "edge")

    def read(most: int) -> Iterator[Edges]:
        for pieces in zip(*(part.read(most) for part in (*parts, *values.values())), strict=True):
            src, dst = np.ascontiguousarray(pieces[0].T) if len(parts) == 1 else pieces[:2]
            yield Edges(src, dst, dict(zip(values, pieces[len(parts) :], strict=True)))

    return EdgeStream(
        read=read,
        count=count,
        values={name: np.dtype((rows.dtype, rows.shape[1:])) for name, rows in values.items()},
        bfloat16=frozenset(name for name, rows in values.items() if rows.bfloat16),
    )


def _array(entry: Entry, root: Path) -> RowStream:
    """The numbers in a file."""
    path = entry.path(root)
    if entry.one_of("format", ("numpy", "torch")) == "numpy":
        file = open_npy(path, "iufb", "numbers", _AXES)
        return RowStream(read=file.read, shape=file.shape, dtype=file.dtype.newbyteorder("="))
    import torch

    existing(path, "a file of GraphBolt")
    try:
        try:
            found = torch.load(str(path), map_location="cpu", weights_only=True, mmap=True)
        except RuntimeError:  # files of old cannot be mapped
            found = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises by what is broken
        raise FormatError(f"{path} must hold a tensor, got {torch_refusal(error)}: save it with torch.save") from error
    if not isinstance(found, torch.Tensor) or found.dim() not in _AXES:
        got = f"shape {tuple(found.shape)}" if isinstance(found, torch.Tensor) else type(found).__name__
        raise FormatError(f"{path} must hold a tensor of 1 to {_AXES[-1]} axes, got {got}: save it with torch.save")
    try:
        array, half = as_array(found)
    except GraphError as error:
        raise FormatError(f"{path}: {error}") from error
    return rows_of(array, bfloat16=half)


def _counted(entry: Entry, rows: RowStream, count: int, what: str) -> RowStream:
    """Rows, as many as there must be."""
    if rows.shape[0] != count:
        entry.refuse("path", f"of a file with a row for each {what}, {count:,}", f"{entry.text('path')} with {rows.shape[0]:,}")
    return rows


def _input(rows: RowStream) -> RowStream:
    """Features as `x` must be: floating, with an axis of their own."""
    shape = rows.shape if len(rows.shape) > 1 else (*rows.shape, 1)
    dtype = rows.dtype if rows.dtype.kind == "f" or rows.bfloat16 else np.dtype(np.float32)

    def read(most: int) -> Iterator[Array]:
        for piece in rows.read(most):
            yield piece.reshape(-1, *shape[1:]).astype(dtype, copy=False)

    return RowStream(read=read, shape=shape, dtype=dtype, bfloat16=rows.bfloat16)


def _targets(
    document: Entry, root: Path, num_nodes: dict[str, int], relations: dict[Relation, Entry]
) -> dict[str, dict[str, RowStream]]:
    """`split` and `y` of each node type, by the first task that has seeds of it."""
    found: dict[str, dict[str, RowStream]] = {}
    edge_types = {":".join(relation) for relation in relations}
    for task in document.entries("tasks"):
        seeds: dict[str, list[tuple[int, Array, Array | None]]] = {}
        for key, part in _SETS.items():
            for entry in task.entries(key):
                node_type = entry.text("type") or NODE
                if node_type in edge_types:
                    continue
                if node_type not in num_nodes:
                    entry.refuse("type", f"one of the types {', '.join([*num_nodes, *edge_types])}", entry.text("type"))
                data = {item.text("name"): item for item in entry.entries("data")}
                given = next((data[name] for name in _SEEDS if name in data), None)
                if given is not None and len((rows := _array(given, root)).shape) == 1:  # pairs are of links
                    ids = _ids(given, rows, num_nodes[node_type])
                    labels = _labels(data["labels"], root, ids.size) if "labels" in data else None
                    seeds.setdefault(node_type, []).append((part, ids, labels))
        for node_type, parts in seeds.items():
            if node_type in found:
                continue
            count = num_nodes[node_type]
            codes = np.concatenate([np.full(ids.size, part, np.int8) for part, ids, _ in parts])
            found[node_type] = {"split": _scattered(np.concatenate([ids for _, ids, _ in parts]), codes, count, NO_SPLIT)}
            labelled = [(ids, labels) for _, ids, labels in parts if labels is not None]
            if len({labels.shape[1:] for _, labels in labelled}) > 1:
                task.refuse("train_set", "of labels as wide as those of the other sets", "others")
            if labelled:
                ids, labels = (np.concatenate(arrays) for arrays in zip(*labelled, strict=True))
                found[node_type]["y"] = _scattered(ids, labels, count, -1)
    return found


def _ids(entry: Entry, rows: RowStream, count: int) -> Array:
    """Seeds, which are nodes."""
    if rows.dtype.kind not in "iu" or rows.bfloat16:
        entry.refuse("path", "of a file of integers, ids of nodes", f"{entry.text('path')} with {rows.dtype}")
    ids = np.concatenate([np.empty(0, np.int64), *(piece.astype(np.int64) for piece in rows.read(_MOST_IDS))])
    outside = (ids < 0) | (ids >= count)
    if outside.any():
        entry.refuse("path", f"of a file of ids 0 to {count - 1}", f"{entry.text('path')} with {ids[outside.argmax()]}")
    return ids


def _labels(entry: Entry, root: Path, count: int) -> Array:
    """Classes as int64, -1 for NaN; several numbers a node as int64 or float32."""
    rows = _counted(entry, _array(entry, root), count, "seed")
    if rows.bfloat16:
        entry.refuse("path", "of a file of whole numbers", f"{entry.text('path')} with bfloat16")
    labels: Array = np.concatenate([np.empty((0, *rows.shape[1:]), rows.dtype), *rows.read(_MOST_IDS)])
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.dtype.kind != "f":
        return labels.astype(np.int64)
    if labels.ndim > 1:
        return labels.astype(np.float32)
    labels = np.where(np.isnan(labels), -1, labels)
    if not np.isfinite(labels).all() or (labels != np.floor(labels)).any():
        entry.refuse("path", "of a file of classes, whole numbers", f"{entry.text('path')} with others")
    return labels.astype(np.int64)


def _scattered(ids: Array, values: Array, count: int, none: int) -> RowStream:
    """A row a node: of those given their values, of an id given twice the last; `none` of all others."""
    order = np.argsort(ids, kind="stable")
    ids, values = ids[order], values[order]

    def read(most: int) -> Iterator[Array]:
        for start in range(0, count, most):
            size = min(most, count - start)
            piece = np.full((size, *values.shape[1:]), none, values.dtype)
            low, high = np.searchsorted(ids, (start, start + size))
            piece[ids[low:high] - start] = values[low:high]
            yield piece

    return RowStream(read=read, shape=(count, *values.shape[1:]), dtype=values.dtype)
