"""Arrays of an embedding table on disk: mapped by the ranks of a host while they train, saved with checkpoints.

A saved table is a folder `embeddings-STEP-...` in the run's `checkpoint/`, named by the checkpoint that it belongs to:
`ids.npy` (int64 [touched]), `rows.npy` and the optimiser's `state0.npy`, ... (float32 [touched, columns]). Rows that no step
has touched are not in it.
"""

import mmap
import os
import shutil
import uuid
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from gnnhet.errors import FormatError, TrainingError

Floats = npt.NDArray[np.float32]
_PIECE = 32 << 20  # bytes of an array that are copied at once


def reserve(path: Path, num_bytes: int) -> None:
    """Make a file of zeros whose bytes the disk has promised: a full disk would otherwise end the process later.

    Raises:
        TrainingError: the disk refuses.
    """
    try:
        with path.open("xb") as file:
            if hasattr(os, "posix_fallocate"):  # not on every system
                os.posix_fallocate(file.fileno(), 0, max(num_bytes, 1))
            file.truncate(max(num_bytes, 1))
    except OSError as error:
        raise TrainingError(
            f"sparse embeddings need {num_bytes / 2**30:.2f} GiB at {path}, got: {error.strerror}; "
            "free it, put --run on a larger disk, or lower --hidden"
        ) from error


def map_shared(path: Path, shape: tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """A writable array over a file; processes of a host that map it see each other's writes."""
    with path.open("r+b") as file:
        memory = mmap.mmap(file.fileno(), 0)
    if hasattr(mmap, "MADV_RANDOM"):  # not on every system
        memory.madvise(mmap.MADV_RANDOM)
    return np.frombuffer(memory, dtype, int(np.prod(shape))).reshape(shape)


def save_touched(parent: Path, step: int, touched: npt.NDArray[np.uint8], arrays: Mapping[str, Floats]) -> str:
    """Write the touched rows of arrays, in pieces; a kill or a full disk leaves nothing that has a name.

    Args:
        parent: the checkpoint folder.
        step: of the run, for the name.
        touched: 1 or 0 a row.
        arrays: named, [rows, columns].

    Returns:
        name of the new folder in `parent`.

    Raises:
        OSError: the disk refuses.
    """
    name = f"embeddings-{step}-{uuid.uuid4().hex[:8]}"
    beside = parent / f".{name}"
    beside.mkdir(parents=True)
    count = int(np.count_nonzero(touched))
    try:
        with ExitStack() as stack:

            def opened(stem: str, dtype: npt.DTypeLike, shape: tuple[int, ...]) -> BinaryIO:
                file = stack.enter_context((beside / f"{stem}.npy").open("wb"))
                header = {"descr": np.lib.format.dtype_to_descr(np.dtype(dtype)), "fortran_order": False, "shape": shape}
                np.lib.format.write_array_header_1_0(file, header)
                return file

            id_file = opened("ids", np.int64, (count,))
            files = {stem: opened(stem, np.float32, (count, array.shape[1])) for stem, array in arrays.items()}
            size = _piece(arrays)
            for first in range(0, touched.size, size):
                ids = first + np.flatnonzero(touched[first : first + size])
                id_file.write(ids.astype(np.int64).data)
                for stem, file in files.items():
                    file.write(arrays[stem][ids].data)
            for file in (id_file, *files.values()):
                file.flush()
                os.fsync(file.fileno())
        _sync(beside)
        beside.rename(parent / name)
        _sync(parent)
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    return name


def load_touched(folder: Path, touched: npt.NDArray[np.uint8], arrays: Mapping[str, Floats]) -> None:
    """Fill arrays of zeros with what `save_touched` wrote.

    Raises:
        FormatError: absent, damaged, or of another table.
    """
    try:
        ids = np.load(folder / "ids.npy", mmap_mode="r")
        saved = {stem: np.load(folder / f"{stem}.npy", mmap_mode="r") for stem in arrays}
    except (OSError, ValueError) as error:
        raise FormatError(
            f"{folder} must hold the embeddings of its checkpoint, got {error}: restore it or start anew"
        ) from error
    fits = all(part.shape == (ids.size, arrays[stem].shape[1]) for stem, part in saved.items())
    if not fits or (ids.size and not (0 <= int(ids.min()) and int(ids.max()) < touched.size)):
        raise FormatError(f"{folder} must hold rows of a table of {touched.size}, got another: resume with its own checkpoint")
    size = _piece(arrays)
    for first in range(0, ids.size, size):
        part = np.asarray(ids[first : first + size])
        touched[part] = 1
        for stem, rows in saved.items():
            arrays[stem][part] = rows[first : first + size]


def remove_others(parent: Path, kept: Sequence[str]) -> None:
    """Remove saved tables, whole or half-written, that no checkpoint names."""
    for path in [*parent.glob("embeddings-*"), *parent.glob(".embeddings-*")]:
        if path.name not in kept:
            shutil.rmtree(path)


def _piece(arrays: Mapping[str, Floats]) -> int:
    """Rows copied at once."""
    return max(_PIECE // (4 * max(int(array.shape[1]) for array in arrays.values())), 1)


def _sync(folder: Path) -> None:
    """Make renames inside a folder last."""
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
