"""A graph as a folder: `graph.json` and plain `.npy` files. FORMAT.md explains it by an example.

Arrays are written under names that hold their checksum, then `graph.json`, which names them, is replaced in one rename:
that rename is the moment a save happens. A save killed before it leaves the old graph, after it the new one; files
nobody names are removed by the next save. One writer at a time (`lock.py`); readers wait for nobody.
"""

import contextlib
import itertools
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from gnnhet.datasets.raw import Relation
from gnnhet.errors import FormatError, GraphError
from gnnhet.jit import frozen
from gnnhet.storage.arrays import ArrayFile, copy_table, write_array
from gnnhet.storage.csc import Csc, index_dtype
from gnnhet.storage.features import FeatureStore, Owner, Rows
from gnnhet.storage.index import ARRAYS as ARRAYS
from gnnhet.storage.index import FORMAT, STAGE, owner_of, revision
from gnnhet.storage.index import INDEX as INDEX
from gnnhet.storage.index import VERSION as VERSION
from gnnhet.storage.index import array_entries as array_entries
from gnnhet.storage.index import array_path as array_path
from gnnhet.storage.index import read_index as read_index
from gnnhet.storage.lock import LOCK, changing, litter, publish

_RETRIES = 100


@dataclass(frozen=True, kw_only=True)
class Stored:
    """What a graph folder holds.

    Attributes:
        index: the parsed `graph.json` that it was read from, None before it is written.
        tables: node type -> Parquet file that says which id stands for which node.
    """

    relations: dict[Relation, Csc]
    num_nodes: dict[str, int]
    features: FeatureStore
    name: str = ""
    index: dict[str, Any] | None = None
    tables: Mapping[str, Path] = field(default_factory=dict)


def write(folder: Path, stored: Stored) -> dict[str, Any]:
    """Write a graph folder, or replace the graph in one; its `graph.json`.

    Raises:
        FormatError: the folder holds something else.
        WaitError: another process writes it, longer than `lock.WAIT_SECONDS`.
    """
    refuse_other(folder)
    made = not folder.exists()
    arrays = folder / ARRAYS
    arrays.mkdir(parents=True, exist_ok=True)
    try:
        with changing(folder):
            refuse_other(folder)  # also what came while it waited
            document = _write_arrays(arrays, stored)
            document["revision"] = revision(read_index(folder)) + 1 if (folder / INDEX).exists() else 1
            publish(folder, document)
            return document
    except BaseException:
        if made:
            for emptied in (arrays, folder):
                with contextlib.suppress(OSError):  # another process has put something there: its own
                    emptied.rmdir()
        raise


def read(folder: Path) -> Stored:
    """Map a graph folder. Sizes, dtypes and shapes are checked here; bytes and structure by `verify`.

    Raises:
        FormatError: no graph, a newer format, or a file that is missing, truncated or unlike its description.
    """
    for _ in range(_RETRIES):
        document = read_index(folder)
        try:
            return map_document(folder, document)
        except FormatError:
            if read_index(folder) == document:
                raise  # else a writer has just replaced it, and removed what the old one named
    return map_document(folder, read_index(folder))


def map_document(folder: Path, document: dict[str, Any]) -> Stored:
    """Map what a `graph.json` names.

    Raises:
        FormatError: as `read`.
    """
    try:
        num_nodes = {str(entry["type"]): int(entry["count"]) for entry in document["node_types"]}
        relations: dict[Relation, Csc] = {}
        for entry in document["relations"]:
            relation = (str(entry["source"]), str(entry["name"]), str(entry["destination"]))
            relations[relation] = _read_csc(folder, relation, entry, num_nodes)
        features = FeatureStore()
        for entry in document["features"]:
            owner = owner_of(entry)
            rows = _read_rows(folder, entry)
            count = num_nodes[owner] if isinstance(owner, str) else relations[owner].num_edges
            if rows.array.shape[0] != count:
                raise FormatError(
                    f"{folder / INDEX}: `{entry['name']}` of {owner} must have {count} rows, got {rows.array.shape[0]}"
                )
            features.hold(owner, str(entry["name"]), rows)
        name = str(document.get("name", ""))
        return Stored(relations=relations, num_nodes=num_nodes, features=features, name=name, index=document)
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, FormatError):
            raise
        raise FormatError(
            f"{folder / INDEX} must describe a graph as FORMAT.md says, got a broken entry ({error!r}): save it again"
        ) from error


