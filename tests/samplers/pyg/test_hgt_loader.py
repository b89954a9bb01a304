"""`HGTLoader`: as many nodes of each type as asked for, and all edges among them."""

import pickle

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.samplers.pyg.graphs import check_edges, hetero_data, random_data, random_hetero, same, unique
from torch_geometric import loader as pyg
from torch_geometric.data import HeteroData
from torch_geometric.sampler import NodeSamplerInput

from gnnhet.errors import SpecError
from gnnhet.samplers.pyg import HGTLoader, HGTSampler


@settings(max_examples=100)
@given(hetero_data, st.integers(1, 3), st.data())
def test_batches(data: HeteroData, hops: int, draws: st.DataObject) -> None:
    counts = {kind: draws.draw(st.lists(st.integers(0, 4), min_size=hops, max_size=hops)) for kind in data.node_types}
    kind = draws.draw(st.sampled_from(data.node_types))
    for batch in HGTLoader(data, counts, kind, batch_size=4):
        check_edges(data, batch)
        for other in data.node_types:
            assert unique(batch[other].n_id)
            seeds = batch[kind].batch_size if other == kind else 0
            assert batch[other].num_nodes <= seeds + sum(counts[other])
        for relation in data.edge_types:
            src, dst = data[relation].edge_index
            inside = torch.isin(src, batch[relation[0]].n_id) & torch.isin(dst, batch[relation[2]].n_id)
            assert sorted(batch[relation].e_id.tolist()) == inside.nonzero().view(-1).tolist()


def test_counts_are_met_where_there_are_neighbours() -> None:
    batch = next(iter(HGTLoader(random_hetero(), [5] * 4, "paper", batch_size=20)))
    assert (batch["paper"].num_nodes, batch["author"].num_nodes) == (40, 20)
    assert batch["paper"].n_id[:20].tolist() == list(range(20))


def test_seeds_epochs_and_workers() -> None:
    data = random_hetero()
    loader = HGTLoader(data, [5, 5], "paper", batch_size=20, seed=1)
    first, second = list(loader), list(loader)
    assert not same(first[0], second[0])
    threads = HGTLoader(data, [5, 5], "paper", batch_size=20, seed=1, num_workers=2)
    assert all(same(a, b) for a, b in zip([*first, *second], [*threads, *threads], strict=True))
    theirs = pyg.NodeLoader(data, HGTSampler(data, [5, 5], seed=1), "paper", batch_size=20)
    assert all(same(a, b) for a, b in zip(first, theirs, strict=True))
    sampler = pickle.loads(pickle.dumps(HGTSampler(data, [5, 5], seed=1)))
    out = sampler.sample_from_nodes(NodeSamplerInput(torch.arange(20), torch.arange(20), None, "paper"))
    assert torch.equal(out.node["author"], first[0]["author"].n_id)


def test_refusals() -> None:
    with pytest.raises(SpecError, match="needs a typed graph"):
        HGTLoader(random_data(), [5], torch.arange(3))
    with pytest.raises(SpecError, match="num_samples must name"):
        HGTLoader(random_hetero(), {"paper": [5]}, "paper")
    with pytest.raises(SpecError, match="0 or more"):
        HGTLoader(random_hetero(), [-1], "paper")
    with pytest.raises(SpecError, match="starts from nodes"):
        HGTSampler(random_hetero(), [5]).sample_from_edges(None)
