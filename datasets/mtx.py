"""Matrix Market files (Boisvert, Pozo, Remington, 1996): a sparse matrix as a graph."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gnnhet.datasets import tokens
from gnnhet.datasets.raw import HOMOGENEOUS, NODE, Array, RawGraph, Relation
from gnnhet.errors import FormatError
from gnnhet.jit import frozen

ROW, COLUMN = "row", "column"
_FIELDS, _SYMMETRIES = ("real", "integer", "pattern"), ("general", "symmetric", "skew-symmetric")
# SuiteSparse GraphBLAS writes the type of the values into a comment, since Matrix Market knows but four.
_TYPES: dict[str, np.dtype | None] = {
    "bool": np.dtype(bool),
    "float": np.dtype(np.float32),
    "double": np.dtype(np.float64),
    "float complex": None,
    "double complex": None,
    **{f"{name}_t": np.dtype(name) for name in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")},
}
_GRAPHBLAS = "%%graphblas type "
_LONGEST = 1 << 16


@dataclass(frozen=True)
class _Header:
    """What stands before the entries."""

    file: str
    field: str
    symmetry: str
    kind: np.dtype | None
    shape: tuple[int, int]
    count: int
    begin: int


def read(file: str | Path) -> RawGraph:
    """Read a coordinate matrix: an entry (i, j) is an edge from node i - 1 to node j - 1, its value the edge's `weight`.

    A square matrix is a homogeneous graph; any other has node types `row` and `column`, and edges from rows to columns. Of a
    symmetric matrix every entry off the diagonal is two edges, of a skew-symmetric one with weights of opposite sign: all
    entries in their order, then all mirrored ones. Entries that are zero are edges. Weights are int64 where all values are
    integers that fit, else float64; pattern matrices have none.

    Args:
        file: `.mtx` or `.mtx.gz`, read into memory.

    Raises:
        FormatError: absent, damaged, no Matrix Market file, or a dense or complex matrix; the message names the line.
    """
    text = tokens.read_text(file, "a Matrix Market file")
    header = _header(str(file), text)
    rows, columns, spans = _entries(header, text)
    weight = _weights(header, text, spans) if header.field != "pattern" else None
    if header.symmetry != "general":
        _check_triangle(header, rows, columns)
        off = np.flatnonzero(rows != columns)
        rows, columns = np.concatenate([rows, columns[off]]), np.concatenate([columns, rows[off]])
        if weight is not None:
            weight = np.concatenate([weight, -weight[off] if header.symmetry == "skew-symmetric" else weight[off]])
    square = header.shape[0] == header.shape[1]
    relation: Relation = HOMOGENEOUS if square else (ROW, "to", COLUMN)
    return RawGraph(
        num_nodes={NODE: header.shape[0]} if square else {ROW: header.shape[0], COLUMN: header.shape[1]},
        edges={relation: (rows, columns)},
        edge_features={} if weight is None else {relation: {"weight": weight}},
        name=Path(file).name.removesuffix(".gz").removesuffix(".mtx"),
    )


def _header(file: str, text: Array) -> _Header:
    """Read and check the lines before the entries."""
    lines = _lines(text)
    banner, begin = next(lines, ("", 0))
    words = banner.lower().split()
    if not words or words[0] != "%%matrixmarket":
        raise FormatError(f"{file} must begin with %%MatrixMarket, got {banner[:60]!r}: restore its first line")
    if len(words) != 5 or words[1] != "matrix" or words[2] not in ("coordinate", "array"):
        raise FormatError(f"{file} line 1 must be '%%MatrixMarket matrix coordinate FIELD SYMMETRY', got {banner[:80]!r}")
    if words[2] == "array":
        raise FormatError(f"{file} must be a coordinate matrix, got array, which is dense: save its nonzeros as coordinate")
    field, symmetry, kind = words[3], words[4], None
    if field not in _FIELDS or symmetry not in _SYMMETRIES:
        raise FormatError(
            f"{file} line 1 must name a field of {', '.join(_FIELDS)} and a symmetry of {', '.join(_SYMMETRIES)}, got {field} "
            f"and {symmetry}: convert the values to real numbers"
        )
    if field == "pattern" and symmetry == "skew-symmetric":
        raise FormatError(f"{file} line 1 must give a skew-symmetric matrix values, got pattern: say symmetric")
    number = 1
    for line, begin in lines:
        number += 1
        found = line.strip()
        if found.lower().startswith(_GRAPHBLAS):
            name = found[len(_GRAPHBLAS) :].strip().lower()
            if name not in _TYPES:
                raise FormatError(f"{file} line {number} must name a type of GraphBLAS, got {name[:40]!r}: remove the line")
            kind = _TYPES[name]
        if not found or found.startswith("%"):
            continue
        sizes = found.split()
        if len(sizes) != 3 or not all(size.isascii() and size.isdigit() and len(size) < 19 for size in sizes):
            raise FormatError(f"{file} line {number} must be three counts, ROWS COLUMNS ENTRIES, got {found[:60]!r}")
        shape, count = (int(sizes[0]), int(sizes[1])), int(sizes[2])
        if symmetry != "general" and shape[0] != shape[1]:
            raise FormatError(f"{file} line {number} must be a square matrix, as it is {symmetry}, got {shape[0]} x {shape[1]}")
        if kind is not None and kind.kind == "f" and field == "integer":
            field = "real"
        return _Header(file, field, symmetry, kind, shape, count, begin)
    raise FormatError(f"{file} must have a line ROWS COLUMNS ENTRIES, got its end before one: restore it")


def _lines(text: Array) -> Iterator[tuple[str, int]]:
    """Each line, and where the next begins; a line of a header is short."""
    begin = 0
    while begin < text.size:
        line, newline, _ = text[begin : begin + _LONGEST].tobytes().partition(b"\n")
        begin += len(line) + len(newline)
        yield line.decode("utf-8", "replace").rstrip("\r"), begin


def _entries(header: _Header, text: Array) -> tuple[Array, Array, Array]:
    """Rows and columns from 0, and where the values are."""
    short = f"{header.file} must have {header.count:,} entries, as its header says, got"
    if header.count > (text.size - header.begin) // 4 + 1:  # so that a false count asks for no memory
        raise FormatError(f"{short} fewer: it was truncated or changed")
    valued = header.field != "pattern"
    rows, columns = np.empty(header.count, np.int64), np.empty(header.count, np.int64)
    spans = np.empty((header.count if valued else 0, 2), np.int64)
    count, bad = tokens.entries(frozen(text), header.begin, rows, columns, spans)
    if bad >= 0 and count == header.count:
        raise FormatError(f"{short} more, from line {tokens.line_of(text, bad)} on: correct one of them")
    if bad >= 0:
        rule = "ROW COLUMN VALUE" if valued else "ROW COLUMN"
        raise FormatError(
            f"{header.file} line {tokens.line_of(text, bad)} must be {rule}, got {tokens.shown(text, bad)}: correct it"
        )
    if count < header.count:
        raise FormatError(f"{short} {count:,}: it was truncated or changed")
    outside = (rows < 1) | (rows > header.shape[0]) | (columns < 1) | (columns > header.shape[1])
    if outside.any():
        entry = int(outside.argmax())
        raise FormatError(
            f"{header.file} entry {entry + 1} must lie in {header.shape[0]} x {header.shape[1]}, counted from 1, got "
            f"{rows[entry]} {columns[entry]}: correct it"
        )
    rows -= 1
    columns -= 1
    return rows, columns, spans


def _weights(header: _Header, text: Array, spans: Array) -> Array:
    """The values, held against the field and the type that the header names."""
    reals, wholes, bad = tokens.values(text, spans)
    if bad < 0 and header.field == "integer" and wholes is None:
        # the first that is no integer; one of more than 15 digits is
        whole = np.array([_is_whole(text[begin:end].tobytes()) for begin, end in spans.tolist()])
        bad = -1 if whole.all() else int(spans[int(whole.argmin()), 0])
    if bad >= 0:
        kind = "an integer" if header.field == "integer" else "a number"
        line = tokens.line_of(text, bad)
        raise FormatError(f"{header.file} line {line} must end in {kind}, got {tokens.shown(text, bad)}: correct it")
    if header.kind is not None and header.kind.kind in "iub":
        least, most = (0, 1) if header.kind.kind == "b" else (np.iinfo(header.kind).min, np.iinfo(header.kind).max)
        outside = (reals < float(least)) | (reals > float(most)) | np.isnan(reals)
        if outside.any():
            line = tokens.line_of(text, int(spans[int(outside.argmax()), 0]))
            raise FormatError(
                f"{header.file} line {line} must end in a value of {least} to {most}, as the type {header.kind} of its header "
                f"says, got {reals[outside][0]:g}: correct one of them"
            )
    return reals if wholes is None or header.field == "real" else wholes


def _is_whole(token: bytes) -> bool:
    """Whether it is an integer."""
    return token.lstrip(b"+-").isdigit()


def _check_triangle(header: _Header, rows: Array, columns: Array) -> None:
    """No entry may stand beside its own mirror image."""
    if header.symmetry == "skew-symmetric" and (rows == columns).any():
        node = int(rows[rows == columns][0]) + 1
        raise FormatError(f"{header.file} must have no entry on the diagonal, as it is skew-symmetric, got {node} {node}")
    below = rows > columns
    if not below.any() or not (rows < columns).any():
        return
    order = np.lexsort((np.minimum(rows, columns), np.maximum(rows, columns)))
    low, high, side = np.minimum(rows, columns)[order], np.maximum(rows, columns)[order], below[order]
    twice = (low[1:] == low[:-1]) & (high[1:] == high[:-1]) & (side[1:] != side[:-1])
    if twice.any():
        first = int(twice.argmax())
        raise FormatError(
            f"{header.file} must give each entry in one triangle, as it is {header.symmetry}, got {high[first] + 1} "
            f"{low[first] + 1} in both: leave one out or say general"
        )
