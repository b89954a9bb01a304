"""Changes of one feature of a saved graph: a new file beside the old one, then one rename of `graph.json`.

Nothing is changed in place: a change killed at any moment leaves the graph of before or the one of after, and a process
that has the graph open keeps the rows it sees. Writers follow one another (`lock.py`), each upon what the one before left,
so that none undoes another's change. Memory stays under some pieces of 16 MiB whatever the size.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from gnnhet.errors import GraphError
from gnnhet.storage.compact import compacted
from gnnhet.storage.csc import check_ids, integers
from gnnhet.storage.disk import feature_entry, feature_stem, map_array, write_rows
from gnnhet.storage.features import ArrayLike, Owner, Rows, checked_rows
from gnnhet.storage.index import ARRAYS, array_path, owner_of, read_index, revision
from gnnhet.storage.lock import WAIT_SECONDS, changing, publish

_PIECE_BYTES = 16 * 2**20

Document = dict[str, Any]


def put_feature(
    folder: str | Path,
    owner: Owner,
    name: str,
    values: ArrayLike | Iterable[ArrayLike],
    *,
    dtype: str | None = None,
    known: Document | None = None,
    timeout_s: float = WAIT_SECONDS,
) -> int:
    """Add a feature to a saved graph, or replace it.

    Args:
        folder: of the graph.
        owner: a node type or relation.
        name: the feature's name.
        values: array or tensor, shape [count, ...]; or pieces of one, in order, for features larger than memory.
        dtype: what floating values are stored as: float32, float16, bfloat16, or int8 with a scale a column, for which pieces
            must be a list or another thing that can be read twice.
        known: the `graph.json` that the caller has open: refused where the folder's nodes or edges are others by now.
        timeout_s: how long to wait for another writer.

    Returns:
        the graph's new revision.

    Raises:
        GraphError: rows do not match the owner's count, pieces each other, or a label or split is not allowed.
        FormatError: no graph there.
        WaitError: another writer held the folder all that time.
        OSError: the disk refuses; the graph is as it was.
    """
    folder = Path(folder)

    def edit(document: Document) -> None:
        count = _count(document, owner)
        found = _find(document, owner, name)
        number = len(document["features"]) if found is None else found
        what, pieces, scale = f"`{name}` of {owner}", _pieces(owner, name, values), None
        if dtype == "int8" and isinstance(values, Iterator):
            raise GraphError(f"{what} must come in pieces that can be read twice, got an iterator: pass a list")
        if dtype is not None:
            pieces, scale = compacted(lambda: _pieces(owner, name, values), dtype, what)
        entry = write_rows(folder / ARRAYS, feature_stem(number, owner, name), pieces, count, what)
        _hold(document, feature_entry(owner, name, entry, scale))

    return _change(folder, edit, known, timeout_s)


def put_rows(
    folder: str | Path,
    owner: Owner,
    name: str,
    ids: npt.ArrayLike,
    values: ArrayLike,
    *,
    known: Document | None = None,
    timeout_s: float = WAIT_SECONDS,
) -> int:
    """Replace some rows of a feature of a saved graph, by a copy of its file.

    Args:
        folder: of the graph.
        owner: a node type or relation.
        name: the feature's name.
        ids: integers, shape [n]; of an id given twice the last row counts.
        values: array or tensor of the feature's dtype, shape [n, ...].
        known: as of `put_feature`.
        timeout_s: how long to wait for another writer.

    Returns:
        the graph's new revision.

    Raises:
        GraphError: no such feature, an id out of range, or rows of another shape or dtype.
        FormatError, WaitError, OSError: as `put_feature`.
    """
    folder = Path(folder)
    what = f"`{name}` of {owner}"
    wanted = integers(ids, f"ids of {what}").astype(np.int64, copy=False)
    rows = checked_rows(owner, name, values)
    if rows.array.shape[0] != wanted.size:
        raise GraphError(f"{what} must be given one row an id, {wanted.size}, got {rows.array.shape[0]}")

    def edit(document: Document) -> None:
        number = _required(document, owner, name)
        old = document["features"][number]
        if old.get("scale") is not None:
            raise GraphError(f"rows of {what} are stored with a scale of all rows: replace the feature whole")
        held = Rows(array=map_array(folder, old["array"]), dtype=getattr(torch, str(old["array"]["dtype"])))
        if (rows.dtype, rows.array.shape[1:]) != (held.dtype, held.array.shape[1:]):
            raise GraphError(
                f"rows of {what} must be {held.dtype} of shape {held.array.shape[1:]}, "
                f"got {rows.dtype} {rows.array.shape[1:]}: convert them"
            )
        check_ids(wanted, held.array.shape[0], f"ids of {what}")
        pieces = _patched(array_path(folder, old["array"]), held, wanted, rows)
        count = held.array.shape[0]
        entry = write_rows(folder / ARRAYS, feature_stem(number, owner, name), pieces, count, what)
        _hold(document, feature_entry(owner, name, entry, None))

    return _change(folder, edit, known, timeout_s)


def remove_feature(
    folder: str | Path, owner: Owner, name: str, *, known: Document | None = None, timeout_s: float = WAIT_SECONDS
) -> int:
    """Take a feature out of a saved graph.

    Args:
        folder: of the graph.
        owner: a node type or relation.
        name: the feature's name.
        known: as of `put_feature`.
        timeout_s: how long to wait for another writer.

    Returns:
        the graph's new revision.

    Raises:
        GraphError: there is none.
        FormatError, WaitError, OSError: as `put_feature`.
    """
    folder = Path(folder)
    return _change(folder, lambda document: document["features"].pop(_required(document, owner, name)), known, timeout_s)


def _change(folder: Path, edit: Callable[[Document], object], known: Document | None, timeout_s: float) -> int:
    """Edit a folder's document, alone, and publish it; keys that this version does not know stay."""
    read_index(folder)  # refuses what is no graph before a lock is put there
    with changing(folder, timeout_s):
        document = read_index(folder)
        if known is not None and any(known[key] != document[key] for key in ("node_types", "relations")):
            raise GraphError(f"{folder} holds another graph by now, with other nodes or edges: open it anew")
        edit(document)
        document["revision"] = revision(document) + 1
        publish(folder, document)
        return int(document["revision"])


