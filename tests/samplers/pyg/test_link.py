"""`LinkNeighborLoader`: labels, negatives, times, and that both ends of a link stay together."""

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.samplers.pyg.graphs import check_edges, hetero_data, random_data, random_hetero, same
from torch_geometric import loader as pyg
from torch_geometric.data import HeteroData
from torch_geometric.sampler import NegativeSampling

from gnnhet.errors import SpecError
from gnnhet.samplers.pyg import LinkNeighborLoader, NeighborSampler
from gnnhet.samplers.pyg.keys import KeyedNegatives


@settings(max_examples=80)
@given(hetero_data, st.booleans(), st.data())
def test_labels_name_the_given_links(data: HeteroData, disjoint: bool, draws: st.DataObject) -> None:
    kinds = [kind for kind in data.edge_types if data[kind].num_edges]
    if not kinds:
        return
    kind = draws.draw(st.sampled_from(kinds))
    for batch in LinkNeighborLoader(data, [2, 1], kind, batch_size=3, disjoint=disjoint):
        store = batch[kind]
        check_edges(data, batch)
        src, dst = store.edge_label_index
        found = torch.stack([batch[kind[0]].n_id[src], batch[kind[2]].n_id[dst]])
        assert torch.equal(found, data[kind].edge_index[:, store.input_id])
        if disjoint:
            assert torch.equal(batch[kind[0]].batch[src], batch[kind[2]].batch[dst])


@pytest.mark.parametrize("amount", [0.5, 1, 2, 2.5])
@pytest.mark.parametrize("kind", [("paper", "to", "paper"), ("paper", "to", "author")])
def test_binary_negatives(amount: float, kind: tuple[str, str, str]) -> None:
    data = random_hetero()
    negatives = {"mode": "binary", "amount": amount}
    for batch in LinkNeighborLoader(data, [2], kind, batch_size=30, neg_sampling=negatives, disjoint=True, drop_last=True):
        store = batch[kind]
        assert store.edge_label.tolist() == [1.0] * 30 + [0.0] * int(30 * amount)
        src, dst = store.edge_label_index
        assert batch[kind[0]].batch[src].tolist() == [i % 30 for i in range(30 + int(30 * amount))]
        assert torch.equal(batch[kind[0]].batch[src], batch[kind[2]].batch[dst])
        check_edges(data, batch)


@pytest.mark.parametrize("amount", [1, 3])
@pytest.mark.parametrize("disjoint", [False, True])
def test_triplets(amount: int, disjoint: bool) -> None:
    data = random_data()
    negatives = NegativeSampling("triplet", amount)
    for batch in LinkNeighborLoader(data, [2], batch_size=50, neg_sampling=negatives, disjoint=disjoint):
        assert torch.equal(batch.n_id[batch.src_index], data.edge_index[0, batch.input_id])
        assert torch.equal(batch.n_id[batch.dst_pos_index], data.edge_index[1, batch.input_id])
        assert batch.dst_neg_index.shape == ((50,) if amount == 1 else (50, amount))
        assert "edge_label_index" not in batch
        if disjoint:
            assert torch.equal(batch.batch[batch.src_index], batch.batch[batch.dst_pos_index])
            assert torch.equal(batch.batch[batch.src_index], batch.batch[batch.dst_neg_index.view(50, -1)[:, -1]])


def test_negatives_are_a_function_of_the_seed() -> None:
    def negatives(seed: int, workers: int) -> list[torch.Tensor]:
        loader = LinkNeighborLoader(
            random_data(), [1], batch_size=200, neg_sampling="binary", seed=seed, num_workers=workers, shuffle=False
        )
        return [batch.n_id[batch.edge_label_index] for batch in (*loader, *loader)]

    first = negatives(1, 0)
    torch.rand(3)
    assert all(torch.equal(a, b) for a, b in zip(first, negatives(1, 2), strict=True))
    assert not torch.equal(first[0][:, 200:], negatives(2, 0)[0][:, 200:])
    assert not torch.equal(first[0][:, 200:], first[10][:, 200:])  # another epoch
    assert not torch.equal(first[0][:, 200:], first[1][:, 200:])


def test_negatives_follow_their_weights() -> None:
    weight = torch.zeros(300)
    weight[[7, 9]] = torch.tensor([1.0, 3.0])
    given = NegativeSampling("binary", 1, src_weight=weight)
    drawn = KeyedNegatives(given, (0, 0, 5)).sample(4000, "src", 300)
    assert set(drawn.tolist()) == {7, 9}
    assert 0.72 < float((drawn == 9).float().mean()) < 0.78
    assert len(set(KeyedNegatives(given, (0, 0, 5)).sample(4000, "dst", 300).tolist())) == 300
    with pytest.raises(SpecError, match="src_weight must be"):
        KeyedNegatives(given, (0, 0, 5)).sample(1, "src", 5)
    with pytest.raises(SpecError, match="node type with nodes"):
        KeyedNegatives(given, (0, 0, 5)).sample(1, "dst", 0)


@pytest.mark.parametrize("mode", ["binary", "triplet"])
def test_a_link_sees_nothing_later(mode: str) -> None:
    data = random_data()
    data.time = torch.arange(300)
    moments = data.time[data.edge_index].max(0).values + 20
    loader = LinkNeighborLoader(
        data, [3, 3], edge_label_time=moments, time_attr="time", neg_sampling=mode, batch_size=64, temporal_strategy="last"
    )
    for batch in loader:
        limits = moments[batch.input_id]
        assert bool((batch.time <= limits[batch.batch]).all())  # negatives too
        assert torch.equal(batch.edge_label_time[: len(limits)] if mode == "binary" else batch.seed_time, limits)


def test_labels_make_room_for_the_negatives_one() -> None:
    labels = torch.arange(2000) % 3
    batch = next(iter(LinkNeighborLoader(random_data(), [1], edge_label=labels, neg_sampling_ratio=1.0, batch_size=6)))
    assert batch.edge_label.tolist() == [1, 2, 3, 1, 2, 3, 0, 0, 0, 0, 0, 0]


def test_pygs_own_loader_accepts_the_sampler() -> None:
    data = random_data()
    theirs = pyg.LinkLoader(data, NeighborSampler(data, [3, 3], seed=1), batch_size=200, neg_sampling="binary")
    ours = LinkNeighborLoader(data, [3, 3], batch_size=200, neg_sampling="binary", seed=1)
    assert all(same(a, b) for a, b in zip(ours, theirs, strict=True))
    assert same(ours([5, 6]), theirs([5, 6]))


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"edge_label_time": torch.zeros(2000)}, "'time_attr' is not set"),
        ({"time_attr": "y"}, "'edge_label_time' is not set"),
        ({"seed": 1, "neighbor_sampler": NeighborSampler(random_data(), [1])}, "seed belongs to the sampler"),
    ],
)
def test_refusals(options: dict[str, Any], text: str) -> None:
    with pytest.raises(SpecError, match=text):
        LinkNeighborLoader(random_data(), [1], **options)
