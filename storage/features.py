"""Named arrays of node types and relations, and the gathering of their rows into tensors."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from gnnhet.datasets.raw import NO_SPLIT, TEST, Relation
from gnnhet.errors import GraphError, SeedError
from gnnhet.jit import frozen
from gnnhet.storage.convert import put_rows
from gnnhet.storage.csc import Csc

Owner = str | Relation
ArrayLike = npt.NDArray[Any] | Tensor


@dataclass(frozen=True, kw_only=True)
class Rows:
    """One named array: a row a node (or edge).

    Attributes:
        array: read-only, C-contiguous; bfloat16 is held as uint16 of the same bits, since numpy has no such type.
        dtype: of the stored numbers.
        scale: float32, of the shape of a row, that stored int8 are multiplied by; None of other features.
        path: the file that is mapped, or None where the array lies in memory.
    """

    array: npt.NDArray[Any]
    dtype: torch.dtype
    scale: npt.NDArray[np.float32] | None = None
    path: Path | None = None

    @property
    def gathered(self) -> torch.dtype:
        """What the rows are as a tensor: the stored dtype, or float32 where there is a scale."""
        return self.dtype if self.scale is None else torch.float32

    @classmethod
    def of(cls, values: ArrayLike, what: str) -> "Rows":
        """Hold an array or tensor, without copying where it is C-contiguous and on the CPU.

        Raises:
            GraphError: not numbers, or no axis.
        """
        if isinstance(values, Tensor):
            tensor = values.detach().cpu().contiguous()
            dtype = tensor.dtype
            array = (tensor.view(torch.int16) if dtype == torch.bfloat16 else tensor).numpy()
            if dtype == torch.bfloat16:
                array = array.view(np.uint16)
        else:
            array = np.asarray(values)
            if array.dtype.kind not in "biuf":
                raise GraphError(f"{what} must be numbers, got dtype {array.dtype}: encode them first")
            array = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("="))
            dtype = _torch_dtype(array.dtype, what)
        if array.ndim == 0:
            raise GraphError(f"{what} must have a row a node, got a single number")
        return cls(array=frozen(array), dtype=dtype)


class FeatureStore:
    """Named arrays per node type or relation.

    Reserved names: `x` (input features), `y` (class, -1 where unlabelled), `split` (0 train, 1 validation, 2 test, -1).
    """

    def __init__(self) -> None:
        """Hold nothing yet."""
        self._rows: dict[Owner, dict[str, Rows]] = {}

    def add(self, owner: Owner, name: str, values: ArrayLike, count: int) -> None:
        """Hold `values` as the array `name` of `owner`.

        Args:
            owner: a node type or relation.
            name: the array's name.
            values: array or tensor, shape [count, ...].
            count: how many rows the owner has.

        Raises:
            GraphError: row counts differ, labels are NaN, or a split holds other codes than -1, 0, 1, 2.
        """
        what = f"`{name}` of {owner}"
        rows = Rows.of(values, what)
        if rows.array.shape[0] != count:
            raise GraphError(f"{what} must have one row for each of the {count}, got {rows.array.shape[0]}")
        if name == "y" and rows.dtype.is_floating_point and bool(torch.isnan(_as_tensor(rows)).any()):
            raise GraphError(f"{what} must not be NaN: mark unlabelled nodes with -1 and use integers for classes")
        if name == "split" and count and not _valid_split(rows.array):
            raise GraphError(f"{what} must be 0 (train), 1 (validation), 2 (test) or -1 (none), one a node")
        self._rows.setdefault(owner, {})[name] = rows

    def hold(self, owner: Owner, name: str, rows: Rows) -> None:
        """Hold rows that were checked when they were stored."""
        self._rows.setdefault(owner, {})[name] = rows

    def drop(self, owner: Owner, name: str) -> None:
        """Hold an array no longer; one that is not there is none."""
        self._rows.get(owner, {}).pop(name, None)

    def names(self, owner: Owner) -> list[str]:
        """Names of the arrays of a node type or relation, sorted."""
        return sorted(self._rows.get(owner, {}))

    def has(self, owner: Owner, name: str) -> bool:
        """Whether `owner` has an array `name`."""
        return name in self._rows.get(owner, {})

    def __iter__(self) -> Iterator[tuple[Owner, str, Rows]]:
        """Every (owner, name, rows), in a fixed order."""
        for owner in sorted(self._rows, key=lambda key: (isinstance(key, tuple), key)):
            for name in self.names(owner):
                yield owner, name, self._rows[owner][name]

    def rows(self, owner: Owner, name: str) -> Rows:
        """The array `name` of `owner`, where it lies.

        Raises:
            GraphError: there is none; the message lists those there are.
        """
        try:
            return self._rows[owner][name]
        except KeyError:
            known = ", ".join(self.names(owner)) or "none"
            raise GraphError(f"no feature `{name}` of {owner}: it has {known}") from None

    def array(self, owner: Owner, name: str) -> npt.NDArray[Any]:
        """The stored numpy array (read-only; bfloat16 as uint16)."""
        return self.rows(owner, name).array

    def width(self, owner: Owner, name: str) -> int:
        """Numbers in a row."""
        return int(np.prod(self.array(owner, name).shape[1:], dtype=np.int64))

    def gather(
        self, node_type: Owner, name: str, ids: ArrayLike, out: ArrayLike | None = None, dtype: torch.dtype | None = None
    ) -> Tensor:
        """Rows by id, as a tensor on the CPU.

        Args:
            node_type: a node type (or relation).
            name: the array's name.
            ids: integers, shape [n].
            out: filled in place and returned where given: shape [n, ...], of the dtype that is returned, C-contiguous.
            dtype: of the result; by default that of the feature, float32 where it has a scale.

        Returns:
            shape [n, ...].

        Raises:
            SeedError: an id out of range.
            GraphError: no such feature, or `out` of another shape or dtype.
        """
        rows = self.rows(node_type, name)
        wanted = np.ascontiguousarray(np.asarray(ids))
        if wanted.dtype.kind not in "iu" or wanted.ndim != 1:
            if wanted.size:
                raise SeedError(f"ids must be integers on one axis, got {wanted.dtype} of shape {wanted.shape}")
            wanted = np.empty(0, np.int64)
        result = _target((wanted.size, *rows.array.shape[1:]), rows.gathered if dtype is None else dtype, out)
        try:
            put_rows(rows.array, rows.dtype, rows.scale, wanted.astype(np.int64, copy=False), result)
        except GraphError as error:
            raise SeedError(f"gather of `{name}` of {node_type}: {error}") from None
        return result


def _torch_dtype(dtype: npt.DTypeLike, what: str) -> torch.dtype:
    """What an array of a numpy dtype is as a tensor."""
    try:
        return torch.from_numpy(np.empty(0, dtype)).dtype
    except TypeError as error:  # uint16 and wider before torch 2.3
        raise GraphError(f"{what} must be of a dtype that torch {torch.__version__} has, got {dtype}: convert it") from error


def _target(shape: tuple[int, ...], dtype: torch.dtype, out: ArrayLike | None) -> Tensor:
    """The tensor to fill."""
    if out is None:
        return torch.empty(shape, dtype=dtype)
    if isinstance(out, Tensor):
        tensor = out
    else:
        if not out.flags.writeable:
            raise GraphError("out must be writable, got a read-only array")
        as_bits = dtype == torch.bfloat16 and out.dtype == np.uint16
        tensor = torch.from_numpy(out.view(np.int16) if as_bits else out)
        tensor = tensor.view(torch.bfloat16) if as_bits else tensor
    if tuple(tensor.shape) != shape or tensor.dtype != dtype or not tensor.is_contiguous() or tensor.device.type != "cpu":
        raise GraphError(
            f"out must be contiguous on the CPU, of shape {shape} and dtype {dtype}, "
            f"got {tuple(tensor.shape)} and {tensor.dtype} on {tensor.device}"
        )
    return tensor


def _as_tensor(rows: Rows) -> Tensor:
    """A tensor of the rows (a copy: the rows are read-only)."""
    copy = torch.from_numpy(rows.array.copy())
    return copy.view(torch.bfloat16) if rows.dtype == torch.bfloat16 else copy


def _valid_split(array: npt.NDArray[Any]) -> bool:
    """Whether every entry is a split code."""
    return array.ndim == 1 and array.dtype.kind in "iu" and int(array.min()) >= NO_SPLIT and int(array.max()) <= TEST


def as_features(features: Mapping[str, Mapping[str, ArrayLike]] | None, num_nodes: Mapping[str, int]) -> FeatureStore:
    """Check and hold the named arrays of each node type.

    Raises:
        GraphError: a node type is unknown or rows do not match its count.
    """
    store = FeatureStore()
    for node_type, arrays in (features or {}).items():
        if node_type not in num_nodes:
            raise GraphError(f"features must belong to a node type of the graph ({', '.join(num_nodes)}), got {node_type!r}")
        for name, values in arrays.items():
            store.add(node_type, name, values, num_nodes[node_type])
    return store


def checked_rows(owner: Owner, name: str, values: ArrayLike) -> Rows:
    """Rows, or a piece of them, by the rules of every feature.

    Raises:
        GraphError: as `FeatureStore.add`.
    """
    store = FeatureStore()
    store.add(owner, name, values, Rows.of(values, f"`{name}` of {owner}").array.shape[0])
    return store.rows(owner, name)


def add_edge_features(store: FeatureStore, relation: Relation, arrays: Mapping[str, ArrayLike], part: Csc) -> None:
    """Hold named arrays of a relation's edges, given in the order the edges were given in, in their stored order.

    Raises:
        GraphError: an array has another length than there are edges.
    """
    for name, values in arrays.items():
        if part.edge_ids is None or len(values) != part.num_edges:
            raise GraphError(f"`{name}` of {relation} must have a row for each of the {part.num_edges} edges, got {len(values)}")
        store.add(
            relation,
            name,
            values[torch.from_numpy(part.edge_ids.copy())] if isinstance(values, Tensor) else values[part.edge_ids],
            part.num_edges,
        )
