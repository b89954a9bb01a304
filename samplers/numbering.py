"""Local numbers of global ids, in order of first sight: a dense map where it is small enough, else a hash table.

`BAD_SOURCE` says that the graph's arrays are damaged, as in `rows.py`. `tests/naive.py` has a plain twin of each kernel.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from gnnhet.jit import kernel, prefetch, prefetch_once

BAD_SOURCE = -2
_AHEAD = 64  # reads that are on their way from memory while one is used
_LAST = np.iinfo(np.int32).max
_SPREAD = np.uint64(0x9E3779B97F4A7C15)
_HALF = np.uint64(32)

Ints = npt.NDArray[np.integer[Any]]


@kernel
def read_sources(indices: Ints, positions: Ints, num_src: int, sources: Ints) -> int:
    """The source of each drawn edge: sources[e] = indices[positions[e]].

    Returns:
        0, or BAD_SOURCE where one is outside 0..num_src-1.
    """
    last = positions.size - 1
    good = True
    for e in range(positions.size):
        prefetch_once(indices, positions[min(e + _AHEAD, last)])
        source = indices[positions[e]]
        good &= (source >= 0) & (source < num_src)
        sources[e] = source
    return 0 if good else BAD_SOURCE


@kernel
def key_by_tree(sources: Ints, ends: Ints, trees: Ints, num_src: int, keys: Ints) -> None:
    """Each edge's (tree, source) as one number, tree * num_src + source.

    Args:
        sources: [edges], from `read_sources`.
        ends: int32 [n + 1], edges of each destination.
        trees: int64 [n], the tree of each destination.
        num_src: nodes of the source type.
        keys: int64 [edges], filled.
    """
    for i in range(trees.size):
        for e in range(ends[i], ends[i + 1]):
            keys[e] = trees[i] * num_src + sources[e]


@kernel
def number_dense(sources: Ints, place_of: Ints, base: int, ids: Ints, count: int, out: Ints) -> int:
    """Number ids by a dense map.

    Args:
        sources: [edges], ids.
        place_of: int32 [ids possible], base + local number of what was seen since `base`, anything smaller else; updated.
        base: 1 or more.
        ids: int64, the ids seen, in order, with room for one more than all new ones; extended.
        count: how many of ids are filled.
        out: int32 [edges], filled with local numbers.

    Returns:
        the new count.
    """
    last = sources.size - 1
    for e in range(sources.size):
        prefetch(place_of, sources[min(e + _AHEAD, last)])
        source = sources[e]
        local = place_of[source] - base
        new = local < 0  # as likely as not: no branch, everything is stored again
        local = count if new else local
        ids[count] = source
        place_of[source] = base + local
        count += new
        out[e] = local
    return count


@kernel
def slot_of(key: int, mask: int) -> Any:
    """Where the search for a key begins."""
    return np.int64((np.uint64(key) * _SPREAD) >> _HALF) & mask


@kernel
def number_hashed(sources: Ints, held: Ints, place_of: Ints, ids: Ints, count: int, out: Ints) -> int:
    """As `number_dense`, by an open-addressing table.

    Args:
        sources: int64 [edges], keys of 0 or more.
        held: int64 [slots, a power of two], the key in each slot or -1; updated.
        place_of: int32 [slots], local numbers; updated.
        ids: int64, the keys seen, in order; extended.
        count: how many of ids are filled; stays at most half the slots.
        out: int32 [edges], filled.
    """
    mask, last = held.size - 1, sources.size - 1
    for e in range(sources.size):
        prefetch(held, slot_of(sources[min(e + _AHEAD, last)], mask))
        key = sources[e]
        slot = slot_of(key, mask)
        while held[slot] >= 0 and held[slot] != key:
            slot = (slot + 1) & mask
        if held[slot] < 0:
            held[slot] = key
            place_of[slot] = count
            ids[count] = key
            count += 1
        out[e] = place_of[slot]
    return count


@kernel
def enter_dense(ids: Ints, place_of: Ints, base: int) -> None:
    """Number the first ids of a batch by their places; one that stands twice is known by its first place."""
    for i in range(ids.size):
        if place_of[ids[i]] < base:
            place_of[ids[i]] = base + i


@kernel
def enter_hashed(ids: Ints, held: Ints, place_of: Ints) -> None:
    """As `enter_dense`."""
    mask = held.size - 1
    for i in range(ids.size):
        slot = slot_of(ids[i], mask)
        while held[slot] >= 0 and held[slot] != ids[i]:
            slot = (slot + 1) & mask
        if held[slot] < 0:
            held[slot] = ids[i]
            place_of[slot] = i


class Numbering:
    """Numbers the ids of one node type, batch after batch.

    A dense map costs 4 bytes an id that is possible and needs no clearing: each batch's numbers begin where the last
    batch's ended. The hash table costs 24 to 48 bytes an id that is seen.

    Args:
        possible: ids are 0..possible-1.
        budget_bytes: what the dense map may take; beyond, a hash table is used.
    """

    def __init__(self, possible: int, budget_bytes: int) -> None:
        """Hold nothing yet."""
        self.possible = possible
        self.dense = 4 * possible <= budget_bytes
        self.ids: Ints = np.empty(0, np.int64)
        self.count = 0
        self._base = 1
        self._place_of: Ints = np.zeros(possible if self.dense else 0, np.int32)  # no memory until an id is seen
        self._held: Ints = np.empty(0, np.int64)

    def begin(self, ids: Ints) -> None:
        """Forget all, and number `ids` (int64, duplicates allowed) by their places."""
        self._base += self.count
        self.count = 0
        self._held = self._held[:0]
        self.make_room(ids.size)
        self.ids[: ids.size] = ids
        self.count = int(ids.size)
        if self.dense:
            enter_dense(self.ids[: self.count], self._place_of, self._base)
        else:
            enter_hashed(self.ids[: self.count], self._held, self._place_of)

    def make_room(self, more: int) -> None:
        """Before `number` of that many edges."""
        most = self.count + more + 1
        if most > self.ids.size:
            grown = np.empty(most + most // 4, np.int64)
            grown[: self.count] = self.ids[: self.count]
            self.ids = grown
        if self.dense:
            if self._base + most > _LAST:
                self._place_of[:] = 0
                self._base = 1
                enter_dense(self.ids[: self.count], self._place_of, self._base)
        elif 2 * most > self._held.size:
            slots = 1 << (2 * most - 1).bit_length()
            self._held = np.full(slots, -1, np.int64)
            self._place_of = np.empty(slots, np.int32)
            enter_hashed(self.ids[: self.count], self._held, self._place_of)

    def number(self, sources: Ints, out: Ints) -> None:
        """Fill out[e] with the number of sources[e], new ones in order of first sight; after `make_room`."""
        if self.dense:
            self.count = number_dense(sources, self._place_of, self._base, self.ids, self.count, out)
        else:
            self.count = number_hashed(sources, self._held, self._place_of, self.ids, self.count, out)

    def seen(self, first: int = 0) -> Ints:
        """A view of the ids numbered so far, from `first` on."""
        return self.ids[first : self.count]
