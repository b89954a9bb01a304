"""Files of a table: Parquet as it is, text (CSV, TSV, lists of pairs) made into Parquet of strings."""

import contextlib
import csv
import errno
import io
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gnnhet.datasets.files import one_line
from gnnhet.errors import FormatError

if TYPE_CHECKING:
    from gnnhet.datasets.tables.database import Database

TOML = "graph.toml"
PARQUET = (".parquet", ".pq")
ENDINGS = (*PARQUET, *(text + packed for text in (".csv", ".tsv", ".txt") for packed in ("", ".gz", ".zst")))
MOST_LISTED = 100
_COMMENTS = ("#", "%")
_DELIMITERS = "\t,;| "  # the first of them that is in a file's first line


def quoted(text: object) -> str:
    """A string of SQL."""
    return "'" + str(text).replace("'", "''") + "'"


def named(name: str) -> str:
    """A column's name in SQL."""
    return '"' + name.replace('"', '""') + '"'


@dataclass(frozen=True)
class Text:
    """How the lines of a text file are parted.

    Attributes:
        delimiter: between columns; None: told by the first line.
        header: whether the first line names the columns; None: unless it is all numbers.
    """

    delimiter: str | None = None
    header: bool | None = None


@dataclass(frozen=True)
class Table:
    """A table that lies in Parquet files.

    Attributes:
        path: as given: a file or a folder of parts.
        given: the person's files, in the order of their names.
        parquet: for each the file that is read: itself, or what was made of its text.
        columns: name -> DuckDB's type, in order.
    """

    path: Path
    given: tuple[Path, ...]
    parquet: tuple[Path, ...]
    columns: dict[str, str]

    def sql(self) -> str:
        """The table with `filename` and `file_row_number`."""
        return _parquet_sql(self.parquet)

    def place(self, filename: str, row: int) -> str:
        """Where a row lies, in words; `row` counts from 0, and lines of comments and of names do not count."""
        return f"{self.given[self.parquet.index(Path(filename))]}, row {row + 1:,}"


def is_table(path: Path) -> bool:
    """Whether a file's name ends as a table's does."""
    return path.name.lower().endswith(ENDINGS)


def open_table(path: Path, text: Text, database: "Database") -> Table:
    """Find the files of a table, and make Parquet of text.

    Args:
        path: a file, or a folder of parts.
        text: how text is parted.
        database: where it is made, and lines are left out and reported if wanted.

    Raises:
        FormatError: no files, Parquet beside text, a name with one of *?[, or a file that
            cannot be read; a line of text is named.
    """
    given = tuple(sorted(file for file in path.iterdir() if is_table(file))) if path.is_dir() else (path,)
    of_text = [file for file in given if not file.name.lower().endswith(PARQUET)]
    if not given or not is_table(given[0]):
        raise FormatError(f"a table must be in files ending in {', '.join(ENDINGS)}, got {path} without: convert or rename them")
    if of_text and len(of_text) < len(given):
        raise FormatError(f"parts of a table must be all Parquet or all text, got both in {path}: convert one kind")
    if any(letter in str(file.absolute()) for file in given for letter in "*?["):
        raise FormatError(f"paths of tables must be without *, ? and [, got {path}: rename it")
    number = len(database.files)
    database.files += given
    parquet = given
    if of_text:
        parquet = tuple(_strings_of(file, text, database, f"text-{number + n:05}") for n, file in enumerate(given))
    with reading(path):
        described = database.all(f"DESCRIBE SELECT * FROM {_parquet_sql(parquet)}")
    columns = {name: kind for name, kind, *_ in described if name not in ("filename", "file_row_number")}
    return Table(path, given, parquet, columns)


