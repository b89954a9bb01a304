"""One relation from its edges to its files."""

import contextlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gnnhet.datasets.raw import Relation
from gnnhet.datasets.source import Edges, EdgeStream
from gnnhet.errors import GraphError
from gnnhet.jit import frozen
from gnnhet.storage.arrays import ArrayFile
from gnnhet.storage.csc import index_dtype
from gnnhet.storage.ingest import kernels
from gnnhet.storage.ingest.options import Options
from gnnhet.storage.ingest.place import LOW, SRC, TIME, Placer
from gnnhet.storage.ingest.spill import Array, Column, Parted, Spill, part

_BUCKET_BITS = 10  # at most: more buckets than this make runs too short for the disk
_LEAST_EDGES = 1 << 16  # a bucket, about; fewer edges need fewer buckets
_MOST_CHUNK, _LEAST_CHUNK = 8 << 20, 1 << 10  # edges
_MOST_PLACED = 1 << 30  # edges that a thread places at once
_VALUE, _POSITION = "value.", "edge_ids"
_MOST_REPORTED = 1000

Advance = Callable[[int], None]


@dataclass(frozen=True, kw_only=True)
class RelationJob:
    """What is made of one relation's edges.

    Attributes:
        relation: its name.
        stream: its edges.
        num_src: count of source nodes.
        num_dst: count of destination nodes.
        reverse: exchange the ends of every edge.
        options: how edges become rows.
        skip: leave out edges whose ids are none, and list them in `report`, instead of stopping.
        report: lines about what was left out.
        free: bytes to work with.
        threads: that work at once.
    """

    relation: Relation
    stream: EdgeStream
    num_src: int
    num_dst: int
    reverse: bool
    options: Options
    skip: bool
    report: list[str]
    free: int
    threads: int

    @property
    def columns(self) -> tuple[Column, ...]:
        """What is written of an edge in the first pass."""
        held = [
            Column(SRC, np.dtype(index_dtype(self.num_src))),
            Column(LOW, np.dtype(np.uint16 if self.shift <= 16 else np.uint32)),
        ]
        if self.options.keep_edge_ids:
            held.append(Column(_POSITION, np.dtype(np.int64)))
        return (*held, *(Column(_VALUE + name, np.dtype(dtype)) for name, dtype in self.stream.values.items()))

    @property
    def shift(self) -> int:
        """Bits of a destination within its bucket."""
        bits = max(self.num_dst - 1, 0).bit_length()
        count = self.stream.count
        wanted = 1 << _BUCKET_BITS if count is None else min(1 << _BUCKET_BITS, max(1, count // _LEAST_EDGES))
        return max(0, min(bits - (wanted.bit_length() - 1), 31))

    @property
    def num_buckets(self) -> int:
        """Of the first pass."""
        return max(1, -(-self.num_dst >> self.shift))

    @property
    def sort(self) -> str | None:
        """What rows are sorted by."""
        return None if self.options.sort_rows == "time" and "time" not in self.stream.values else self.options.sort_rows

    def disk_bytes(self) -> int:
        """What both passes write, about; 0 where the number of edges is not known."""
        count = (self.stream.count or 0) * (2 if self.options.undirected else 1)
        edge = sum(column.width for column in self.columns)
        return count * (2 * edge - self.columns[1].width) + 8 * self.num_dst if count else 0

    def part(self, path: Path, advance: Advance) -> Spill:
        """The first pass.

        Raises:
            GraphError: an id that is no node.
        """
        held = sum(column.width for column in self.columns)
        given = 16 + sum(np.dtype(dtype).itemsize for dtype in self.stream.values.values())
        twice = 2 if self.options.undirected else 1
        edge = given * (self.threads + 2) + twice * (given + 2 * held) * self.threads
        most = min(_MOST_CHUNK, max(_LEAST_CHUNK, (self.free - self.stream.held_bytes) * 3 // 4 // edge))
        return part(self._pieces(most), path, self.columns, self.num_buckets, self.threads, advance)

    def place(
        self, spill: Spill, arrays: Path, stem: str, feature_stem: Callable[[str], str], advance: Advance
    ) -> dict[str, Any]:
        """The second pass: the relation's files, and how `graph.json` describes them.

        Args:
            spill: of the first pass.
            arrays: where the files go.
            stem: the beginning of their names.
            feature_stem: of the files of values, from their names.
            advance: called with the edges done since its last call.

        Returns:
            `count`, `arrays`, and `values` by name.
        """
        threads = self.threads + 2  # some wait for the disk while others compute
        row = 2 * spill.edge_bytes + (16 if self.sort or self.options.distinct else 0)
        placer = Placer(
            what=str(self.relation),
            distinct=self.options.distinct,
            sort=self.sort,
            limit=min(_MOST_PLACED, max(_LEAST_CHUNK, self.free // 2 // (threads + 2) // row)),
            threads=threads,
            work=spill.path.parent,
        )
        total = int(spill.sizes().sum())
        kept = [column for column in spill.columns if column.name != LOW]
        with contextlib.ExitStack() as stack:
            files = {
                column.name: stack.enter_context(ArrayFile(arrays, _stem(column, stem, feature_stem), *_shape(column, total)))
                for column in kept
            }
            pointers = stack.enter_context(ArrayFile(arrays, f"{stem}.indptr", np.int64, (self.num_dst + 1,)))
            pointers.write(np.zeros(1, np.int64))
            count = 0
            written = 0
            for degrees, columns in placer.rows(spill, self.num_dst, self.shift):
                for name, array in columns.items():
                    files[name].write(array)
                written += columns[SRC].shape[0] if columns else 0
                if degrees.size:
                    ends = np.cumsum(degrees)
                    ends += count
                    pointers.write(ends)
                    count = int(ends[-1])
                    advance(written)
                    written = 0
            entries = {name: file.finish(count) for name, file in files.items()}
            entries["indptr"] = pointers.finish()
        names = {"indptr": "indptr", SRC: "indices", _POSITION: "edge_ids"}
        return {
            "count": count,
            "arrays": {names[name]: entries[name] for name in ("indptr", SRC, _POSITION) if name in entries},
            "values": {name.removeprefix(_VALUE): entry for name, entry in entries.items() if name.startswith(_VALUE)},
        }

    def _pieces(self, most: int) -> Iterator[Callable[[], Parted]]:
        """What parts each chunk of the stream."""
        first = 0
        for piece in _gathered(self.stream.read(most), most):
            yield self._cutter(piece, first)
            first += piece.src.size

    def _cutter(self, piece: Edges, first: int) -> Callable[[], Parted]:
        """What parts one chunk, whose first edge is the input's edge `first`; runs on a thread."""

        def cut() -> Parted:
            src, dst = (_plain(ids) for ids in ((piece.dst, piece.src) if self.reverse else (piece.src, piece.dst)))
            columns = {_VALUE + name: np.asarray(piece.values[name], np.dtype(dtype).base) for name, dtype in self._values}
            if self.options.keep_edge_ids:
                columns[_POSITION] = np.arange(first, first + src.size)
            if self.sort == "time" and columns[TIME].dtype.kind == "f" and bool(np.isnan(columns[TIME]).any()):
                bad = first + int(np.isnan(columns[TIME]).argmax())
                raise GraphError(f"times of {self.relation} must not be NaN to be sorted by, got NaN at edge {bad}")
            if self.relation[0] == self.relation[2]:
                if not self.options.self_loops:
                    src, dst, columns = _only(src != dst, src, dst, columns)
                if self.options.undirected:
                    src, dst = _interleaved(src, dst), _interleaved(dst, src)
                    columns = {name: np.repeat(array, 2, axis=0) for name, array in columns.items()}
            bad = 0
            while True:
                bucket = np.empty(src.size, np.uint16)
                low = np.empty(src.size, self.columns[1].dtype)
                counts = np.zeros(self.num_buckets, np.int64)
                bad = kernels.split_ids(frozen(src), frozen(dst), self.num_src, self.num_dst, self.shift, bucket, low, counts)
                if bad < 0:
                    return Parted(bucket, counts, {SRC: src, LOW: low, **columns})
                src, dst, columns = self._without_bad(piece, first, src, dst, columns)

        return cut

    @property
    def _values(self) -> list[tuple[str, np.dtype]]:
        return list(self.stream.values.items())

    def _without_bad(self, piece: Edges, first: int, src: Array, dst: Array, columns: dict[str, Array]) -> Any:
        """What is left of a chunk with ids that are no nodes; raises where they are not skipped."""
        ends = (
            ("source", piece.src, self.num_dst if self.reverse else self.num_src),
            (
                "destination",
                piece.dst,
                self.num_src if self.reverse else self.num_dst,
            ),
        )
        outside = np.zeros(piece.src.size, np.bool_)
        for role, ids, count in ends:
            bad = (ids < 0) | (ids >= count)
            for at in np.flatnonzero(bad & ~outside)[: _MOST_REPORTED if self.skip else 1].tolist():
                line = f"{role} ids of {self.relation} must lie in 0..{count - 1}, got {int(ids[at])} at edge {first + at}"
                if not self.skip:
                    raise GraphError(f"{line}: correct it, or leave such edges out with --on-error skip")
                if len(self.report) < _MOST_REPORTED:
                    self.report.append(line)
            outside |= bad
        good = ((src >= 0) & (src < self.num_src)) & ((dst >= 0) & (dst < self.num_dst))
        return _only(good, src, dst, columns)


def _stem(column: Column, stem: str, feature_stem: Callable[[str], str]) -> str:
    """The beginning of a column's file name."""
    if column.name.startswith(_VALUE):
        return feature_stem(column.name.removeprefix(_VALUE))
    return f"{stem}.{'indices' if column.name == SRC else column.name}"


def _shape(column: Column, count: int) -> tuple[np.dtype, tuple[int, ...]]:
    """The dtype and shape of a column's array."""
    return column.dtype.base, (count, *column.dtype.shape)


def _gathered(pieces: Iterator[Edges], most: int) -> Iterator[Edges]:
    """Small pieces put together, so that chunks are large."""
    held: list[Edges] = []
    size = 0
    for piece in pieces:
        if held and size + piece.src.size > most:
            yield _joined(held)
            held, size = [], 0
        held.append(piece)
        size += piece.src.size
        del piece
        if size >= most // 2:
            yield _joined(held)
            held, size = [], 0
    if held:
        yield _joined(held)


def _joined(pieces: list[Edges]) -> Edges:
    """Pieces as one; the list is emptied."""
    if len(pieces) == 1:
        return pieces.pop()
    made = Edges(
        np.concatenate([piece.src for piece in pieces]),
        np.concatenate([piece.dst for piece in pieces]),
        {name: np.concatenate([piece.values[name] for piece in pieces]) for name in pieces[0].values},
    )
    pieces.clear()
    return made


def _plain(ids: Array) -> Array:
    """Ids as int32 or int64: kernels are compiled for these."""
    return ids if ids.dtype in (np.int32, np.int64) else ids.astype(np.int64)


def _interleaved(one: Array, other: Array) -> Array:
    """An entry of one, an entry of the other: an edge and its reverse stay together, whatever the chunks."""
    both = np.empty(2 * one.size, one.dtype if one.dtype == other.dtype else np.int64)
    both[0::2], both[1::2] = one, other
    return both


def _only(kept: Array, src: Array, dst: Array, columns: dict[str, Array]) -> tuple[Array, Array, dict[str, Array]]:
    """The edges that stay."""
    if bool(kept.all()):
        return src, dst, columns
    return src[kept], dst[kept], {name: array[kept] for name, array in columns.items()}


def load_spill(path: Path, columns: tuple[Column, ...]) -> Spill | None:
    """A first pass that was finished before, or None where its files are not there."""
    try:
        with np.load(path.with_suffix(".npz"), allow_pickle=False) as places:
            spill = Spill(path=path, columns=columns, counts=places["counts"], begins=places["begins"])
    except (OSError, ValueError, KeyError):
        return None
    ends = spill.begins[-1] if spill.begins.size else 0
    return spill if path.exists() and os.stat(path).st_size >= ends else None
