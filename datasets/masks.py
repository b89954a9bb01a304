"""Node-level tensors as PyG and DGL keep them, with masks for the splits."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from gnnhet.datasets.raw import NO_SPLIT, TEST, TRAIN, VAL, Array

_MASKS = {"train_mask": TRAIN, "val_mask": VAL, "test_mask": TEST}


def node_features(tensors: Mapping[str, Any], count: int) -> dict[str, Array]:
    """Those with a row a node, by name; masks as one `split`.

    Args:
        tensors: of one node type; what is no tensor or has another length is left out. Sparse `x` is made dense; of masks
            with several columns the first counts.
        count: nodes of the type.
    """
    import torch

    found: dict[str, Any] = {}
    split = np.full(count, NO_SPLIT, np.int8)
    for key, value in tensors.items():
        if not isinstance(value, torch.Tensor) or value.dim() == 0 or value.shape[0] != count:
            continue
        if key in _MASKS:
            mask = value.cpu().numpy().astype(np.bool_)
            split[mask if mask.ndim == 1 else mask[:, 0]] = _MASKS[key]
        elif value.layout == torch.strided or key == "x":
            found[key] = value.detach().cpu().to_dense()
    if (split != NO_SPLIT).any():
        found["split"] = split
    labels = found.get("y")
    if labels is not None and labels.dim() == 2 and labels.shape[1] == 1:
        found["y"] = labels.squeeze(1)
    return found