def _count(document: Document, owner: Owner) -> int:
    """How many rows a feature of an owner has."""
    counts: dict[Owner, int] = {str(entry["type"]): int(entry["count"]) for entry in document["node_types"]}
    for entry in document["relations"]:
        counts[(str(entry["source"]), str(entry["name"]), str(entry["destination"]))] = int(entry["count"])
    if owner not in counts:
        raise GraphError(f"a feature belongs to a node type or relation of the graph, {list(counts)}, got {owner!r}")
    return counts[owner]


def _find(document: Document, owner: Owner, name: str) -> int | None:
    """The position of a feature's entry, or None."""
    for number, entry in enumerate(document["features"]):
        if owner_of(entry) == owner and entry["name"] == name:
            return number
    return None


def _required(document: Document, owner: Owner, name: str) -> int:
    """The position of a feature's entry."""
    number = _find(document, owner, name)
    if number is None:
        known = ", ".join(str(entry["name"]) for entry in document["features"] if owner_of(entry) == owner) or "none"
        raise GraphError(f"no feature `{name}` of {owner}: it has {known}")
    return number


def _hold(document: Document, entry: Document) -> None:
    """Put a feature's entry in the place of the one before, or in order."""
    number = _find(document, owner_of(entry), str(entry["name"]))
    if number is not None:
        document["features"].pop(number)
    document["features"].append(entry)
    document["features"].sort(key=lambda held: (isinstance(held["of"], list), held["of"], held["name"]))


def _pieces(owner: Owner, name: str, values: ArrayLike | Iterable[ArrayLike]) -> Iterator[Rows]:
    """Checked rows of some MiB at a time; at least one piece of an array, also of none."""
    for array in [values] if isinstance(values, np.ndarray | Tensor) else values:
        if not isinstance(array, np.ndarray | Tensor) or not array.ndim:
            raise GraphError(f"`{name}` of {owner} must be an array, a tensor, or pieces of one, got {type(array).__name__}")
        step = max(_PIECE_BYTES * len(array) // max(array.nbytes, 1), 1)
        for first in range(0, max(len(array), 1), step):
            yield checked_rows(owner, name, array[first : first + step])


def _patched(path: Path, held: Rows, ids: npt.NDArray[np.int64], rows: Rows) -> Iterator[Rows]:
    """A file's rows in pieces, with those of `ids` replaced; read, not mapped, so that memory stays small."""
    order = np.argsort(ids, kind="stable")
    ascending = ids[order]
    count, row = held.array.shape[0], held.array.shape[1:]
    width = int(np.prod(row, dtype=np.int64))
    row_bytes = width * held.array.itemsize
    begin = path.stat().st_size - count * row_bytes
    step = max(_PIECE_BYTES // max(row_bytes, 1), 1)
    for first, last in itertools.pairwise([*range(0, count, step), count] if count else [0, 0]):
        offset, numbers = begin + first * row_bytes, (last - first) * width
        piece = np.fromfile(path, held.array.dtype, numbers, offset=offset).reshape(last - first, *row)
        low, high = np.searchsorted(ascending, [first, last])
        piece[ascending[low:high] - first] = rows.array[order[low:high]]
        yield Rows(array=piece, dtype=held.dtype)
