"""What an ingest is asked for."""

import difflib
import re
from dataclasses import asdict, dataclass, fields
from typing import Any

import psutil

from gnnhet.errors import SpecError
from gnnhet.storage.compact import STORED

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}
_RESERVE = 96 << 20  # bytes for the interpreter's own needs while it works
_LEAST = 128 << 20  # bytes to work with beyond what the process holds at the start


@dataclass(frozen=True, kw_only=True)
class Options:
    """How edges become a graph.

    Attributes:
        drop_duplicates: keep each pair of a relation once, the first of the input; rows are then sorted by source.
        self_loops: keep edges from a node to itself; `False` drops them where both ends are of one type.
        undirected: store every edge in both directions, each pair once. Only where both ends are of one type.
        add_reverse: give each relation (s, name, d) its reverse (d, rev_name, s).
        sort_rows: `source` or `time` sorts the edges of each destination; `None` keeps the order of the input.
        keep_edge_ids: remember each edge's position in the input (8 bytes an edge).
        feature_dtype: what floating `x` are stored as: float32, float16, bfloat16 or int8; `None` as they come.
    """

    drop_duplicates: bool = False
    self_loops: bool = True
    undirected: bool = False
    add_reverse: bool = False
    sort_rows: str | None = None
    keep_edge_ids: bool = False
    feature_dtype: str | None = None

    def __post_init__(self) -> None:
        """Refuse what does not go together."""
        if self.sort_rows not in (None, "source", "time"):
            raise SpecError(f"rows are sorted by source or time, or not at all, got {self.sort_rows!r}")
        if self.feature_dtype is not None and self.feature_dtype not in STORED:
            raise SpecError(f"features are stored as one of {', '.join(STORED)}, got {self.feature_dtype!r}")

    @property
    def distinct(self) -> bool:
        """Whether each pair is kept once."""
        return self.drop_duplicates or self.undirected

    def to_dict(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)


def options_of(asked: dict[str, Any]) -> Options:
    """Options by name.

    Raises:
        SpecError: a name nobody knows.
    """
    known = [field.name for field in fields(Options)]
    for name in asked:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            raise SpecError(
                f"an ingest has the options {', '.join(known)}, got {name}" + (f": did you mean {near[0]}?" if near else "")
            )
    return Options(**asked)


def parse_bytes(amount: int | str) -> int:
    """Bytes from `2GiB`, `500 MB`, `8g` or a number.

    Raises:
        SpecError: it is none.
    """
    if isinstance(amount, int):
        return amount
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]i?)?b?\s*", amount.lower().replace("_", ""))
    if not found:
        raise SpecError(f"an amount of memory must be like 2GiB, 500MB or a number of bytes, got {amount!r}")
    return int(float(found[1]) * _UNITS[found[2] or ""])


def budget(memory: int | str | None) -> tuple[int, int]:
    """(what the process may hold at its peak, what of it can be worked with) in bytes.

    Args:
        memory: the peak; by default half of what is available now, 2 GiB at least and 16 GiB at most.

    Raises:
        SpecError: too little to work with.
    """
    held = psutil.Process().memory_info().rss
    if memory is None:
        total = held + min(max(psutil.virtual_memory().available // 2, 2 << 30), 16 << 30)
    else:
        total = parse_bytes(memory)
    free = total - held - _RESERVE
    if free < _LEAST:
        least = -(-(held + _RESERVE + _LEAST) // 2**20)
        raise SpecError(f"memory must be {least:,} MiB or more here, where the process itself holds {held >> 20:,}, got {memory}")
    return total, free