def map_array(folder: Path, entry: dict[str, Any]) -> npt.NDArray[Any]:
    """Map an array file and hold it against its description.

    Raises:
        FormatError: missing, truncated, or of another size, dtype or shape.
    """
    path = array_path(folder, entry)
    try:
        size = path.stat().st_size
        if size != int(entry["bytes"]):
            raise FormatError(f"{path} must have {entry['bytes']} bytes, got {size}: it was truncated or changed; restore it")
        array: npt.NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except FormatError:
        raise
    except (OSError, ValueError, EOFError) as error:
        raise FormatError(f"{path} must be a readable .npy file, got {error}: restore it or save the graph again") from error
    stored_dtype = "uint16" if entry["dtype"] == "bfloat16" else entry["dtype"]
    if array.dtype.name != stored_dtype or list(array.shape) != list(entry["shape"]):
        raise FormatError(
            f"{path} must hold {entry['dtype']} of shape {tuple(entry['shape'])}, got {array.dtype.name} {array.shape}"
        )
    # a plain array over the same mapping: numpy's memmap subclass costs a Python call at every slice
    return frozen(np.asarray(array))


def _read_csc(folder: Path, relation: Relation, entry: dict[str, Any], num_nodes: dict[str, int]) -> Csc:
    """A relation's arrays, their dtypes and the ends of indptr checked."""
    arrays = {name: map_array(folder, array) for name, array in entry["arrays"].items()}
    indptr, indices = arrays["indptr"], arrays["indices"]
    count, destinations = int(entry["count"]), num_nodes[relation[2]]
    right = (
        indptr.dtype == np.int64
        and indices.dtype == index_dtype(num_nodes[relation[0]])
        and indptr.shape == (destinations + 1,)
        and indices.shape == (count,)
        and int(indptr[0]) == 0
        and int(indptr[-1]) == count
    )
    if not right:
        raise FormatError(
            f"{folder / INDEX}: indptr of {relation} must be int64 [{destinations + 1}] from 0 to {count} and indices "
            f"[{count}] of the width FORMAT.md says: a file was changed; restore it"
        )
    return Csc(indptr=indptr, indices=indices, edge_ids=arrays.get("edge_ids"))


def _read_rows(folder: Path, entry: dict[str, Any]) -> Rows:
    """A feature's rows."""
    dtype = getattr(torch, str(entry["array"]["dtype"]), None)
    if not isinstance(dtype, torch.dtype):
        raise FormatError(f"{folder / INDEX} must name dtypes that torch has, got {entry['array']['dtype']!r}")
    array, scale = map_array(folder, entry["array"]), entry.get("scale")
    if scale is not None:
        scale = np.array(scale, np.float32)
        if dtype != torch.int8 or scale.size != int(np.prod(array.shape[1:], dtype=np.int64)) or not np.isfinite(scale).all():
            raise FormatError(
                f"{folder / INDEX}: `{entry['name']}` must be int8 with a scale for each number of a row {array.shape[1:]}, "
                f"got {dtype} and {scale.size}: restore it"
            )
        scale = frozen(scale.reshape(array.shape[1:]))
    return Rows(array=array, dtype=dtype, scale=scale, path=array_path(folder, entry["array"]))


