"""PyG data for tests, and what holds of every batch of it."""

from collections import Counter
from typing import Any

import torch
from hypothesis import strategies as st
from tests.strategies import typed_raw
from torch import Tensor
from torch_geometric.data import Data, HeteroData

from gnnhet.datasets.raw import RawGraph, Relation


def as_hetero(raw: RawGraph) -> HeteroData:
    data = HeteroData()
    for kind, count in raw.num_nodes.items():
        data[kind].x = torch.arange(count * 3, dtype=torch.float32).view(count, 3)
    for relation, (src, dst) in raw.edges.items():
        data[relation].edge_index = torch.from_numpy(raw_pairs(src, dst))
        data[relation].edge_attr = torch.arange(len(src))
    return data


def raw_pairs(src: Any, dst: Any) -> Any:
    import numpy as np

    return np.stack([src, dst]).astype(np.int64)


hetero_data = typed_raw().map(as_hetero)


@st.composite
def homogeneous_data(draw: st.DrawFn, most_nodes: int = 12, most_edges: int = 40) -> Data:
    count = draw(st.integers(1, most_nodes))
    ends = st.tuples(st.integers(0, count - 1), st.integers(0, count - 1))
    pairs = torch.tensor(draw(st.lists(ends, max_size=most_edges)), dtype=torch.int64).view(-1, 2).t().contiguous()
    return Data(
        x=torch.arange(count * 2.0).view(count, 2), edge_index=pairs, edge_attr=torch.arange(pairs.shape[1]), num_nodes=count
    )


def random_data(num_nodes: int = 300, num_edges: int = 2000, seed: int = 0) -> Data:
    generator = torch.Generator().manual_seed(seed)
    return Data(
        x=torch.randn(num_nodes, 5, generator=generator),
        y=torch.arange(num_nodes),
        edge_index=torch.randint(num_nodes, (2, num_edges), generator=generator),
        edge_attr=torch.arange(num_edges),
    )


def random_hetero(seed: int = 0) -> HeteroData:
    generator = torch.Generator().manual_seed(seed)
    data = HeteroData()
    counts = {"paper": 100, "author": 200}
    for kind, count in counts.items():
        data[kind].x = torch.arange(count)
    for src, dst, edges in (("paper", "paper", 500), ("paper", "author", 900), ("author", "paper", 1000)):
        pairs = [torch.randint(counts[kind], (edges,), generator=generator) for kind in (src, dst)]
        data[src, dst].edge_index = torch.stack(pairs)
        data[src, dst].edge_attr = torch.arange(edges)
    return data


def typed(data: Data | HeteroData) -> tuple[dict[str, Any], dict[Relation, Any]]:
    """(node stores, edge stores) by type; the only type of `Data` is `node`."""
    if isinstance(data, HeteroData):
        return {kind: data[kind] for kind in data.node_types}, {kind: data[kind] for kind in data.edge_types}
    return {"node": data}, {("node", "to", "node"): data}


def check_edges(data: Data | HeteroData, batch: Data | HeteroData) -> None:
    """Every edge is the one that its id says; features are those of the ids."""
    nodes, edges = typed(batch)
    given_nodes, given_edges = typed(data)
    for kind, store in nodes.items():
        assert torch.equal(store.x, given_nodes[kind].x[store.n_id])
    for relation, store in edges.items():
        row, col = store.edge_index
        pairs = torch.stack([nodes[relation[0]].n_id[row], nodes[relation[2]].n_id[col]])
        assert torch.equal(pairs, given_edges[relation].edge_index[:, store.e_id])
        assert torch.equal(store.edge_attr, given_edges[relation].edge_attr[store.e_id])


def check_hops(data: Data | HeteroData, batch: Data | HeteroData, fanouts: dict[Relation, list[int]], replace: bool) -> None:
    """Each node draws once, in the hop after it was first seen, as many edges as its fanout says."""
    nodes, edges = typed(batch)
    _, given = typed(data)
    hops = len(next(iter(fanouts.values())))
    for relation, store in edges.items():
        kind = relation[2]
        ends = torch.tensor([0, *nodes[kind].num_sampled_nodes]).cumsum(0).tolist()
        degree = given[relation].edge_index[1].bincount(minlength=len(given_nodes_of(data, kind)))
        assert len(store.num_sampled_edges) == hops
        drawn = store.edge_index[1].split(store.num_sampled_edges)
        ids = store.e_id.split(store.num_sampled_edges)
        for hop in range(hops):
            count = Counter(drawn[hop].tolist())
            assert set(count) <= set(range(ends[hop], ends[hop + 1]))
            for local in range(ends[hop], ends[hop + 1]):
                wanted, most = fanouts[relation][hop], int(degree[nodes[kind].n_id[local]])
                full = wanted if replace and most else min(wanted, most)
                assert count[local] == (most if wanted < 0 else full)
            if not replace and unique(nodes[kind].n_id[ends[hop] : ends[hop + 1]]):
                assert unique(ids[hop])


def given_nodes_of(data: Data | HeteroData, kind: str) -> Tensor:
    found: Tensor = typed(data)[0][kind].x
    return found


def unique(values: Tensor) -> bool:
    return len(set(values.tolist())) == values.numel()


def same(a: Any, b: Any) -> bool:
    """Equal keys in the same order, equal values, dtypes and shapes."""
    if isinstance(a, Data | HeteroData):
        return type(a) is type(b) and same(a.to_dict(), b.to_dict())
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, Tensor):
        return type(a) is type(b) and a.dtype == b.dtype and torch.equal(a, b)
    return bool(a == b)
