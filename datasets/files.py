"""What readers share: paths that are there, and arrays from archives and pickles without code in them."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from gnnhet.datasets.raw import Array
from gnnhet.errors import FormatError

# All that pickles of arrays need; a pickle could name any function of any module.
_ADMITTED = {
    ("_codecs", "encode"),
    ("collections", "defaultdict"),
    ("__builtin__", "list"),
    ("builtins", "list"),
    ("numpy", "dtype"),
    ("numpy", "ndarray"),
    ("numpy.core.multiarray", "_reconstruct"),
    ("numpy._core.multiarray", "_reconstruct"),
    ("numpy.core.multiarray", "scalar"),
    ("numpy._core.multiarray", "scalar"),
    ("scipy.sparse.csr", "csr_matrix"),
    ("scipy.sparse._csr", "csr_matrix"),
}


class ArrayUnpickler(pickle.Unpickler):
    """Admits the constructors of arrays, CSR matrices and plain containers."""

    def find_class(self, module: str, name: str) -> Any:
        """A constructor by the name it had in Python 2 or has now."""
        if (module, name) not in _ADMITTED:
            raise pickle.UnpicklingError(f"it names {module}.{name}, which no file of arrays needs")
        if name == "encode":
            return _latin1
        if name == "csr_matrix":
            return sp.csr_matrix
        if module.endswith(".multiarray"):
            module = "numpy._core.multiarray" if hasattr(np, "_core") else "numpy.core.multiarray"
        return super().find_class("builtins" if module == "__builtin__" else module, name)


def _latin1(text: str, encoding: str = "latin1") -> bytes:
    """Bytes as Python 3 writes them in the protocols of Python 2; no other codec is looked up."""
    return text.encode("latin1")


def existing(path: str | Path, what: str) -> Path:
    """The path.

    Raises:
        FormatError: nothing is there.
    """
    found = Path(path)
    if not found.exists():
        raise FormatError(f"{what} must be there to be read, got {path}, which is not: check the path")
    return found


def one_line(error: Exception) -> str:
    """What an error says, on one line of at most 200 characters; its name where it says nothing."""
    return " ".join(str(error).split())[:200] or type(error).__name__


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
