"""Rows by id out of one tier into a batch's tensor, in the batch's dtype."""

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import psutil
from torch import Tensor

from gnnhet.errors import SpecError
from gnnhet.storage.convert import put_rows
from gnnhet.storage.features import Rows
from gnnhet.storage.gather import gather_rows
from gnnhet.storage.tiers.files import READS, FileReader

Ids = npt.NDArray[np.int64]


class Reader(Protocol):
    """A tier. Several threads may read at once.

    Attributes:
        rows: what is read: its shape, dtype and scale.
    """

    @property
    def rows(self) -> Rows:
        """What is read."""
        ...

    def read(self, ids: Ids, out: Tensor, places: Ids | None = None) -> None:
        """Fill `out[places[i]]` with row `ids[i]`.

        Args:
            ids: int64, shape [n].
            out: contiguous on the CPU, shape [m, ...], floating where the rows are, else of their dtype.
            places: int64, shape [n], in range; by default i.

        Raises:
            GraphError: an id out of range.
            FormatError: a file that was cut or cannot be read.
        """
        ...

    def read_sorted(self, ids: Ids, out: npt.NDArray[Any]) -> None:
        """Fill `out[i]` with row `ids[i]` as it is stored, from beginning to end.

        Args:
            ids: int64, shape [n], ascending.
            out: C-contiguous, shape [n, ...], of the stored dtype.

        Raises:
            GraphError, FormatError: as `read`.
        """
        ...


class ArrayReader:
    """Rows in memory, or in a file that is mapped there."""

    def __init__(self, rows: Rows) -> None:
        """Hold the rows."""
        self.rows = rows

    def read(self, ids: Ids, out: Tensor, places: Ids | None = None) -> None:
        """As `Reader.read`."""
        put_rows(self.rows.array, self.rows.dtype, self.rows.scale, ids, out, places)

    def read_sorted(self, ids: Ids, out: npt.NDArray[Any]) -> None:
        """As `Reader.read_sorted`."""
        gather_rows(self.rows.array, ids, out)


def open_reader(rows: Rows, reads: str = "auto") -> Reader:
    """A reader of a feature where it lies.

    Args:
        rows: of a `FeatureStore`.
        reads: of rows in a file: `map` leaves them to the page cache, `buffered` reads through it, `direct` past it; `auto`
            maps files up to half of the memory that is free and reads larger ones direct. Rows in memory stay there.

    Raises:
        SpecError: another word.
        FormatError: the file is gone or was changed.
    """
    if reads not in READS:
        raise SpecError(f"reads must be one of {', '.join(READS)}, got {reads!r}")
    if reads == "auto":
        reads = "direct" if rows.array.nbytes > psutil.virtual_memory().available // 2 else "map"
    if rows.path is None or reads == "map" or not rows.array.nbytes:
        return ArrayReader(rows)
    return FileReader(rows, rows.path, direct=reads == "direct")
