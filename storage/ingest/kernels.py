"""What moves edges about while a graph is built: a stable parting by a small number, and what is done within a row."""

from typing import Any

import numpy as np
import numpy.typing as npt

from gnnhet.jit import kernel

Column = npt.NDArray[Any]
Ints = npt.NDArray[np.int64]

_SHORT = 24  # entries; shorter rows are sorted by insertion
_LONG = 1024  # entries; longer ones by their digits
_DIGIT_BITS = 11


@kernel
def split_ids(src: Column, dst: Column, num_src: int, num_dst: int, shift: int, bucket: Column, low: Column, counts: Ints) -> int:
    """Check ids and cut destinations into a bucket and the rest.

    Args:
        src: integers [n].
        dst: integers [n].
        num_src: count of source nodes.
        num_dst: count of destination nodes.
        shift: bits of the rest.
        bucket: uint16 [n], filled with `dst >> shift`.
        low: unsigned [n], filled with the lowest `shift` bits.
        counts: int64 [buckets], zeros, filled.

    Returns:
        the first position of an id that is none, or -1; then nothing that was filled holds.
    """
    mask = (np.int64(1) << shift) - 1
    for i in range(dst.size):
        v = np.int64(dst[i])
        u = np.int64(src[i])
        if v < 0 or v >= num_dst or u < 0 or u >= num_src:
            return i
        b = v >> shift
        bucket[i] = b
        low[i] = v & mask
        counts[b] += 1
    return -1


@kernel
def split_key(key: Column, shift: int, bucket: Column, counts: Ints) -> None:
    """Bucket of unsigned keys.

    Args:
        key: unsigned [n].
        shift: bits below the bucket's.
        bucket: uint16 [n], filled with the lowest ten bits of `key >> shift`.
        counts: int64 [1024], zeros, filled.
    """
    for i in range(key.size):
        b = (np.uint64(key[i]) >> np.uint64(shift)) & np.uint64(1023)
        bucket[i] = b
        counts[b] += 1


@kernel
def scatter(column: Column, bucket: Column, at: Ints, out: Column) -> None:
    """Stable parting: entry i goes to the next free place of its bucket.

    Args:
        column: [n].
        bucket: unsigned [n].
        at: int64 [buckets], the first place of each in `out`; moved to behind its last.
        out: filled; narrower integers hold the values.
    """
    for i in range(bucket.size):
        place = at[bucket[i]]
        out[place] = column[i]
        at[bucket[i]] = place + 1


@kernel
def scatter_wide(column: Column, bucket: Column, at: Ints, out: Column) -> None:
    """As `scatter`, for entries of several bytes.

    Args:
        column: uint8 [n, width].
        bucket: unsigned [n].
        at: int64 [buckets], in bytes.
        out: uint8, flat.
    """
    width = column.shape[1]
    for i in range(bucket.size):
        place = at[bucket[i]]
        for k in range(width):
            out[place + k] = column[i, k]
        at[bucket[i]] = place + width


@kernel
def count(bucket: Column, counts: Ints) -> None:
    """How many entries each bucket has: `counts` holds zeros before."""
    for i in range(bucket.size):
        counts[bucket[i]] += 1


@kernel
def sort_rows(indptr: Ints, ids: Column) -> None:
    """Sort each row in place.

    Args:
        indptr: int64 [rows + 1].
        ids: signed, 0 or more, [edges].
    """
    size = 1 << _DIGIT_BITS
    counts = np.zeros(size, np.int64)
    room = np.empty(0, ids.dtype)
    for r in range(indptr.size - 1):
        first, last = indptr[r], indptr[r + 1]
        if last - first < _SHORT:
            for i in range(first + 1, last):
                x = ids[i]
                k = i
                while k > first and ids[k - 1] > x:
                    ids[k] = ids[k - 1]
                    k -= 1
                ids[k] = x
        elif last - first < _LONG:
            ids[first:last].sort()
        else:
            if room.size < last - first:
                room = np.empty(last - first, ids.dtype)
            _sort_by_digits(ids[first:last], room[: last - first], counts)


@kernel
def _sort_by_digits(ids: Column, room: Column, counts: Ints) -> None:
    """Least digit first; `room` is as long as `ids`."""
    top = np.int64(0)
    for i in range(ids.size):
        top |= np.int64(ids[i])
    mask = counts.size - 1
    source, target = ids, room
    swapped = False
    shift = 0
    while top >> shift:
        counts[:] = 0
        for i in range(source.size):
            counts[(source[i] >> shift) & mask] += 1
        total = np.int64(0)
        for digit in range(counts.size):
            total, counts[digit] = total + counts[digit], total
        for i in range(source.size):
            digit = (source[i] >> shift) & mask
            target[counts[digit]] = source[i]
            counts[digit] += 1
        source, target = target, source
        swapped = not swapped
        shift += _DIGIT_BITS
    if swapped:
        ids[:] = room


@kernel
def order_rows(indptr: Ints, key: Column, order: Ints) -> None:
    """The stable order of each row by a key.

    Args:
        indptr: int64 [rows + 1].
        key: [edges].
        order: int64 [edges], filled with positions in `key`.
    """
    for r in range(indptr.size - 1):
        first, last = indptr[r], indptr[r + 1]
        if last - first < _SHORT:
            for i in range(first, last):
                order[i] = i
            for i in range(first + 1, last):
                x = order[i]
                k = i
                while k > first and key[order[k - 1]] > key[x]:
                    order[k] = order[k - 1]
                    k -= 1
                order[k] = x
        else:
            order[first:last] = np.argsort(key[first:last], kind="mergesort") + first


@kernel
def first_of_equals(indptr: Ints, ids: Column, kept: npt.NDArray[np.int64], degrees: Ints) -> int:
    """Of equal ids that stand together in a row the first.

    Args:
        indptr: int64 [rows + 1].
        ids: [edges], each row sorted.
        kept: int64 [edges], filled from the front with the positions that stay.
        degrees: int64 [rows], filled with how many of each row stay.

    Returns:
        how many stay.
    """
    total = 0
    for r in range(indptr.size - 1):
        before = total
        for i in range(indptr[r], indptr[r + 1]):
            if i == indptr[r] or ids[i] != ids[i - 1]:
                kept[total] = i
                total += 1
        degrees[r] = total - before
    return total
