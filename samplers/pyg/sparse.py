"""Torch's sparse `adj_t` in batches, which PyG's filters take for `torch_sparse`'s."""

from typing import Any

import torch
from torch import Tensor


def set_aside(lean: Any, data: Any) -> list[Any]:
    """Put `edge_index` of as many edges in the place of every `adj_t` that is a torch tensor.

    Args:
        lean: a shallow copy of a `Data` or `HeteroData`; changed.
        data: what it is a copy of.

    Returns:
        the keys of those edge stores, None for that of a `Data`.
    """
    keys = []
    for store in getattr(lean, "edge_stores", lean.stores):
        matrix = store["adj_t"] if "adj_t" in store else None
        if isinstance(matrix, Tensor):
            del store["adj_t"]
            store["edge_index"] = torch.zeros((1, 1), dtype=torch.int64).expand(2, matrix._nnz())  # only its shape is read
            if hasattr(store, "_key") and store._key is not None:
                keys.append(store._key)
            else:
                keys.append(None)
                if not any(key in store for key in ("num_nodes", "x")):
                    store["num_nodes"] = data.num_nodes
    return keys


def put_back(batch: Any, data: Any, keys: list[Any]) -> None:
    """Give the batch an `adj_t` [destinations, sources] in the CSR layout in place of those `edge_index`.

    Args:
        batch: made from what `set_aside` left; changed.
        data: what that was a copy of.
        keys: what `set_aside` returned.
    """
    for key in keys:
        store, whole = (batch, data) if key is None else (batch[key], data[key])
        row, col = store.edge_index
        sizes = (batch.num_nodes,) * 2 if key is None else (batch[key[2]].num_nodes, batch[key[0]].num_nodes)
        order = row.argsort(stable=True)
        order = order[col[order].argsort(stable=True)]
        values = whole.adj_t.to_sparse_csr().values()
        ids = store.e_id if "e_id" in store else None
        values = torch.ones(row.numel(), dtype=values.dtype) if ids is None else values[ids]
        pointers = torch.zeros(sizes[0] + 1, dtype=row.dtype)
        pointers[1:] = col.bincount(minlength=sizes[0]).cumsum(0)
        del store.edge_index
        store.adj_t = torch.sparse_csr_tensor(pointers, row[order], values[order], size=sizes)
