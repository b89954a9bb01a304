"""DGL's classic samplers and loader, timed: `python benchmarks/peers/dgl_worker.py --data FOLDER --task sample`.

Ids are int64: DGL 2.1.0's fused sampler, which it takes from two threads on, gives wrong blocks for int32 ids from the
second call on. With one thread it samples and then builds the block, in two steps.
"""

import argparse
from collections.abc import Iterator
from typing import Any

import dgl
import measure
import torch


def graph_of(given: argparse.Namespace) -> tuple[Any, str | None]:
    """The graph in CSC alone, and the seeds' type where it has several."""
    if given.task == "typed":
        num_nodes, parts, target = measure.typed(given.data)
        data = {relation: ("csc", _tensors(indptr, indices)) for relation, (indptr, indices) in parts.items()}
        return dgl.heterograph(data, num_nodes).formats("csc"), target
    indptr, indices, x = measure.plain(given.data, with_x=given.task == "loader")
    graph = dgl.graph(("csc", _tensors(indptr, indices)), num_nodes=indptr.size - 1).formats("csc")
    if x is not None:
        graph.ndata["x"] = torch.from_numpy(x)
    return graph, None


def _tensors(indptr: measure.Array, indices: measure.Array) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    # no edge ids: DGL then numbers the edges in stored order
    return torch.from_numpy(indptr), torch.from_numpy(indices).long(), torch.empty(0, dtype=torch.int64)


def sampled(given: argparse.Namespace, graph: Any, target: str | None) -> Iterator[Any]:
    """Batches by the sampler alone."""
    sampler = dgl.dataloading.NeighborSampler(given.fanouts[::-1])
    for seeds in measure.batches_of(given):
        ids = torch.from_numpy(seeds)
        yield sampler.sample(graph, ids if target is None else {target: ids})


def loaded(given: argparse.Namespace, graph: Any) -> Iterator[Any]:
    """Batches by the loader, with rows of `x`."""
    sampler = dgl.dataloading.NeighborSampler(given.fanouts[::-1], prefetch_node_feats=["x"])
    seeds = torch.from_numpy(measure.seeds_of(given))
    loader = dgl.dataloading.DataLoader(graph, seeds, sampler, batch_size=given.batch_size, num_workers=given.workers)
    for _, outputs, blocks in loader:
        yield blocks[0].srcdata["x"], outputs, blocks


def sizes(batch: Any) -> tuple[int, int]:
    inputs, _, blocks = batch
    parts = inputs.values() if isinstance(inputs, dict) else [inputs]
    return sum(block.num_edges() for block in blocks), sum(part.shape[0] for part in parts)


def main() -> None:
    given = measure.arguments(__doc__, ("int64",))
    torch.set_num_threads(given.threads)
    dgl.utils.set_num_threads(given.threads)  # DGL brings an OpenMP of its own, which torch's call does not reach
    dgl.seed(0)
    graph, target = graph_of(given)
    batches = loaded(given, graph) if given.task == "loader" else sampled(given, graph, target)
    measure.report(given, "dgl", dgl.__version__, batches, sizes)


if __name__ == "__main__":
    main()