def _write_arrays(arrays: Path, stored: Stored) -> dict[str, Any]:
    """Write every array, and return the document that names them."""
    relations = []
    for number, (relation, part) in enumerate(stored.relations.items()):
        stem = f"edges{number:03d}.{'.'.join(map(slug, relation))}"
        given = {"indptr": part.indptr, "indices": part.indices, "edge_ids": part.edge_ids}
        files = {key: write_array(arrays, f"{stem}.{key}", value) for key, value in given.items() if value is not None}
        source, name, destination = relation
        relations.append({"source": source, "name": name, "destination": destination, "count": part.num_edges, "arrays": files})
    features = []
    for number, (owner, name, rows) in enumerate(stored.features):
        entry = write_array(arrays, feature_stem(number, owner, name), rows.array)
        entry["dtype"] = str(rows.dtype).removeprefix("torch.")
        features.append(feature_entry(owner, name, entry, rows.scale))
    tables = {t: copy_table(arrays, number, slug(t), path) for number, (t, path) in enumerate(sorted(stored.tables.items()))}
    return {
        "format": FORMAT,
        "version": VERSION,
        "revision": 1,
        "name": stored.name,
        "node_types": [{"type": node_type, "count": count} for node_type, count in stored.num_nodes.items()],
        "relations": relations,
        "features": features,
        **({"ids": tables} if tables else {}),
    }


def feature_stem(number: int, owner: Owner, name: str) -> str:
    """The beginning of a feature's file name."""
    return f"feature{number:03d}.{slug(owner) if isinstance(owner, str) else '.'.join(map(slug, owner))}.{slug(name)}"


def feature_entry(owner: Owner, name: str, array: dict[str, Any], scale: npt.NDArray[np.float32] | None) -> dict[str, Any]:
    """A feature in `graph.json`."""
    entry: dict[str, Any] = {"of": owner if isinstance(owner, str) else list(owner), "name": name, "array": array}
    return entry if scale is None else entry | {"scale": scale.reshape(-1).tolist()}


def write_rows(arrays: Path, stem: str, pieces: Iterable[Rows], count: int, what: str) -> dict[str, Any]:
    """Write a feature that comes in pieces, as `write_array` does; its entry of `graph.json`.

    Args:
        arrays: the folder of the graph's arrays.
        stem: the beginning of the file's name.
        pieces: of one dtype and width, in order.
        count: rows in all.
        what: the feature's name for messages.

    Raises:
        GraphError: no piece, pieces unlike each other, or another count of rows.
    """
    coming = iter(pieces)
    first = next(coming, None)
    if first is None:
        raise GraphError(f"{what} must come in one piece or more, got none")
    dtype, row = first.array.dtype, first.array.shape[1:]

    with ArrayFile(arrays, stem, dtype, (count, *row), called=str(first.dtype).removeprefix("torch.")) as file:
        done = 0
        for rows in itertools.chain([first], coming):
            if (rows.dtype, rows.array.shape[1:]) != (first.dtype, row):
                raise GraphError(
                    f"pieces of {what} must be alike, got {first.dtype} {row} and then {rows.dtype} {rows.array.shape[1:]}"
                )
            done += rows.array.shape[0]
            if done > count:
                break
            file.write(rows.array)
        if done != count:
            raise GraphError(f"{what} must have one row for each of the {count}, got {'more' if done > count else done}")
        return file.finish()


def refuse_other(folder: Path) -> None:
    """Refuse a folder that is neither new nor empty nor a graph's.

    Raises:
        FormatError: it holds something else, or another program's graph.json.
    """
    if folder.exists() and not _ours(folder):
        raise FormatError(f"a graph is saved into a new, empty or graph folder, got {folder}: choose another path")


def _ours(folder: Path) -> bool:
    """Whether a folder is empty, or holds a graph or what an interrupted save left, and nothing of anybody else's."""
    if not folder.is_dir():
        return False
    if (folder / INDEX).exists():
        read_index(folder)  # refuses another program's graph.json
        return True
    arrays = folder / ARRAYS
    found = set(folder.iterdir()) | (set(arrays.iterdir()) if arrays.is_dir() else set())
    return found <= litter(folder) | {arrays, folder / LOCK, folder / STAGE}


def slug(text: str) -> str:
    """Text as it may stand in a file name."""
    return re.sub(r"[^A-Za-z0-9_-]+", "_", text)[:40]