@contextlib.contextmanager
def reading(path: Path) -> Iterator[None]:
    """Within it, what DuckDB raises becomes an error that names the file, and says whether memory or disk ran out.

    Raises:
        FormatError: for what is wrong with the file, or too little memory.
        OSError: for a disk that is full.
    """
    import duckdb

    try:
        yield
    except duckdb.OutOfMemoryException as error:
        raise FormatError(f"{path} needs more memory or disk to be read, got {one_line(error)}: give --memory more") from error
    except duckdb.Error as error:
        if "No space left" in str(error) or "Could not write" in str(error):
            code = errno.ENOSPC if "No space left" in str(error) else errno.EFBIG
            raise OSError(code, f"what is made of a table must find room ({os.strerror(code)}): free some", str(path)) from error
        said = one_line(error).partition(" Possible fixes")[0]  # what follows are options of DuckDB's own
        raise FormatError(f"{path} must be readable as a table, got {said}: mend or convert it, or skip bad rows") from error


def _parquet_sql(files: tuple[Path, ...]) -> str:
    return f"read_parquet([{', '.join(map(quoted, files))}], filename = true, file_row_number = true)"


def _strings_of(file: Path, text: Text, database: "Database", name: str) -> Path:
    """Parquet of a text file's columns as trimmed strings; empty ones are none."""
    delimiter, names, skipped, header = _head(file, text)
    columns = ", ".join(f"{quoted(name)}: 'VARCHAR'" for name in names)
    skip = database.skip
    table = (
        f"read_csv({quoted(file)}, auto_detect = false, delim = {quoted(delimiter)}, quote = '\"', escape = '\"', "
        f"skip = {skipped}, header = {header}, columns = {{{columns}}}{', store_rejects = true' if skip else ''})"
    )
    trimmed = ", ".join(f"nullif(trim({named(name)}), '') AS {named(name)}" for name in names)

    def left_out() -> list[str]:
        query = f"SELECT line, column_name, error_message FROM reject_errors ORDER BY line LIMIT {MOST_LISTED}"
        lost = database.all(query)
        lines = [f"{file}, line {line:,}, column {column}: {' '.join(why.split())[:200]}" for line, column, why in lost]
        if lost:
            lines.append(f"{file}: lines left out: {database.one('SELECT count(DISTINCT line) FROM reject_errors'):,}")
        for made in ("reject_errors", "reject_scans"):
            database.all(f"DROP TABLE {made}")
        return lines

    with reading(file):
        return database.made(name, f"SELECT {trimmed} FROM {table}", f"reading {file.name}", left_out if skip else list)


def _head(file: Path, text: Text) -> tuple[str, list[str], int, bool]:
    """Of a text file: delimiter, names of columns, lines of comments before them, and whether it names its columns.

    Unless told otherwise, a first line of numbers alone names none. Columns without names are 0, 1, ...

    Raises:
        FormatError: an empty file, no text in UTF-8, or a name twice.
    """
    import pyarrow

    try:
        skipped = 0
        with pyarrow.input_stream(str(file)) as packed, io.TextIOWrapper(packed, encoding="utf-8-sig") as opened:
            for line in opened:
                if not line.startswith(_COMMENTS):
                    break
                skipped += 1
            else:
                raise FormatError(f"{file} must hold lines of a table, got none: check the path")
    except (OSError, UnicodeDecodeError, pyarrow.ArrowException) as error:
        raise FormatError(f"{file} must be text in UTF-8, got {one_line(error)}: convert it") from error
    line = line.rstrip("\r\n")
    delimiter = text.delimiter or next((letter for letter in _DELIMITERS if letter in line), ",")
    fields = [field.strip() for field in next(csv.reader([line], delimiter=delimiter), [])]
    header = not all(map(_is_number, fields)) if text.header is None else text.header
    names = fields if header else [str(number) for number in range(len(fields))]
    names = [name or f"column {number}" for number, name in enumerate(names)]
    if len({name.lower() for name in names}) < len(names):
        raise FormatError(f"{file} must name its columns differently, got {', '.join(names)[:200]}: rename one")
    return delimiter, names, skipped, header


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
