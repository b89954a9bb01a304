"""What readers share: paths that are there, errors on one line, and arrays from archives."""

import re
from pathlib import Path
from typing import Any

import numpy as np

from gnnhet.datasets.raw import Array
from gnnhet.errors import FormatError


def existing(path: str | Path, what: str) -> Path:
    """The path.

    Raises:
        FormatError: nothing is there.
    """
    found = Path(path)
    if not found.exists():
        raise FormatError(f"{what} must be there to be read, got {path}, which is not: check the path")
    return found


def stamp(path: Path) -> list[Any]:
    """What differs once a file was changed: its path, bytes, and nanoseconds of its last change."""
    found = path.stat()
    return [str(path.absolute()), found.st_size, found.st_mtime_ns]


def one_line(error: Exception) -> str:
    """What an error says, on one line of at most 200 characters; its name where it says nothing."""
    return " ".join(str(error).split())[:200] or type(error).__name__


def torch_refusal(error: Exception) -> str:
    """Why torch refuses a file: the object it names, or else its first sentence; without advice to trust the file."""
    named = re.search(r"GLOBAL (\S+)", str(error))
    if named:
        return f"the object {named.group(1)}, which is none of these"
    if "weights_only" in str(error):
        return "something else"
    return one_line(error).split(". ")[0]


def read_npz(path: str | Path) -> dict[str, Array]:
    """All arrays of a `.npz`; pickled objects are refused.

    Raises:
        FormatError: absent, truncated, no archive, or with objects in it.
    """
    file = existing(path, "a .npz file")
    try:
        with file.open("rb") as opened, np.load(opened, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except Exception as error:  # a damaged archive raises nearly anything
        raise FormatError(
            f"{file} must be an .npz archive of plain arrays, got {one_line(error)}: restore or convert it"
        ) from error
