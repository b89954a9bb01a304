"""Topology read into memory ahead of use, in huge pages where the system has them.

Sampling reads at random: from a map that is not in the page cache every read is a disk access, and 4 KiB pages miss the
processor's address cache at every one.
"""

import mmap
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gnnhet.datasets.raw import Relation
from gnnhet.errors import FormatError
from gnnhet.jit import frozen
from gnnhet.storage import disk
from gnnhet.storage.csc import Csc

_HUGE_FROM = 4 << 20  # bytes; two huge pages, below which they gain nothing
_PIECE = 32 << 20


def huge_empty(count: int, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """An uninitialised array, in huge pages where it is large and the system grants them."""
    kind = np.dtype(dtype)
    if count * kind.itemsize < _HUGE_FROM:
        return np.empty(count, kind)
    memory = mmap.mmap(-1, count * kind.itemsize)
    if hasattr(mmap, "MADV_HUGEPAGE"):  # not on every system
        memory.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(memory, kind, count)


def read_topology(folder: Path, relations: dict[Relation, Csc], threads: int) -> dict[Relation, Csc]:
    """The same relations with `indptr` and `indices` in memory; edge ids stay mapped.

    Args:
        folder: the graph folder that the relations are mapped from.
        relations: as opened.
        threads: that read at once.

    Raises:
        FormatError: the folder holds another graph by now, or a file ends early.
    """
    entries = {
        (str(entry["source"]), str(entry["name"]), str(entry["destination"])): entry["arrays"]
        for entry in disk.read_index(folder)["relations"]
    }
    loaded = {}
    with ThreadPoolExecutor(threads) as pool:
        for relation, part in relations.items():
            arrays = {}
            for name, mapped in (("indptr", part.indptr), ("indices", part.indices)):
                path = disk.array_path(folder, entries[relation][name])
                arrays[name] = huge_empty(mapped.size, mapped.dtype)
                _read(path, arrays[name], pool)
            loaded[relation] = Csc(indptr=frozen(arrays["indptr"]), indices=frozen(arrays["indices"]), edge_ids=part.edge_ids)
    return loaded


def _read(path: Path, out: npt.NDArray[Any], pool: ThreadPoolExecutor) -> None:
    """Fill an array from a `.npy` file, piece by piece."""
    with path.open("rb") as file:
        np.lib.format.read_magic(file)
        shape, _, dtype = np.lib.format.read_array_header_1_0(file)
        begin = file.tell()
        if shape != out.shape or dtype != out.dtype:
            raise FormatError(
                f"{path} must hold {out.dtype} {out.shape} as when it was opened, got {dtype} {shape}: open it anew"
            )
        bytes_of = out.view(np.uint8).data

        def fill(first: int) -> None:
            last = min(first + _PIECE, bytes_of.nbytes)
            done = first
            while done < last:
                with path.open("rb", buffering=0) as own:
                    own.seek(begin + done)
                    count = own.readinto(bytes_of[done:last])
                if not count:
                    raise FormatError(
                        f"{path} must have {begin + bytes_of.nbytes} bytes, got {begin + done}: it was cut; restore it"
                    )
                done += count

        list(pool.map(fill, range(0, bytes_of.nbytes, _PIECE)))
