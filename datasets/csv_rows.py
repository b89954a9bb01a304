"""Comma-separated numbers without names, packed or not, read in pieces."""

import gzip
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gnnhet.datasets import tokens
from gnnhet.datasets.files import existing, one_line
from gnnhet.datasets.raw import Array
from gnnhet.errors import FormatError
from gnnhet.jit import frozen, kernel

_PIECE_BYTES = 1 << 23
_COMMA = ord(",")


@dataclass(frozen=True)
class CsvRows:
    """A file of lines with equally many numbers each; `.gz` files are unpacked while they are read.

    Attributes:
        path: of the file.
        columns: numbers in a line.
        rows: how many lines it must have; None where nothing says so.
        integer: whether all numbers must be integers; an empty field is NaN where not.
    """

    path: Path
    columns: int
    rows: int | None
    integer: bool

    def read(self, most: int) -> Iterator[Array]:
        """Pieces of `most` rows, the last one of fewer, from the beginning: int64 or float64, shape [n, columns].

        Raises:
            FormatError: damaged, a line that breaks the rule, or fewer or more lines than there must be.
        """
        waiting: list[Array] = []
        count = held = 0
        for piece in self._pieces():
            count += piece.shape[0]
            if self.rows is not None and count > self.rows:
                break
            waiting.append(piece)
            held += piece.shape[0]
            if held >= most:
                whole = np.concatenate(waiting)
                full = held // most * most
                yield from (whole[start : start + most] for start in range(0, full, most))
                waiting, held = [whole[full:]], held - full
        if self.rows is not None and count != self.rows:
            more = "more" if count > self.rows else f"{count:,}"
            raise FormatError(f"{self.path} must have {self.rows:,} lines, as the counts beside it say, got {more}: restore it")
        if held:
            yield np.concatenate(waiting)

    def _pieces(self) -> Iterator[Array]:
        """Numbers of as many lines as a piece of text has."""
        line, rest = 1, b""
        try:
            with _opened(self.path) as file:
                while True:
                    content = file.read(_PIECE_BYTES)
                    text, newline, after = (rest + content).rpartition(b"\n") if content else (rest, b"", b"")
                    if content and not newline:
                        rest = after
                        if len(rest) > 8 * _PIECE_BYTES:
                            raise FormatError(f"{self.path} line {line} must be numbers, got no end of it: restore it")
                        continue
                    rest = after
                    if text:
                        yield self._numbers(np.frombuffer(text, np.uint8), line)
                    line += text.count(b"\n") + 1
                    if not content:
                        return
        except (OSError, EOFError, zlib.error) as error:
            raise FormatError(f"{self.path} must be a whole file, got {one_line(error)} after line {line}: restore it") from error

    def _numbers(self, text: Array, line: int) -> Array:
        """The numbers of whole lines."""
        lines = int(np.count_nonzero(text == tokens.NEWLINE)) + 1
        spans = np.empty((lines * self.columns, 2), np.int64)
        count, bad = _fields(frozen(text), self.columns, spans)
        spans = spans[: count * self.columns]
        given = spans[:, 0] < spans[:, 1]
        reals, wholes, odd = tokens.values(text, spans if given.all() else spans[given])
        if bad < 0 and odd >= 0:
            bad = odd
        if bad < 0 and self.integer and (wholes is None or not given.all()):
            broken = np.ones(spans.shape[0], bool)
            broken[given] = (reals != np.floor(reals)) | (np.abs(reals) >= 2.0**53)
            if not broken.any():
                wholes = reals.astype(np.int64)
            else:
                bad = int(spans[int(broken.argmax()), 0])
        if bad >= 0:
            kind = "integer" if self.integer else "number"
            raise FormatError(
                f"{self.path} line {line + tokens.line_of(text, bad) - 1} must be {self.columns} {kind}s parted by commas, got "
                f"{tokens.shown(text, bad)}: correct it"
            )
        if self.integer:
            assert wholes is not None
            return wholes.reshape(-1, self.columns)
        whole = np.full(spans.shape[0], np.nan)
        whole[given] = reals
        return whole.reshape(-1, self.columns)


def open_csv(path: Path, rows: int | None = None, *, integer: bool | None = None, columns: int | None = None) -> CsvRows:
    """Look at the first line.

    Args:
        path: the file.
        rows: how many lines it must have.
        integer: whether the numbers must be integers; where not given, whether those of the first line are.
        columns: how many numbers a line must have; where not given, as many as the first has.

    Raises:
        FormatError: absent, damaged, or of other columns.
    """
    existing(path, "a table of numbers")
    try:
        with _opened(path) as file:
            first = file.readline(_PIECE_BYTES).strip()
    except (OSError, EOFError, zlib.error) as error:
        raise FormatError(f"{path} must be a whole file, got {one_line(error)}: restore it") from error
    fields = first.split(b",")
    if columns is not None and first and len(fields) != columns:
        raise FormatError(f"{path} must have {columns} numbers in a line, got {len(fields)} in the first: restore it")
    if integer is None:
        integer = all(field.strip().lstrip(b"+-").isdigit() for field in fields)
    return CsvRows(path, columns or len(fields), rows, integer)


def _opened(path: Path):  # type: ignore[no-untyped-def] # a GzipFile or a BufferedReader
    """The file, unpacked where its name ends in `.gz`."""
    return gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb")


@kernel
def _fields(text: Array, columns: int, spans: Array) -> tuple[int, int]:
    """Where each number of each line is; how many lines, and the position of one with more or fewer, or -1.

    Blanks around a number do not count; lines without anything are left out.
    """
    position, lines = 0, 0
    while position < text.size:
        begin, column, empty = position, 0, True
        for _ in range(columns + 1):
            while position < text.size and text[position] in (tokens.BLANK, tokens.TAB, tokens.RETURN):
                position += 1
            start = stop = position
            while position < text.size and text[position] != _COMMA and text[position] != tokens.NEWLINE:
                if text[position] not in (tokens.BLANK, tokens.TAB, tokens.RETURN):
                    stop = position + 1
                position += 1
            if column == columns:
                return lines, begin
            spans[lines * columns + column, 0], spans[lines * columns + column, 1] = start, stop
            column += 1
            ended = position >= text.size or text[position] == tokens.NEWLINE
            empty = empty and start == stop and ended and column == 1
            position += 1
            if ended:
                break
        if empty:
            continue
        if column != columns:
            return lines, begin
        lines += 1
    return lines, -1
