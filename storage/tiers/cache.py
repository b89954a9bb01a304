"""Some rows of a slower tier, held in memory."""

import threading
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

from gnnhet.jit import frozen, kernel, prefetch
from gnnhet.storage.convert import put_rows
from gnnhet.storage.features import Rows
from gnnhet.storage.gather import check_ids
from gnnhet.storage.preload import huge_empty
from gnnhet.storage.tiers.reader import Reader

_AHEAD = 32  # slots on their way from memory while one is read
ABSENT = -1

Ids = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Split:
    """Which of some rows a cache holds.

    Attributes:
        slots: int64 [hits], rows of the cache.
        hits: int64 [hits], positions in the ids that were asked for.
        ids: int64 [misses], rows of the feature.
        misses: int64 [misses], positions in the ids that were asked for.
    """

    slots: Ids
    hits: Ids
    ids: Ids
    misses: Ids


class Slots:
    """Which rows a cache holds and where; counts what was found. Several threads may ask at once.

    Attributes:
        size: rows held.
        looked, found: rows that were asked for, and those that were there.
    """

    def __init__(self, ids: Ids, count: int) -> None:
        """Give each id a slot.

        Args:
            ids: int64, ascending, the rows held.
            count: of all rows.

        Raises:
            GraphError: an id out of range.
        """
        check_ids(ids, count)
        self._slot_of = huge_empty(count, np.int32)
        self._slot_of[:] = ABSENT
        self._slot_of[ids] = np.arange(ids.size, dtype=np.int32)
        self.size = ids.size
        self._lock = threading.Lock()
        self.looked, self.found = 0, 0

    def split(self, ids: Ids) -> Split:
        """Part ids by whether they are held.

        Raises:
            GraphError: an id out of range.
        """
        check_ids(ids, self._slot_of.size)
        slots, hits, wanted, misses = (np.empty(ids.size, np.int64) for _ in range(4))
        found = _split(frozen(self._slot_of), frozen(ids), slots, hits, wanted, misses)
        with self._lock:
            self.looked += ids.size
            self.found += found
        return Split(slots[:found], hits[:found], wanted[: ids.size - found], misses[: ids.size - found])


class Cache:
    """A reader that holds some rows of another in memory, as they are stored."""

    def __init__(self, below: Reader, ids: Ids) -> None:
        """Read the rows to hold.

        Args:
            below: the slower tier.
            ids: int64, ascending, none twice.

        Raises:
            GraphError, FormatError: as `Reader.read_sorted`.
        """
        array = below.rows.array
        self.rows: Rows = below.rows
        self._below = below
        self.slots = Slots(ids, array.shape[0])
        width = int(np.prod(array.shape[1:], dtype=np.int64))
        self._held: npt.NDArray[Any] = huge_empty(ids.size * width, array.dtype).reshape(ids.size, *array.shape[1:])
        below.read_sorted(ids, self._held)

    @property
    def size(self) -> int:
        """Bytes of rows held."""
        return self._held.nbytes

    def read(self, ids: Ids, out: Tensor, places: Ids | None = None) -> None:
        """As `Reader.read`."""
        part = self.slots.split(ids)
        to = part.hits if places is None else places[part.hits]
        put_rows(self._held, self.rows.dtype, self.rows.scale, part.slots, out, to)
        if part.ids.size:
            self._below.read(part.ids, out, part.misses if places is None else places[part.misses])

    def read_sorted(self, ids: Ids, out: npt.NDArray[Any]) -> None:
        """As `Reader.read_sorted`; from below."""
        self._below.read_sorted(ids, out)


@kernel
def _split(slot_of: npt.NDArray[np.int32], ids: Ids, slots: Ids, hits: Ids, wanted: Ids, misses: Ids) -> int:
    """Part ids by whether they have a slot; ids are in range.

    Args:
        slot_of: int32 [rows of the feature], ABSENT or a slot.
        ids: int64 [n].
        slots: int64 [n], filled with the slots of those that have one.
        hits: int64 [n], filled with their positions.
        wanted: int64 [n], filled with the ids that have none.
        misses: int64 [n], filled with their positions.

    Returns:
        how many have one.
    """
    found, last = 0, ids.size - 1
    for i in range(ids.size):
        prefetch(slot_of, ids[min(i + _AHEAD, last)])
        slot = slot_of[ids[i]]
        if slot >= 0:
            slots[found] = slot
            hits[found] = i
            found += 1
        else:
            wanted[i - found] = ids[i]
            misses[i - found] = i
    return found
