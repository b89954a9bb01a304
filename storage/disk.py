"""A graph as a folder: `graph.json` and plain `.npy` files. FORMAT.md explains it by an example.

Arrays are written under names that hold their checksum, then `graph.json`, which names them, is replaced in one rename:
that rename is the moment a save happens. A save killed before it leaves the old graph, after it the new one; files
nobody names are removed by the next save.
"""

import contextlib
import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import torch
import xxhash

from gnnhet.datasets.raw import Relation
from gnnhet.errors import FormatError
from gnnhet.jit import frozen
from gnnhet.storage.csc import Csc, index_dtype
from gnnhet.storage.features import FeatureStore, Owner, Rows

FORMAT = "gnnhet-graph"
VERSION = 1
INDEX = "graph.json"
ARRAYS = "arrays"
_WRITTEN = re.compile(r"(edges|feature)\d{3,}\..+-[0-9a-f]{8}\.npy|\.(edges|feature)\d{3,}\..+\.\d+\.part")
_ENTRY = {"file", "dtype", "shape", "bytes", "xxh3_128"}


@dataclass(frozen=True, kw_only=True)
class Stored:
    """What a graph folder holds."""

    relations: dict[Relation, Csc]
    num_nodes: dict[str, int]
    features: FeatureStore
    name: str = ""


def write(folder: Path, stored: Stored) -> None:
    """Write a graph folder, or replace the graph in one.

    Raises:
        FormatError: the folder holds something else.
    """
    if folder.exists() and not _ours(folder):
        raise FormatError(f"a graph is saved into a new, empty or graph folder, got {folder}: choose another path")
    made = not folder.exists()
    arrays = folder / ARRAYS
    arrays.mkdir(parents=True, exist_ok=True)
    before = {path for path in _litter(folder) if path.suffix == ".npy"}
    try:
        document = _write_arrays(arrays, stored)
        _replace(folder / INDEX, json.dumps(document, indent=1).encode())
    except BaseException:
        for path in _litter(folder) - before:  # what was there still opens, and nothing half is left
            path.unlink(missing_ok=True)
        if made:
            for emptied in (arrays, folder):
                with contextlib.suppress(OSError):  # another process has put something there: its own
                    emptied.rmdir()
        raise
    named = {entry["file"] for entry in array_entries(document)}
    for path in _litter(folder):
        if f"{ARRAYS}/{path.name}" not in named:
            path.unlink(missing_ok=True)


def read(folder: Path) -> Stored:
    """Map a graph folder. Sizes, dtypes and shapes are checked here; bytes and structure by `verify`.

    Raises:
        FormatError: no graph, a newer format, or a file that is missing, truncated or unlike its description.
    """
    document = read_index(folder)
    try:
        num_nodes = {str(entry["type"]): int(entry["count"]) for entry in document["node_types"]}
        relations: dict[Relation, Csc] = {}
        for entry in document["relations"]:
            relation = (str(entry["source"]), str(entry["name"]), str(entry["destination"]))
            relations[relation] = _read_csc(folder, relation, entry, num_nodes)
        features = FeatureStore()
        for entry in document["features"]:
            owner = _owner(entry["of"])
            rows = _read_rows(folder, entry["array"])
            count = num_nodes[owner] if isinstance(owner, str) else relations[owner].num_edges
            if rows.array.shape[0] != count:
                raise FormatError(
                    f"{folder / INDEX}: `{entry['name']}` of {owner} must have {count} rows, got {rows.array.shape[0]}"
                )
            features.hold(owner, str(entry["name"]), rows)
        return Stored(relations=relations, num_nodes=num_nodes, features=features, name=str(document.get("name", "")))
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, FormatError):
            raise
        raise FormatError(
            f"{folder / INDEX} must describe a graph as FORMAT.md says, got a broken entry ({error!r}): save it again"
        ) from error


