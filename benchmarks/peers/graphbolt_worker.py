"""DGL's GraphBolt, timed: `python benchmarks/peers/graphbolt_worker.py --data FOLDER --task sample`.

Edge ids are not asked for, which it does quickest. int32 ids (as the folder has them) and int64 ones both give right
batches; int32 is the quicker on one thread. The loader's batches hold sampled CSC and rows of `x`; they are not made into
DGL's blocks.
"""

import argparse
from typing import Any

import dgl
import dgl.graphbolt as gb
import measure
import numpy as np
import torch


def typed_graph(given: argparse.Namespace) -> tuple[Any, str]:
    """All relations in one CSC: nodes numbered type after type, a node's edges in order of their relations."""
    num_nodes, parts, target = measure.typed(given.data)
    types, starts = list(num_nodes), np.cumsum([0, *num_nodes.values()])
    offset = dict(zip(types, starts, strict=False))
    degrees = np.zeros(starts[-1] + 1, np.int64)  # of node v at v + 1
    for (_, _, dst), (relation_indptr, _) in parts.items():
        degrees[offset[dst] + 1 : offset[dst] + relation_indptr.size] += np.diff(relation_indptr)
    indptr = np.cumsum(degrees)
    room, indices = indptr[:-1].copy(), np.empty(indptr[-1], given.ids)
    relation_of = np.empty(indices.size, np.uint8)
    for number, ((src, _, dst), (relation_indptr, sources)) in enumerate(parts.items()):
        rows = slice(offset[dst], offset[dst] + relation_indptr.size - 1)
        counts = np.diff(relation_indptr)
        places = np.arange(sources.size) + np.repeat(room[rows] - relation_indptr[:-1], counts)
        indices[places], relation_of[places] = sources + offset[src], number
        room[rows] += counts
    graph = gb.fused_csc_sampling_graph(
        torch.from_numpy(indptr),
        torch.from_numpy(indices),
        node_type_offset=torch.from_numpy(starts),
        type_per_edge=torch.from_numpy(relation_of),
        node_type_to_id={name: number for number, name in enumerate(types)},
        edge_type_to_id={":".join(relation): number for number, relation in enumerate(parts)},
    )
    return graph, target


def pipe(given: argparse.Namespace) -> Any:
    """The pipeline of a task."""
    if given.task == "typed":
        graph, target = typed_graph(given)
        seeds = torch.from_numpy(measure.seeds_of(given).astype(given.ids))
        items: Any = gb.ItemSetDict({target: gb.ItemSet(seeds, names="seed_nodes")})
        relations = len(graph.edge_type_to_id)
        fanouts: list[Any] = [torch.full((relations,), fanout) for fanout in given.fanouts[::-1]]
        return gb.ItemSampler(items, batch_size=given.batch_size).sample_neighbor(graph, fanouts)
    indptr, indices, x = measure.plain(given.data, with_x=given.task == "loader")
    graph = gb.fused_csc_sampling_graph(torch.from_numpy(indptr), torch.from_numpy(indices.astype(given.ids, copy=False)))
    seeds = torch.from_numpy(measure.seeds_of(given).astype(given.ids))
    items = gb.ItemSet(seeds, names="seed_nodes")
    stages = gb.ItemSampler(items, batch_size=given.batch_size).sample_neighbor(graph, given.fanouts[::-1])
    if x is None:
        return stages
    store = gb.BasicFeatureStore({("node", None, "x"): gb.TorchBasedFeature(torch.from_numpy(x))})
    return gb.DataLoader(stages.fetch_feature(store, node_feature_keys=["x"]), num_workers=given.workers)


def sizes(batch: Any) -> tuple[int, int]:
    edges = 0
    for layer in batch.sampled_subgraphs:
        parts = layer.sampled_csc.values() if isinstance(layer.sampled_csc, dict) else [layer.sampled_csc]
        edges += sum(part.indices.numel() for part in parts)
    inputs = batch.input_nodes.values() if isinstance(batch.input_nodes, dict) else [batch.input_nodes]
    return edges, sum(part.numel() for part in inputs)


def main() -> None:
    given = measure.arguments(__doc__, ("int32", "int64"))
    torch.set_num_threads(given.threads)
    dgl.utils.set_num_threads(given.threads)  # GraphBolt runs on DGL's OpenMP, which torch's call does not reach
    torch.manual_seed(0)
    measure.report(given, "graphbolt", dgl.__version__, iter(pipe(given)), sizes)


if __name__ == "__main__":
    main()
