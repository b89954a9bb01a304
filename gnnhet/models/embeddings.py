"""Rows of featureless node types that lie outside the model: which types, their first values, and how a model gets them.

A model without tables of its own (`Dimensions.sparse`) finds the rows in the batch, as the feature `x`.
"""

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from gnnhet.jit import frozen, kernel
from gnnhet.samplers.batch import MiniBatch
from gnnhet.samplers.rng import draw, node_key, stream
from gnnhet.storage.graph import Graph

_EMBEDDINGS = 1 << 52  # what the stream is for, beside those of `samplers.rng`
_S40 = np.uint64(40)
_UNIT = np.float32(2.0**-23)


def embedded_types(graph: Graph, target: str, uses_graph: bool) -> list[str]:
    """Node types that learn a row a node: those without `x`, where the model looks at them.

    Args:
        graph: whose node types.
        target: node type of the seeds.
        uses_graph: whether the model sees more than the seeds.
    """
    return [t for t in graph.node_types if not graph.features.has(t, "x") and (uses_graph or t == target)]


def initial_rows(seed: int, type_number: int, num_nodes: int, ids: npt.NDArray[np.int64], hidden: int) -> Tensor:
    """Rows before any step, uniform in Xavier's range (Glorot and Bengio, 2010): a function of (seed, node type, id).

    Args:
        seed: of the run.
        type_number: place of the node type among the graph's.
        num_nodes: of that type.
        ids: int64 [n].
        hidden: columns.

    Returns:
        float32 [n, hidden].
    """
    out = np.empty((ids.size, hidden), np.float32)
    bound = np.float32(math.sqrt(6 / (num_nodes + hidden)))
    _fill_initial(stream(_EMBEDDINGS, seed, type_number), frozen(ids), bound, out)
    return torch.from_numpy(out)


@kernel
def _fill_initial(base: np.uint64, ids: npt.NDArray[np.int64], bound: np.float32, out: npt.NDArray[np.float32]) -> None:
    """out[i, j]: draw j of node ids[i] as one of 2^24 evenly spaced numbers in [-bound, bound)."""
    for i in range(out.shape[0]):
        key = node_key(base, ids[i])
        for j in range(out.shape[1]):
            out[i, j] = (np.float32(np.int64(draw(key, j) >> _S40)) * _UNIT - np.float32(1)) * bound


def with_rows(batch: MiniBatch, rows: Mapping[str, Tensor]) -> MiniBatch:
    """The batch with rows as the feature `x` of their node types."""
    added = {node_type: {**batch.features.get(node_type, {}), "x": part} for node_type, part in rows.items()}
    return replace(batch, features={**batch.features, **added})


def with_initial_rows(batch: MiniBatch, graph: Graph, types: list[str], hidden: int) -> MiniBatch:
    """The batch with the rows that it would have before any step, as leaves: to measure what a step costs."""
    rows = {
        t: initial_rows(batch.seed, graph.node_types.index(t), graph.num_nodes[t], batch.input_of[t].numpy(), hidden)
        for t in types
        if t in batch.input_of
    }
    return with_rows(batch, {t: part.requires_grad_(torch.is_grad_enabled()) for t, part in rows.items()})