def read_index(folder: Path) -> dict[str, Any]:
    """The parsed `graph.json`, its format and version checked.

    Raises:
        FormatError: absent, unreadable, another format, or newer than this version reads.
    """
    path = folder / INDEX
    try:
        document = json.loads(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        raise FormatError(f"a graph folder holds {INDEX}, got none at {folder}: save or ingest a graph there first") from None
    except (OSError, ValueError) as error:
        raise FormatError(f"{path} must be readable JSON, got {error}: save the graph again") from error
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise FormatError(f'{path} must say "format": "{FORMAT}": it is not a graph of ours')
    version = document.get("version")
    if not isinstance(version, int) or version > VERSION:
        raise FormatError(f"{path} must be of format version {VERSION} or older, got {version}: update gnnhet to read it")
    return document


def array_entries(document: dict[str, Any]) -> list[dict[str, Any]]:
    """The description of every array file that `graph.json` names.

    Raises:
        FormatError: an entry lacks a part.
    """
    try:
        entries = [array for relation in document["relations"] for array in relation["arrays"].values()]
        entries += [entry["array"] for entry in document["features"]]
        for entry in entries:
            if missing := _ENTRY - set(entry):
                raise KeyError(*sorted(missing))
        return entries
    except (KeyError, TypeError, AttributeError) as error:
        raise FormatError(f"{INDEX} must describe arrays as FORMAT.md says, got a broken entry ({error!r})") from error


def array_path(folder: Path, entry: dict[str, Any]) -> Path:
    """Where an array lies; a name that leaves the folder is refused.

    Raises:
        FormatError: the name is not a plain file name under `arrays/`.
    """
    name = str(entry["file"])
    if not re.fullmatch(rf"{ARRAYS}/[A-Za-z0-9_.-]+\.npy", name):
        raise FormatError(f"files of a graph must lie in its {ARRAYS}/ folder, got {name!r}")
    return folder / name


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
    dtype = getattr(torch, str(entry["dtype"]), None)
    if not isinstance(dtype, torch.dtype):
        raise FormatError(f"{folder / INDEX} must name dtypes that torch has, got {entry['dtype']!r}")
    return Rows(array=map_array(folder, entry), dtype=dtype)


def _owner(value: object) -> Owner:
    """A node type, or a relation from its list of three."""
    if isinstance(value, list):
        source, name, destination = value
        return str(source), str(name), str(destination)
    return str(value)


def _write_arrays(arrays: Path, stored: Stored) -> dict[str, Any]:
    """Write every array, and return the document that names them."""
    relations = []
    for number, (relation, part) in enumerate(stored.relations.items()):
        stem = f"edges{number:03d}.{'.'.join(map(_slug, relation))}"
        given = {"indptr": part.indptr, "indices": part.indices, "edge_ids": part.edge_ids}
        files = {key: _write_array(arrays, f"{stem}.{key}", value) for key, value in given.items() if value is not None}
        source, name, destination = relation
        relations.append({"source": source, "name": name, "destination": destination, "count": part.num_edges, "arrays": files})
    features = []
    for number, (owner, name, rows) in enumerate(stored.features):
        owner_slug = _slug(owner) if isinstance(owner, str) else ".".join(map(_slug, owner))
        entry = _write_array(arrays, f"feature{number:03d}.{owner_slug}.{_slug(name)}", rows.array)
        entry["dtype"] = str(rows.dtype).removeprefix("torch.")
        features.append({"of": owner if isinstance(owner, str) else list(owner), "name": name, "array": entry})
    return {
        "format": FORMAT,
        "version": VERSION,
        "name": stored.name,
        "node_types": [{"type": node_type, "count": count} for node_type, count in stored.num_nodes.items()],
        "relations": relations,
        "features": features,
    }


def _write_array(arrays: Path, stem: str, array: npt.NDArray[Any]) -> dict[str, Any]:
    """Write one array beside its place, then rename it to a name that holds its checksum."""
    beside = arrays / f".{stem}.{os.getpid()}.part"
    with beside.open("wb") as file:
        hashing = _HashingFile(file)
        np.lib.format.write_array(hashing, array, allow_pickle=False)  # only .write is used
        file.flush()
        os.fsync(file.fileno())
    checksum = hashing.digest.hexdigest()
    path = arrays / f"{stem}-{checksum[:8]}.npy"
    beside.rename(path)
    return {
        "file": f"{ARRAYS}/{path.name}",
        "dtype": array.dtype.name,
        "shape": list(array.shape),
        "bytes": path.stat().st_size,
        "xxh3_128": checksum,
    }


class _HashingFile:
    """Writes through to a file, and hashes what passes."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.digest = xxhash.xxh3_128()

    def write(self, data: bytes) -> int:
        """Write and hash."""
        self.digest.update(data)
        return self._file.write(data)


def _replace(path: Path, data: bytes) -> None:
    """Put `data` at `path` in one step that survives a power cut: write beside, fsync, rename, fsync the folders."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    with beside.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    _sync_folder(path.parent / ARRAYS)
    beside.replace(path)
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    """Make renames in a folder durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _ours(folder: Path) -> bool:
    """Whether a folder is empty, or holds a graph or what an interrupted save left, and nothing of anybody else's."""
    if not folder.is_dir():
        return False
    if (folder / INDEX).exists():
        read_index(folder)  # refuses another program's graph.json
        return True
    arrays = folder / ARRAYS
    found = set(folder.iterdir()) | (set(arrays.iterdir()) if arrays.is_dir() else set())
    return found <= _litter(folder) | {arrays}


def _litter(folder: Path) -> set[Path]:
    """Files that saves write, by their names: arrays, and what an interrupted one left beside."""
    arrays = folder / ARRAYS
    inside = arrays.iterdir() if arrays.is_dir() else ()
    return {path for path in inside if _WRITTEN.fullmatch(path.name)} | set(folder.glob(f".{INDEX}.*.part"))


def _slug(text: str) -> str:
    """Text as it may stand in a file name."""
    return re.sub(r"[^A-Za-z0-9_-]+", "_", text)[:40]
