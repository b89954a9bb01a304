"""Re-check of a saved graph: every byte against its checksum, every array against the rules of the graph.

Each file is read once, in pieces, by a thread of its own; a piece is hashed and held against the rules of what the file is.
Memory stays under some pieces a thread whatever the size of the graph.
"""

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import xxhash

from gnnhet.datasets.raw import NO_SPLIT, TEST
from gnnhet.errors import ChecksumError, FormatError, GnnhetError, GraphError
from gnnhet.jit import frozen
from gnnhet.storage import disk
from gnnhet.storage.csc import IntArray, check_ids, first_fall
from gnnhet.storage.index import array_entries, file_entries, owner_of, read_index, table_path

_PIECE_BYTES = 8 * 2**20
_TRIES = 100  # each time another process replaced the graph meanwhile

Check = Callable[[npt.NDArray[Any]], None]


@dataclass(frozen=True, kw_only=True)
class Verified:
    """What `verify` found.

    Attributes:
        files: files read: arrays, and tables of ids.
        num_bytes: their bytes.
        problems: one line for each damaged file or broken rule; empty where the graph is whole.
    """

    files: int
    num_bytes: int
    problems: tuple[str, ...]


def verify(path: str | Path, advance: Callable[[int], None] = lambda num_bytes: None) -> Verified:
    """Read a graph folder whole. Where another process changes it meanwhile, the graph that it has then is read again.

    Args:
        path: the folder.
        advance: called with the bytes read since its last call, from several threads; of each file all its bytes come.

    Raises:
        FormatError: there is no readable `graph.json`.
    """
    folder = Path(path)
    for _ in range(_TRIES):
        document = read_index(folder)
        result = _verify(folder, document, advance)
        if not result.problems or read_index(folder) == document:
            break
    return result


def _verify(folder: Path, document: dict[str, Any], advance: Callable[[int], None]) -> Verified:
    """Read the files that a document names."""
    entries = file_entries(document)
    arrays = {id(entry) for entry in array_entries(document)}
    checks = _checks(document)
    stop = threading.Event()

    def check(entry: dict[str, Any]) -> str:
        is_array = id(entry) in arrays
        return _check_file(folder, entry, checks.get(id(entry)) if is_array else None, is_array, advance, stop)

    ordered = sorted(entries, key=lambda entry: -int(entry["bytes"]))  # the largest first: none is left over to the end
    pool = ThreadPoolExecutor(max_workers=os.cpu_count())
    try:
        lines = {id(entry): line for entry, line in zip(ordered, pool.map(check, ordered), strict=True)}
    finally:
        stop.set()  # Ctrl-C ends here at once
        pool.shutdown(cancel_futures=True)
    problems = [lines[id(entry)] for entry in entries if lines[id(entry)]]
    if not problems:
        try:
            disk.map_document(folder, document)
        except FormatError as error:
            problems = [str(error)]
    return Verified(files=len(entries), num_bytes=sum(int(entry["bytes"]) for entry in entries), problems=tuple(problems))


def _check_file(
    folder: Path,
    entry: dict[str, Any],
    check: Check | None,
    is_array: bool,
    advance: Callable[[int], None],
    stop: threading.Event,
) -> str:
    """What is wrong with one file, or an empty line; a checksum that differs is told before any rule."""
    left = int(entry["bytes"])
    broken = ""
    try:
        path = disk.array_path(folder, entry) if is_array else table_path(folder, entry)
        mapped = disk.map_array(folder, entry) if is_array else None  # only the header is read
        digest = xxhash.xxh3_128()
        with path.open("rb", buffering=0) as file:
            if mapped is not None:
                header = file.read(path.stat().st_size - mapped.nbytes)
                digest.update(header)
                advance(len(header))
                left -= len(header)
            room = np.empty(_PIECE_BYTES, np.uint8)
            while not stop.is_set() and (size := _fill(file, room)):
                digest.update(room[:size].data)
                if check is not None and mapped is not None and not broken:
                    broken = _broken(check, room[:size], mapped.dtype)
                advance(size)
                left -= size
        if not stop.is_set() and digest.hexdigest() != entry["xxh3_128"]:
            raise ChecksumError(f"{path} must have checksum {entry['xxh3_128']}, got {digest.hexdigest()}: restore it")
    except (GnnhetError, OSError, KeyError) as error:
        broken = str(error) if isinstance(error, GnnhetError) else f"{folder / str(entry['file'])}: {error}"
    else:
        broken = broken and f"{path}: {broken}"
    if left > 0 and not stop.is_set():
        advance(left)
    return broken


