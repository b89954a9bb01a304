"""Files of a table: Parquet as it is, text (CSV, TSV) made into Parquet once."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gnnhet.datasets.files import one_line
from gnnhet.errors import FormatError

PARQUET = (".parquet", ".pq")
TEXT = (".csv", ".tsv", ".txt")
PACKED = ("", ".gz", ".zst")
ENDINGS = (*PARQUET, *(text + packed for text in TEXT for packed in PACKED))
MOST_LISTED = 100


def quoted(text: object) -> str:
    """A string of SQL."""
    return "'" + str(text).replace("'", "''") + "'"


def named(name: str) -> str:
    """A column's name in SQL."""
    return '"' + name.replace('"', '""') + '"'


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
        files = ", ".join(quoted(file) for file in self.parquet)
        return f"read_parquet([{files}], filename = true, file_row_number = true)"

    def place(self, filename: str, row: int) -> str:
        """Where a row lies, in words; `row` counts from 0."""
        return f"{self.given[self.parquet.index(Path(filename))]}, row {row + 1:,}"


def is_table(path: Path) -> bool:
    """Whether a file's name ends as a table's does."""
    return path.name.lower().endswith(ENDINGS)


def open_table(path: Path, connection: Any, work: Path, *, skip: bool, report: list[str]) -> Table:
    """Find the files of a table, and make Parquet of text.

    Args:
        path: a file, or a folder of parts.
        connection: of DuckDB.
        work: folder for what is made.
        skip: leave out lines that cannot be read.
        report: told what was left out.

    Raises:
        FormatError: no files, a name with one of *?[, or a file that cannot be read; of text the line and column are named.
    """
    given = tuple(sorted(file for file in path.iterdir() if is_table(file))) if path.is_dir() else (path,)
    if not given or not all(is_table(file) for file in given):
        raise FormatError(f"a table must be in files ending in {', '.join(ENDINGS)}, got {path}: convert or rename it")
    if any(letter in str(file.absolute()) for file in given for letter in "*?["):
        raise FormatError(f"paths of tables must be without *, ? and [, got {path}: rename it")
    parquet = tuple(
        file
        if file.name.lower().endswith(PARQUET)
        else _parquet_of(file, connection, work / f"{path.name}-{number:05}.parquet", skip, report)
        for number, file in enumerate(given)
    )
    table = Table(path, given, parquet, {})
    try:
        described = connection.execute(f"DESCRIBE SELECT * FROM {table.sql()}").fetchall()
    except Exception as error:  # whatever a damaged file raises
        raise FormatError(f"{path} must be readable as Parquet, got {one_line(error)}: restore or convert it") from error
    table.columns.update({name: kind for name, kind, *_ in described if name not in ("filename", "file_row_number")})
    return table


def _parquet_of(file: Path, connection: Any, made: Path, skip: bool, report: list[str]) -> Path:
    """Parquet of a text file; names of columns, delimiter and types are found from its first lines."""
    comment = "%" if _first_letter(file) == "%" else "#"
    options = f"comment = '{comment}'" + (", store_rejects = true" if skip else "")
    try:
        connection.execute(f"COPY (SELECT * FROM read_csv({quoted(file)}, {options})) TO {quoted(made)} (FORMAT parquet)")
    except Exception as error:  # DuckDB's own, of many kinds
        raise FormatError(f"{file} must be a table in text, got {one_line(error)}: mend it, or skip bad rows") from error
    if skip:
        lost = connection.execute("SELECT line, column_name, error_message FROM reject_errors").fetchall()
        report += [
            f"{file}, line {line:,}, column {column}: {' '.join(why.split())[:200]}" for line, column, why in lost[:MOST_LISTED]
        ]
        if lost:
            report.append(f"{file}: {len({line for line, *_ in lost}):,} lines left out")
            connection.execute("DROP TABLE reject_errors")
            connection.execute("DROP TABLE reject_scans")
    return made


def _first_letter(file: Path) -> str:
    """Of a text file that is not packed."""
    with file.open("rb") as opened:
        return opened.read(1).decode("ascii", "replace")
