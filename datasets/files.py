"""What readers share: paths that are there, and archives of arrays without code in them."""

import zipfile
import zlib
from pathlib import Path

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


def read_npz(path: str | Path) -> dict[str, Array]:
    """All arrays of a `.npz`; pickled objects are refused.

    Raises:
        FormatError: absent, truncated, no archive, or with objects in it.
    """
    file = existing(path, "a .npz file")
    try:
        with np.load(file, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except (OSError, ValueError, EOFError, KeyError, AttributeError, zipfile.BadZipFile, zlib.error) as error:
        raise FormatError(f"{file} must be an .npz archive of plain arrays, got {error}: restore or convert it") from error