def _fill(file: BinaryIO, room: npt.NDArray[np.uint8]) -> int:
    """Read until `room` is full or the file ends; the bytes read."""
    size = 0
    while size < room.size and (more := file.readinto(room[size:].data)):  # type: ignore[attr-defined]
        size += more
    return size


def _broken(check: Check, piece: npt.NDArray[np.uint8], dtype: npt.DTypeLike) -> str:
    """The rule that a piece breaks, or an empty line."""
    width = np.dtype(dtype).itemsize
    try:
        check(frozen(piece[: piece.size // width * width].view(dtype)))
    except GnnhetError as error:
        return str(error)
    return ""


def _checks(document: dict[str, Any]) -> dict[int, Check]:
    """The rules of each array, by the identity of its entry."""
    found: dict[int, Check] = {}
    try:
        counts = {str(entry["type"]): int(entry["count"]) for entry in document["node_types"]}
        for entry in document["relations"]:
            relation = (str(entry["source"]), str(entry["name"]), str(entry["destination"]))
            arrays = entry["arrays"]
            found[id(arrays["indptr"])] = _Pointers(str(relation), int(entry["count"]))
            found[id(arrays["indices"])] = _Ids(counts[relation[0]], f"indices (source ids) of {relation}")
            if "edge_ids" in arrays:
                found[id(arrays["edge_ids"])] = _Ids(2**63 - 1, f"edge_ids of {relation}")
        for entry in document["features"]:
            what = f"`{entry['name']}` of {owner_of(entry)}"
            if entry["name"] == "y":
                found[id(entry["array"])] = _Labels(what, entry["array"]["dtype"] == "bfloat16")
            elif entry["name"] == "split":
                found[id(entry["array"])] = _Splits(what, len(entry["array"]["shape"]))
    except (KeyError, TypeError, ValueError) as error:
        raise FormatError(f"{disk.INDEX} must describe a graph as FORMAT.md says, got a broken entry ({error!r})") from error
    return found


class _Pointers:
    """Rows of a relation: from 0 to its edges, never falling."""

    def __init__(self, what: str, num_edges: int) -> None:
        """Nothing was seen yet."""
        self._what, self._num_edges = what, num_edges
        self._last, self._done = 0, 0

    def __call__(self, piece: npt.NDArray[Any]) -> None:
        """Check the next pointers."""
        if not piece.size:
            return
        fall = first_fall(piece)
        if fall >= 0 or piece[0] < self._last:
            high, low, at = (piece[fall], piece[fall + 1], fall) if fall >= 0 else (self._last, piece[0], -1)
            raise GraphError(
                f"indptr of {self._what} must never fall, got {int(high)} before {int(low)} at destination {self._done + at}"
            )
        if (not self._done and int(piece[0]) != 0) or int(piece[-1]) > self._num_edges:
            raise GraphError(f"indptr of {self._what} must run from 0 to the number of edges, {self._num_edges}")
        self._last, self._done = int(piece[-1]), self._done + piece.size


class _Ids:
    """Ids of 0..count-1."""

    def __init__(self, count: int, what: str) -> None:
        """Nothing was seen yet."""
        self._count, self._what, self._done = count, what, 0

    def __call__(self, piece: IntArray) -> None:
        """Check the next ids."""
        check_ids(piece, self._count, self._what, first=self._done)
        self._done += piece.size


class _Labels:
    """Classes: any numbers but NaN."""

    def __init__(self, what: str, as_bits: bool) -> None:
        """`as_bits`: bfloat16, as uint16."""
        self._what, self._as_bits = what, as_bits

    def __call__(self, piece: npt.NDArray[Any]) -> None:
        """Check the next labels."""
        values = (piece.astype(np.uint32) << 16).view(np.float32) if self._as_bits else piece
        if values.dtype.kind == "f" and bool(np.isnan(values).any()):
            raise GraphError(f"{self._what} must not be NaN: mark unlabelled nodes with -1 and use integers for classes")


class _Splits:
    """Split codes."""

    def __init__(self, what: str, axes: int) -> None:
        """`axes` of the array."""
        self._what, self._axes = what, axes

    def __call__(self, piece: npt.NDArray[Any]) -> None:
        """Check the next codes."""
        allowed = not piece.size or (piece.dtype.kind in "iu" and int(piece.min()) >= NO_SPLIT and int(piece.max()) <= TEST)
        if not allowed or self._axes != 1:
            raise GraphError(f"{self._what} must be 0 (train), 1 (validation), 2 (test) or -1 (none), one a node")
