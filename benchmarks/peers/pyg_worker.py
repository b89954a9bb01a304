"""PyG's sampler and loader over torch-sparse, timed: `python benchmarks/peers/pyg_worker.py --data FOLDER --task sample`.

PyG draws for each node once, in the layer that first meets it: fewer edges than layered samplers, which draw for all
destinations of every layer. Its sampling runs on one thread.
"""

import argparse
import warnings
from collections.abc import Iterator
from typing import Any

import measure
import numpy as np
import torch
import torch_geometric
from torch_geometric.data import Data, HeteroData
from torch_geometric.loader import NeighborLoader
from torch_geometric.sampler import NeighborSampler, NodeSamplerInput
from torch_geometric.typing import WITH_PYG_LIB, WITH_TORCH_SPARSE


def data_of(given: argparse.Namespace) -> tuple[Any, str | None]:
    """The graph, and the seeds' type where it has several."""
    if given.task == "typed":
        num_nodes, parts, target = measure.typed(given.data)
        typed = HeteroData()
        for node_type, count in num_nodes.items():
            typed[node_type].num_nodes = count
        for relation, (indptr, indices) in parts.items():
            typed[relation].edge_index = _edge_index(indptr, indices)
        return typed, target
    indptr, indices, x = measure.plain(given.data, with_x=given.task == "loader")
    data = Data(edge_index=_edge_index(indptr, indices), num_nodes=indptr.size - 1)
    if x is not None:
        data.x = torch.from_numpy(x)
    return data, None


def _edge_index(indptr: measure.Array, indices: measure.Array) -> torch.Tensor:
    """Sources and destinations, sorted by destination."""
    edges = np.empty((2, indices.size), np.int64)
    edges[0] = indices
    edges[1] = np.repeat(np.arange(indptr.size - 1), np.diff(indptr))
    return torch.from_numpy(edges)


def sampled(given: argparse.Namespace, data: Any, target: str | None) -> Iterator[Any]:
    """Batches by the sampler alone."""
    sampler = NeighborSampler(data, num_neighbors=given.fanouts, is_sorted=True)
    for seeds in measure.batches_of(given):
        yield sampler.sample_from_nodes(NodeSamplerInput(None, torch.from_numpy(seeds), None, target))


def loaded(given: argparse.Namespace, data: Any) -> Iterator[Any]:
    """Batches by the loader, with rows of `x`."""
    seeds = torch.from_numpy(measure.seeds_of(given))
    yield from NeighborLoader(
        data, given.fanouts, input_nodes=seeds, batch_size=given.batch_size, num_workers=given.workers, is_sorted=True
    )


def sizes(batch: Any) -> tuple[int, int]:
    if isinstance(batch, Data):
        return batch.edge_index.shape[1], batch.x.shape[0]
    if isinstance(batch.row, dict):
        return sum(part.numel() for part in batch.row.values()), sum(part.numel() for part in batch.node.values())
    return batch.row.numel(), batch.node.numel()


def main() -> None:
    given = measure.arguments(__doc__, ("int64",))
    if WITH_PYG_LIB or not WITH_TORCH_SPARSE:
        raise SystemExit("the peer is PyG over torch-sparse: make its environment with make_env.sh pyg")
    warnings.filterwarnings("ignore", ".*'pyg-lib' installation.*")
    torch.set_num_threads(given.threads)
    torch_geometric.seed_everything(0)
    data, target = data_of(given)
    batches = loaded(given, data) if given.task == "loader" else sampled(given, data, target)
    measure.report(given, "pyg", torch_geometric.__version__, batches, sizes)


if __name__ == "__main__":
    main()
