"""Pickles of arrays, read without running code and without trusting numpy's own loaders.

A pickle may name any function of any module, and numpy's `dtype` and `ndarray` believe whatever state it gives them: one
damaged byte ends the process. So no constructor of numpy or scipy is called while a pickle is read. Stand-ins take their
state, check it, and give way to real arrays.
"""

import pickle
import re
from collections import defaultdict
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

_CODE = re.compile(r"[biufc][1-9][0-9]?")  # numbers alone: no objects, records, text or dates


class ArrayUnpickler(pickle.Unpickler):
    """Admits arrays and scalars of numbers, CSR matrices and plain containers, by the names of Python 2 or of now."""

    def find_class(self, module: str, name: str) -> Any:
        """What stands for a constructor.

        Raises:
            UnpicklingError: any other.
        """
        try:
            return _ADMITTED[(module, name)]
        except KeyError:
            raise pickle.UnpicklingError(f"it names {module}.{name}, which no file of arrays needs") from None

    def load(self) -> Any:
        """The object; its arrays are read-only, since they lie in the bytes of the pickle.

        Raises:
            UnpicklingError, ValueError, TypeError, and nearly anything else: the bytes are no such pickle.
        """
        return _resolved(super().load(), {})


class _Dtype:
    """Stands for `numpy.dtype`."""

    def __init__(self, code: Any = None, align: Any = False, copy: Any = False) -> None:
        if not isinstance(code, str) or not _CODE.fullmatch(code):
            raise pickle.UnpicklingError(f"arrays must hold numbers, got dtype {code!r}")
        self.dtype = np.dtype(code)

    def __setstate__(self, state: Any) -> None:
        order, *compound = state[1:5]  # (version, byte order, subarray, names, fields, size, alignment, flags)
        if not isinstance(order, str) or order not in tuple("<>=|") or any(part is not None for part in compound):
            raise pickle.UnpicklingError("the state of a dtype is damaged")
        self.dtype = np.dtype(order + self.dtype.str[1:])


class _Array:
    """Stands for `numpy.ndarray`."""

    def __init__(self) -> None:
        self.array: npt.NDArray[Any] | None = None

    def __setstate__(self, state: Any) -> None:
        shape, dtype, fortran, data = state[-4:]  # an older form has no version before them
        content = data.encode("latin1") if isinstance(data, str) else data
        if not isinstance(dtype, _Dtype) or not isinstance(content, bytes) or any(size < 0 for size in shape):
            raise pickle.UnpicklingError("the state of an array is damaged")
        self.array = np.frombuffer(content, dtype.dtype).reshape(shape, order="F" if fortran else "C")


class _Csr:
    """Stands for `scipy.sparse.csr_matrix`."""

    def __init__(self) -> None:
        self.state: Any = None

    def __setstate__(self, state: Any) -> None:
        self.state = state


def _array(subtype: Any, shape: Any, code: Any) -> _Array:
    """Stands for `numpy.core.multiarray._reconstruct`: an array whose state comes later."""
    if subtype is not _Array:
        raise pickle.UnpicklingError("an array of another kind than numpy's")
    return _Array()


def _scalar(dtype: Any, data: Any) -> Any:
    """Stands for `numpy.core.multiarray.scalar`."""
    (value,) = np.frombuffer(data.encode("latin1") if isinstance(data, str) else data, dtype.dtype)
    return value


def _latin1(text: str, encoding: str = "latin1") -> bytes:
    """Bytes as Python 3 writes them in the protocols of Python 2; no other codec is looked up."""
    return text.encode("latin1")


def _no_bytes() -> bytes:
    """How the protocols of Python 2 write empty bytes."""
    return b""


def _resolved(found: Any, done: dict[int, Any]) -> Any:
    """Real arrays and matrices in place of stand-ins, also inside containers.

    Args:
        found: what was unpickled.
        done: results by the identity of what they stand for: what is shared stays shared, and cycles end.
    """
    if not isinstance(found, (_Array, _Csr, _Dtype, dict, list, tuple)):
        return found
    if id(found) in done:
        return done[id(found)]
    result: Any = found
    if isinstance(found, _Array):
        if found.array is None:
            raise pickle.UnpicklingError("an array without content")
        result = found.array
    elif isinstance(found, _Dtype):
        result = found.dtype
    elif isinstance(found, _Csr):
        result = _matrix(found.state)
    done[id(found)] = result
    if isinstance(found, dict):
        for key, value in found.items():
            found[key] = _resolved(value, done)  # keys stay: values alone may change under an iteration
    elif isinstance(found, list):
        found[:] = [_resolved(value, done) for value in found]
    elif isinstance(found, tuple):
        result = done[id(found)] = tuple(_resolved(value, done) for value in found)
    return result


def _matrix(state: Any) -> sp.csr_matrix:
    """A CSR matrix of its state; all indices are checked, since scipy trusts them."""
    parts = [_resolved(state[part], {}) for part in ("data", "indices", "indptr")]
    if not all(isinstance(part, np.ndarray) for part in parts) or any(part.dtype.kind != "i" for part in parts[1:]):
        raise pickle.UnpicklingError("the state of a matrix is damaged")
    shape = state["_shape"] if "_shape" in state else state["shape"]
    matrix = sp.csr_matrix(tuple(parts), shape=tuple(int(size) for size in shape))
    matrix.check_format()
    return matrix


_ADMITTED: dict[tuple[str, str], Any] = {
    ("_codecs", "encode"): _latin1,
    ("__builtin__", "bytes"): _no_bytes,
    ("builtins", "bytes"): _no_bytes,
    ("collections", "defaultdict"): defaultdict,
    ("__builtin__", "list"): list,
    ("builtins", "list"): list,
    ("numpy", "dtype"): _Dtype,
    ("numpy", "ndarray"): _Array,
    **{(f"numpy.{core}.multiarray", "_reconstruct"): _array for core in ("core", "_core")},
    **{(f"numpy.{core}.multiarray", "scalar"): _scalar for core in ("core", "_core")},
    **{(f"scipy.sparse.{module}", "csr_matrix"): _Csr for module in ("csr", "_csr")},
}
