"""One writer a graph folder, who makes a change in one rename: who comes second waits, and says for whom."""

import contextlib
import fcntl
import json
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gnnhet.errors import FormatError, WaitError
from gnnhet.storage.index import ARRAYS, INDEX, file_entries, read_index

LOCK = ".lock"
WAIT_SECONDS = 600.0
_LOOK_SECONDS = 0.02
_WRITTEN = re.compile(r"(edges|feature|ids)\d{3,}\..+-[0-9a-f]{8}\.(npy|parquet)|\.(edges|feature|ids)\d{3,}\..+\.\d+\.part")


@contextlib.contextmanager
def writing(folder: Path, timeout_s: float = WAIT_SECONDS) -> Iterator[None]:
    """Hold a folder's `.lock` while its graph is changed; readers need none.

    The lock is the kernel's (flock): it ends with its process, however that dies. The file is removed with it.

    Args:
        folder: exists.
        timeout_s: how long to wait for another writer.

    Raises:
        WaitError: another process or thread held it all that time.
        FormatError: the file system has no locks.
    """
    path = folder / LOCK
    until = time.monotonic() + timeout_s
    while (handle := _take(path)) is None:
        if time.monotonic() >= until:
            raise WaitError(
                f"one writer at a time changes {folder}, waited {timeout_s:g} s for {_holder(path)}: try again when it is done"
            )
        time.sleep(_LOOK_SECONDS)
    try:
        os.truncate(handle, 0)
        os.write(handle, f"process {os.getpid()} on {os.uname().nodename}".encode())
        yield
    finally:
        path.unlink(missing_ok=True)  # while it is held: whoever opened it before sees that it is gone, and opens anew
        os.close(handle)


def _take(path: Path) -> int | None:
    """An open, locked file that lies at `path`, or None where another has it."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(handle), path.stat()):
            return handle
    except (BlockingIOError, FileNotFoundError):
        pass
    except OSError as error:
        os.close(handle)
        raise FormatError(f"a graph is saved on a file system with locks, got {error} at {path}: choose another place") from error
    os.close(handle)
    return None


def _holder(path: Path) -> str:
    """Who says to hold the lock."""
    try:
        return path.read_text(errors="replace") or "another process"
    except OSError:
        return "other processes"


@contextlib.contextmanager
def changing(folder: Path, timeout_s: float = WAIT_SECONDS) -> Iterator[None]:
    """Alone in changing a folder; what fails inside leaves the arrays that were there before, and no others.

    Raises:
        WaitError: another writer held the folder for `timeout_s` seconds.
    """
    with writing(folder, timeout_s):
        before = {path for path in litter(folder) if path.suffix != ".part"}
        try:
            yield
        except BaseException:
            with contextlib.suppress(FormatError):  # nobody can say what a broken graph.json needs: all of it stays
                kept = before | (_named(folder) if (folder / INDEX).exists() else set())  # it may fail after its rename
                for path in litter(folder) - kept:  # what was there still opens, and nothing half is left
                    path.unlink(missing_ok=True)
            raise


def publish(folder: Path, document: dict[str, Any]) -> None:
    """Make a document the folder's graph in one rename, then remove the arrays that it does not name."""
    _replace(folder / INDEX, json.dumps(document, indent=1).encode())
    for path in litter(folder) - _named(folder):
        path.unlink(missing_ok=True)


def litter(folder: Path) -> set[Path]:
    """Files that saves write, by their names: arrays, and what an interrupted one left beside."""
    arrays = folder / ARRAYS
    inside = arrays.iterdir() if arrays.is_dir() else ()
    return {path for path in inside if _WRITTEN.fullmatch(path.name)} | set(folder.glob(f".{INDEX}.*.part"))


def _named(folder: Path) -> set[Path]:
    """The files that the folder's graph is made of."""
    return {folder / str(entry["file"]) for entry in file_entries(read_index(folder))}


def _replace(path: Path, data: bytes) -> None:
    """Put `data` at `path` in one step that survives a power cut: write beside, fsync, rename, fsync the folders."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    with beside.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    _sync_folder(path.parent / ARRAYS)
    beside.replace(path)
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    """Make renames in a folder durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
