"""Which columns of a table mean what, and their values in SQL."""

import re
from collections.abc import Sequence
from typing import Any

from gnnhet.datasets.tables.files import Table, named, quoted
from gnnhet.errors import FormatError

SOURCE, DESTINATION = ("src", "source", "from", "head"), ("dst", "destination", "target", "to", "tail")
WEIGHT, TIME = ("weight", "w"), ("time", "timestamp", "t")
ID, LABEL, SPLIT = ("id", "node", "node_id"), ("label", "y"), ("split",)
_FEATURES = re.compile(r"(x|f|feat|feature|features)(_?(?P<number>\d+))?", re.IGNORECASE)
_WORDS = {"train": 0, "val": 1, "valid": 1, "validation": 1, "test": 2, "none": -1, "0": 0, "1": 1, "2": 2, "-1": -1}
INTEGERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT")
TEXT = "VARCHAR"


def column_of(table: Table, known: Sequence[str]) -> str | None:
    """The first column that goes by one of the names, in any case of letters."""
    lower = {name.lower(): name for name in reversed(table.columns)}
    return next((lower[name] for name in known if name in lower), None)


def ends_of(table: Table) -> tuple[str, str]:
    """The columns of source and destination: by their names, else the first two.

    Raises:
        FormatError: one of them is missing.
    """
    src, dst = column_of(table, SOURCE), column_of(table, DESTINATION)
    if src is None and dst is None and len(table.columns) >= 2:
        src, dst = list(table.columns)[:2]
    if src is None or dst is None:
        raise FormatError(f"{table.path} must have columns src and dst, got {', '.join(table.columns)}: rename two of them")
    return src, dst


def integer(table: Table, column: str) -> str:
    """A column as int64; null where it is none, or would be written otherwise (007)."""
    cast = f"TRY_CAST({named(column)} AS BIGINT)"
    if table.columns[column] in INTEGERS:
        return cast
    return f"CASE WHEN CAST({cast} AS VARCHAR) = CAST({named(column)} AS VARCHAR) THEN {cast} END"


def text(column: str) -> str:
    """A column as a string."""
    return f"CAST({named(column)} AS VARCHAR)"


def all_integers(table: Table, columns: Sequence[str], connection: Any) -> bool:
    """Whether `integer` holds of all values that are not null."""
    for column in columns:
        if table.columns[column] not in INTEGERS:
            other = f"{named(column)} IS NOT NULL AND ({integer(table, column)}) IS NULL"
            if connection.execute(f"SELECT 1 FROM {table.sql()} WHERE {other} LIMIT 1").fetchone():
                return False
    return True


def weight(column: str) -> str:
    """A column as float32; null where it is no number."""
    return f"TRY_CAST({named(column)} AS FLOAT)"


def time(table: Table, column: str, connection: Any) -> tuple[str, str, str]:
    """A column as int64 or float64, dates as microseconds since 1970.

    The kind of strings is that of the first; dates that name no zone are UTC.

    Returns:
        the SQL, null where it is no time; the dtype; what a time must be, in words.
    """
    kind = table.columns[column]
    if kind == TEXT:
        first = connection.execute(
            f"SELECT {named(column)} FROM {table.sql()} WHERE {named(column)} IS NOT NULL LIMIT 1"
        ).fetchone()
        dated = f"SELECT TRY_CAST({quoted(first[0])} AS DOUBLE) IS NULL" if first else "SELECT false"
        if connection.execute(dated).fetchone()[0]:
            return f"epoch_us(TRY_CAST({named(column)} AS TIMESTAMP))", "int64", "a date"
        if first and re.fullmatch(r"[+-]?\d+", first[0]):
            return integer(table, column), "int64", "a whole number"
    elif kind.startswith(("TIMESTAMP", "DATE")):
        cast = named(column) if kind == "TIMESTAMP WITH TIME ZONE" else f"CAST({named(column)} AS TIMESTAMP)"
        return f"epoch_us({cast})", "int64", "a date"
    elif kind in INTEGERS:
        return integer(table, column), "int64", "a whole number"
    return f"TRY_CAST({named(column)} AS DOUBLE)", "float64", "a number"


def label(table: Table, column: str, connection: Any) -> str:
    """A column as classes: whole numbers stay, strings are numbered in sorted order, and -1 stands for none."""
    kind = table.columns[column]
    if kind in ("FLOAT", "DOUBLE"):  # whole numbers with gaps, as pandas keeps them
        name = named(column)
        return (
            f"CASE WHEN {name} IS NULL OR isnan({name}) THEN -1 WHEN {name} = floor({name}) THEN TRY_CAST({name} AS BIGINT) END"
        )
    if all_integers(table, [column], connection):
        return f"coalesce({integer(table, column)}, -1)"
    return f"CASE WHEN {named(column)} IS NULL THEN -1 ELSE dense_rank() OVER (ORDER BY {text(column)} NULLS LAST) - 1 END"


def split(column: str) -> str:
    """A column as 0, 1, 2 or -1; null where it is no word for one of them."""
    cases = " ".join(f"WHEN {quoted(word)} THEN {number}" for word, number in _WORDS.items())
    return f"CASE lower(coalesce({text(column)}, 'none')) {cases} END"


def features(table: Table, taken: Sequence[str]) -> str | None:
    """Features as a list of float32: a column of lists, or columns of numbers in the order of their own numbers."""
    found = [(match, name) for name in table.columns if name not in taken and (match := _FEATURES.fullmatch(name))]
    lists = [name for _, name in found if table.columns[name].endswith("]")]
    if lists:
        return f"CAST({named(lists[0])} AS FLOAT[])"
    ordered = sorted(found, key=lambda pair: int(pair[0]["number"] or -1))
    return f"[{', '.join(weight(name) for _, name in ordered)}]" if ordered else None
