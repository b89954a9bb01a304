"""Which columns of a table mean what, and their values in SQL."""

import difflib
import logging
import re
from collections.abc import Mapping, Sequence

from gnnhet.datasets.tables.database import Database
from gnnhet.datasets.tables.files import TOML, Table, named, quoted
from gnnhet.errors import FormatError

SOURCE, DESTINATION = ("src", "source", "from", "head"), ("dst", "destination", "target", "to", "tail")
WEIGHT, TIME = ("weight", "w"), ("time", "timestamp", "t")
ID, LABEL, SPLIT = ("id", "node", "node_id"), ("label", "y"), ("split",)
_FEATURES = re.compile(r"(x|f|feat|feature|features)(_?(?P<number>\d+))?", re.IGNORECASE)
_WORDS = {"train": 0, "val": 1, "valid": 1, "validation": 1, "test": 2, "none": -1, "0": 0, "1": 1, "2": 2, "-1": -1}
INTEGERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT")
TEXT = "VARCHAR"


def column_of(table: Table, said: str | None, known: Sequence[str]) -> str | None:
    """The column that a person said, else the first that goes by one of the usual names, in any case of letters.

    Raises:
        FormatError: the table has not what they said.
    """
    if said is not None:
        return _held(table, said)
    lower = {name.lower(): name for name in reversed(table.columns)}
    return next((lower[name] for name in known if name in lower), None)


def ends_of(table: Table, said: tuple[str | None, str | None], besides: Sequence[str]) -> tuple[str, str]:
    """The columns of source and destination: as said, by their usual names, else the first two.

    Args:
        table: of edges.
        said: source and destination, where a person said.
        besides: columns that mean something else.

    Raises:
        FormatError: one of them is missing.
    """
    src, dst = (column_of(table, *both) for both in zip(said, (SOURCE, DESTINATION), strict=True))
    others = [name for name in table.columns if name not in besides]
    if src is None and dst is None and len(others) >= 2:
        src, dst = others[:2]
        if table.given != table.parquet and (src, dst) != ("0", "1"):
            words = "the first line of %s is taken for names of columns, %s and %s: if it is an edge, say header = false in a %s"
            logging.getLogger("gnnhet").warning(words, table.given[0], src, dst, TOML)
    if src is None or dst is None:
        raise FormatError(f"{table.path} must have columns src and dst, got {', '.join(table.columns)}: rename two of them")
    return src, dst


def _held(table: Table, name: str) -> str:
    if name not in table.columns:
        near = difflib.get_close_matches(name, table.columns, 1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise FormatError(f"{table.path} must have the column {name!r}, got {', '.join(table.columns)}{hint}")
    return name


def integer(table: Table, column: str) -> str:
    """A column as int64; null where it is none, or would be written otherwise (007)."""
    cast = f"TRY_CAST({named(column)} AS BIGINT)"
    if table.columns[column] in INTEGERS:
        return cast
    return f"CASE WHEN CAST({cast} AS VARCHAR) = CAST({named(column)} AS VARCHAR) THEN {cast} END"


def text(column: str) -> str:
    """A column as a string."""
    return f"CAST({named(column)} AS VARCHAR)"


def all_integers(table: Table, columns: Sequence[str], database: Database) -> bool:
    """Whether `integer` holds of all values that are not null."""
    for column in columns:
        if table.columns[column] not in INTEGERS:
            other = f"{named(column)} IS NOT NULL AND ({integer(table, column)}) IS NULL"
            if database.one(f"SELECT 1 FROM {table.sql()} WHERE {other} LIMIT 1"):
                return False
    return True


def weight(column: str) -> str:
    """A column as float32; null where it is no number."""
    return f"TRY_CAST({named(column)} AS FLOAT)"


def time(table: Table, column: str, database: Database) -> tuple[str, str, str]:
    """A column as int64 or float64, dates as microseconds since 1970.

    The kind of strings is that of the first; dates that name no zone are UTC.

    Returns:
        the SQL, null where it is no time; the dtype; what a time must be, in words.
    """
    kind = table.columns[column]
    if kind == TEXT:
        first = database.one(f"SELECT {named(column)} FROM {table.sql()} WHERE {named(column)} IS NOT NULL LIMIT 1")
        if first is not None and database.one(f"SELECT TRY_CAST({quoted(first)} AS DOUBLE) IS NULL"):
            return f"epoch_us(TRY_CAST({named(column)} AS TIMESTAMP))", "int64", "a date"
        if first is not None and re.fullmatch(r"[+-]?\d+", first):
            return integer(table, column), "int64", "a whole number"
    elif kind.startswith(("TIMESTAMP", "DATE")):
        cast = named(column) if kind == "TIMESTAMP WITH TIME ZONE" else f"CAST({named(column)} AS TIMESTAMP)"
        return f"epoch_us({cast})", "int64", "a date"
    elif kind in INTEGERS:
        return integer(table, column), "int64", "a whole number"
    return f"TRY_CAST({named(column)} AS DOUBLE)", "float64", "a number"


def label(table: Table, column: str, database: Database) -> str:
    """A column as classes: whole numbers stay, strings are numbered in sorted order, and -1 stands for none."""
    kind = table.columns[column]
    if kind in ("FLOAT", "DOUBLE"):  # whole numbers with gaps, as pandas keeps them
        name = named(column)
        return (
            f"CASE WHEN {name} IS NULL OR isnan({name}) THEN -1 WHEN {name} = floor({name}) THEN TRY_CAST({name} AS BIGINT) END"
        )
    if all_integers(table, [column], database):
        return f"coalesce({integer(table, column)}, -1)"
    return f"CASE WHEN {named(column)} IS NULL THEN -1 ELSE dense_rank() OVER (ORDER BY {text(column)} NULLS LAST) - 1 END"


def split(column: str) -> str:
    """A column as 0, 1, 2 or -1; null where it is no word for one of them."""
    cases = " ".join(f"WHEN {quoted(word)} THEN {number}" for word, number in _WORDS.items())
    return f"CASE lower(coalesce({text(column)}, 'none')) {cases} END"


def usual_features(table: Table, taken: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """`x` from a column of lists, or from columns of numbers in the order of their own numbers; nothing where there are none."""
    found = [(match, name) for name in table.columns if name not in taken and (match := _FEATURES.fullmatch(name))]
    lists = [name for _, name in found if table.columns[name].endswith("]")]
    ordered = lists[:1] or [name for _, name in sorted(found, key=lambda pair: int(pair[0]["number"] or -1))]
    return {"x": tuple(ordered)} if ordered else {}


def features(table: Table, wanted: Mapping[str, Sequence[str]], database: Database) -> dict[str, tuple[str, int]]:
    """Each feature's columns, numbers or lists of numbers, as one list of float32, and how many its first row has.

    Raises:
        FormatError: the table has not one of the columns.
    """
    made = {}
    for name, columns in wanted.items():
        alone = [column for column in columns if not table.columns[_held(table, column)].endswith("]")]
        sql = f"[{', '.join(weight(column) for column in columns)}]"
        if len(alone) < len(columns):
            parts = [f"[{weight(column)}]" if column in alone else f"CAST({named(column)} AS FLOAT[])" for column in columns]
            sql = f"({' || '.join(parts)})"
        made[name] = sql, int(database.one(f"SELECT len({sql}) FROM {table.sql()} WHERE {sql} IS NOT NULL LIMIT 1") or 0)
    return made
