"""Tensors whose rows PyG's own filters take by this library's gather, and data objects made of them."""

import copy
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data, HeteroData

from gnnhet.samplers.buffers import BufferPool
from gnnhet.storage.gather import gather_rows

LEAST_ROW_BYTES = 32
_NEVER_ROWS = ("adj", "adj_t", "edge_index", "num_nodes")


class RowTensor(Tensor):
    """A CPU tensor as it is, but that `torch.index_select` of its rows runs in one pass without the interpreter's lock.

    Attributes:
        pool: where the memory of the rows comes from, or None.
    """

    pool: BufferPool | None = None

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Gather rows; anything else as torch does it, on the plain tensor."""
        kwargs = kwargs or {}
        with torch._C.DisableTorchFunctionSubclass():
            named = getattr(func, "__name__", "")  # PyG puts a function of its own in the place of torch.index_select
            if named == "index_select" and len(args) == 3 and args[1] == 0 and isinstance(args[0], cls):
                return take_rows(args[0].as_subclass(Tensor), args[2], kwargs.get("out"), args[0].pool)
            return func(*args, **kwargs)


def take_rows(values: Tensor, index: Tensor, out: Tensor | None = None, pool: BufferPool | None = None) -> Tensor:
    """`values[index]`.

    Args:
        values: contiguous, on the CPU, at least one axis.
        index: int64 [n], on the CPU.
        out: contiguous, of the result's shape and dtype; filled and returned where given.
        pool: where the result's memory comes from otherwise; fresh memory where there is none.

    Raises:
        GraphError: an index out of range.
    """
    result = out
    if result is None:
        shape = (index.numel(), *values.shape[1:])
        result = torch.empty(shape, dtype=values.dtype) if pool is None else pool.take(shape, values.dtype)
    if values.numel() and result.is_contiguous():
        gather_rows(_bytes(values), np.ascontiguousarray(index.numpy(), np.int64), _bytes(result))
        return result
    return torch.index_select(values, 0, index, out=out)


def _bytes(rows: Tensor) -> Any:
    """[rows, bytes of a row] uint8 over the same memory."""
    return rows.detach().reshape(rows.shape[0], rows.numel() // max(rows.shape[0], 1)).view(torch.uint8).numpy()


def with_row_tensors(data: Any, pool: BufferPool | None = None) -> Any:
    """A shallow copy of a `Data` or `HeteroData` in which what is selected by row is a `RowTensor`; others as they are.

    Tensors on other devices, with gradients, strides, short rows or of other kinds stay what they are.

    Args:
        data: to copy.
        pool: where the memory of the rows comes from, or None.
    """
    if not isinstance(data, Data | HeteroData):
        return data
    lean = copy.copy(data)
    for store in lean.stores:
        for key, value in list(store.items()):
            if key in _NEVER_ROWS or type(value) is not Tensor or not _plain(value):
                continue
            selected = store.is_node_attr(key) or store.is_edge_attr(key)
            if selected and lean.__cat_dim__(key, value, store) == 0:
                rows = value.as_subclass(RowTensor)
                rows.pool = pool
                store[key] = rows
    return lean


def _plain(value: Tensor) -> bool:
    """Whether its rows are runs of bytes in ordinary memory."""
    return (
        value.layout == torch.strided
        and value.device.type == "cpu"
        and value.dim() > 0
        and value.is_contiguous()
        and value.nbytes >= LEAST_ROW_BYTES * value.shape[0]  # below, torch is as fast
        and not value.requires_grad
        and not value.is_conj()
        and not value.is_neg()
        and not value.is_quantized
    )
