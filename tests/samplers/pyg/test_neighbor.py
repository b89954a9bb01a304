"""`NeighborLoader` and `NeighborSampler`: what holds of every batch, whatever the options."""

import pickle
from collections import Counter
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.samplers.pyg.graphs import (
    check_edges,
    check_hops,
    hetero_data,
    homogeneous_data,
    random_data,
    random_hetero,
    same,
    typed,
    unique,
)
from tests.shared_data import shared_data
from torch_geometric import loader as pyg
from torch_geometric.data import Data, HeteroData
from torch_geometric.sampler import NodeSamplerInput
from torch_geometric.sampler.base import NumNeighbors
from torch_geometric.transforms import ToSparseTensor
from torch_geometric.utils import coalesce

from gnnhet.datasets import planetoid
from gnnhet.errors import GraphError, SeedError, SpecError
from gnnhet.samplers.pyg import NeighborLoader, NeighborSampler
from gnnhet.samplers.pyg.keys import step_of
from gnnhet.storage import Graph

fanout = st.one_of(st.just(-1), st.integers(0, 4))


@settings(max_examples=150)
@given(hetero_data, st.integers(1, 3), st.booleans(), st.data())
def test_typed_batches(data: HeteroData, hops: int, replace: bool, draws: st.DataObject) -> None:
    fanouts = {kind: draws.draw(st.lists(fanout, min_size=hops, max_size=hops)) for kind in data.edge_types}
    kind = draws.draw(st.sampled_from(data.node_types))
    loader = NeighborLoader(data, fanouts, input_nodes=kind, batch_size=4, replace=replace, seed=draws.draw(st.integers(0, 9)))
    seen = []
    for batch in loader:
        assert batch.node_types == data.node_types
        assert batch.edge_types == data.edge_types
        check_edges(data, batch)
        check_hops(data, batch, fanouts, replace)
        store = batch[kind]
        assert torch.equal(store.n_id[: store.batch_size], store.input_id)
        for other in data.node_types:
            assert sum(batch[other].num_sampled_nodes) == batch[other].num_nodes
            assert unique(batch[other].n_id)
        seen += store.input_id.tolist()
    assert seen == list(range(data[kind].num_nodes))


@settings(max_examples=100)
@given(homogeneous_data(), st.lists(fanout, min_size=1, max_size=3), st.booleans(), st.data())
def test_homogeneous_batches(data: Data, fanouts: list[int], replace: bool, draws: st.DataObject) -> None:
    seeds = torch.tensor(draws.draw(st.lists(st.integers(0, data.num_nodes - 1), min_size=1, max_size=9)))  # twice, too
    batch = next(iter(NeighborLoader(data, fanouts, seeds, batch_size=9, replace=replace)))
    check_edges(data, batch)
    check_hops(data, batch, {("node", "to", "node"): fanouts}, replace)
    assert torch.equal(batch.n_id[: len(seeds)], seeds)
    assert batch.batch_size == len(seeds)


@settings(max_examples=100)
@given(hetero_data, st.booleans(), st.data())
def test_disjoint_subgraphs_never_meet(data: HeteroData, induced: bool, draws: st.DataObject) -> None:
    kind = draws.draw(st.sampled_from(data.node_types))
    kinds = "induced" if induced else "directional"
    batch = next(iter(NeighborLoader(data, [2, 2], kind, batch_size=5, disjoint=True, subgraph_type=kinds)))
    size = batch[kind].batch_size
    assert batch[kind].batch[:size].tolist() == list(range(size))
    check_edges(data, batch)
    for relation in data.edge_types:
        row, col = batch[relation].edge_index
        assert torch.equal(batch[relation[0]].batch[row], batch[relation[2]].batch[col])
    for other in data.node_types:
        assert unique(batch[other].batch * 1000 + batch[other].n_id)


@settings(max_examples=100)
@given(hetero_data, st.sampled_from(["uniform", "last"]), st.booleans(), st.booleans(), st.data())
def test_nothing_comes_from_the_future(
    data: HeteroData, strategy: str, of_edges: bool, induced: bool, draws: st.DataObject
) -> None:
    for store in data.edge_stores if of_edges else data.node_stores:
        count = store.num_edges if of_edges else store.num_nodes
        store.time = torch.tensor(draws.draw(st.lists(st.integers(0, 5), min_size=count, max_size=count)), dtype=torch.int64)
    kind = draws.draw(st.sampled_from(data.node_types))
    count = data[kind].num_nodes
    moments = torch.tensor(draws.draw(st.lists(st.integers(0, 5), min_size=count, max_size=count)))
    loader = NeighborLoader(
        data,
        [2, 2],
        kind,
        moments,
        batch_size=4,
        temporal_strategy=strategy,
        time_attr="time",
        subgraph_type="induced" if induced else "directional",
    )
    for batch in loader:
        limits = moments[batch[kind].input_id]
        assert torch.equal(batch[kind].seed_time, limits)
        check_edges(data, batch)
        for relation in data.edge_types:
            row, col = batch[relation].edge_index
            tree = batch[relation[2]].batch[col]
            times = batch[relation].time if of_edges else batch[relation[0]].time[row]
            assert bool((times <= limits[tree]).all())


def test_the_last_strategy_takes_the_latest_edges_a_seed_sees() -> None:
    pairs = torch.stack([torch.arange(1, 9), torch.zeros(8, dtype=torch.int64)])
    data = Data(x=torch.zeros(9, 1), edge_index=pairs, edge_time=torch.tensor([5, 1, 7, 3, 8, 2, 6, 4]))
    loader = NeighborLoader(
        data, [3], torch.tensor([0]), torch.tensor([6]), temporal_strategy="last", time_attr="edge_time", batch_size=1
    )
    batch = next(iter(loader))
    assert sorted(batch.edge_time.tolist()) == [4, 5, 6]


def test_seeds_have_their_own_times_as_nodes() -> None:
    data = Data(edge_index=torch.tensor([[0, 1, 2], [2, 2, 0]]), time=torch.tensor([1, 5, 3]), num_nodes=3)
    batch = next(iter(NeighborLoader(data, [-1], batch_size=3, time_attr="time")))
    pairs = batch.n_id[batch.edge_index]
    assert pairs.tolist() == [[0], [2]]


def test_a_relation_without_times_is_always_there() -> None:
    data = random_hetero()
    data["author"].time = torch.full((200,), 9)
    batch = next(iter(NeighborLoader(data, [3], "paper", torch.zeros(100), time_attr="time", batch_size=100)))
    assert batch["author", "paper"].edge_index.shape[1] == 0
    assert batch["paper", "paper"].edge_index.shape[1] > 0
    with pytest.raises(SeedError, match="need a time"):
        next(iter(NeighborLoader(data, [3], "paper", time_attr="time", batch_size=10)))


@settings(max_examples=60)
@given(hetero_data, st.data())
def test_induced_holds_all_edges_among_its_nodes(data: HeteroData, draws: st.DataObject) -> None:
    kind = draws.draw(st.sampled_from(data.node_types))
    batch = next(iter(NeighborLoader(data, [1, 1], kind, batch_size=3, subgraph_type="induced")))
    check_edges(data, batch)
    for relation in data.edge_types:
        src, dst = data[relation].edge_index
        inside = torch.isin(src, batch[relation[0]].n_id) & torch.isin(dst, batch[relation[2]].n_id)
        assert sorted(batch[relation].e_id.tolist()) == inside.nonzero().view(-1).tolist()


def test_bidirectional_holds_every_edge_both_ways() -> None:
    batch = next(iter(NeighborLoader(random_data(), [3, 3], batch_size=16, subgraph_type="bidirectional")))
    pairs = set(map(tuple, batch.edge_index.t().tolist()))
    assert pairs == {(v, u) for u, v in pairs}


def test_weights_decide_and_zero_is_never_drawn() -> None:
    pairs = torch.stack([torch.arange(1, 5), torch.zeros(4, dtype=torch.int64)])
    data = Data(x=torch.zeros(5, 1), edge_index=pairs, w=torch.tensor([0.0, 1.0, 0.0, 3.0]))
    count = Counter[int]()
    for seed in range(2000):
        loader = NeighborLoader(data, [1], torch.tensor([0]), weight_attr="w", batch_size=1, seed=seed)
        count[int(next(iter(loader)).n_id[1])] += 1
    assert set(count) == {2, 4}
    assert 0.72 < count[4] / 2000 < 0.78  # .75, four standard deviations


@pytest.mark.filterwarnings("ignore:.*[Ss]parse.*:UserWarning")
def test_e_id_survives_every_form_of_edges() -> None:
    data = random_data()
    order = data.edge_index[1].argsort(stable=True)
    ordered = Data(x=data.x, edge_index=data.edge_index[:, order].contiguous(), edge_attr=data.edge_attr[order])
    sparse = ToSparseTensor(attr=None, layout=torch.sparse_csr)(Data(x=data.x, edge_index=data.edge_index))
    by_position = NeighborLoader(ordered, [4, 4], batch_size=30, is_sorted=True, seed=1)
    for a, b in zip(NeighborLoader(data, [4, 4], batch_size=30, seed=1), by_position, strict=True):
        assert torch.equal(a.n_id, b.n_id)
        assert torch.equal(a.edge_attr, b.edge_attr)
        assert torch.equal(a.e_id, order[b.e_id])
    sampler = NeighborSampler(sparse, [4, 4], seed=1)
    nodes = NodeSamplerInput(input_id=None, node=torch.arange(30))
    pairs = sparse.adj_t.to_sparse_coo().indices().flip(0)
    out = sampler.sample_from_nodes(nodes)
    assert torch.equal(out.node[torch.stack([out.row, out.col])], pairs[:, out.edge])


@pytest.mark.filterwarnings("ignore:.*[Ss]parse.*:UserWarning")
@pytest.mark.parametrize("kind", [random_data, random_hetero])
def test_torchs_sparse_tensors_stay_sparse(kind: Any) -> None:
    data = kind()
    for store in data.edge_stores:
        store.edge_index = coalesce(store.edge_index)  # as the transform does
        store.edge_attr = torch.arange(store.edge_index.shape[1])
    sparse = ToSparseTensor(attr="edge_attr", layout=torch.sparse_csr)(data.clone())
    seeds = "paper" if isinstance(data, HeteroData) else None
    for batch in NeighborLoader(sparse, [3, 3], seeds, batch_size=30, seed=2):
        nodes, edges = typed(batch)
        for relation, store in edges.items():
            assert "edge_index" not in store
            assert store.adj_t.shape == (nodes[relation[2]].num_nodes, nodes[relation[0]].num_nodes)
            col, row = store.adj_t.to_sparse_coo().indices()
            pairs = torch.stack([nodes[relation[0]].n_id[row], nodes[relation[2]].n_id[col]])
            assert torch.equal(pairs, typed(data)[1][relation].edge_index[:, store.adj_t.values()])


def test_ids_keep_their_dtype() -> None:
    data = random_data()
    data.edge_index = data.edge_index.to(torch.int32)
    batch = next(iter(NeighborLoader(data, [4], batch_size=10)))
    assert batch.edge_index.dtype == batch.n_id.dtype == torch.int32
    check_edges(data, batch)


def test_a_seed_and_an_epoch_decide_all_draws() -> None:
    data = random_data()

    def epochs(manual: int, **options: Any) -> list[list[Data]]:
        torch.manual_seed(manual)
        loader = NeighborLoader(data, [2, 2], batch_size=64, **options)
        return [list(loader), list(loader)]

    first, second = epochs(1)
    assert same_all(epochs(1), [first, second])
    assert not same_all([first], [second])
    assert not same_all([epochs(2)[0]], [first])
    assert same_all([epochs(2, seed=5)[0]], [epochs(3, seed=5)[0]])
    assert same_all(epochs(4, shuffle=True), epochs(4, shuffle=True))
    torch.manual_seed(1)
    loader = NeighborLoader(data, [2, 2], batch_size=64)
    a, b = zip(*zip(loader, loader, strict=True), strict=True)  # two epochs side by side
    assert same_all([list(a), list(b)], [first, second])


def same_all(a: list[list[Data]], b: list[list[Data]]) -> bool:
    return all(same(x, y) for p, q in zip(a, b, strict=True) for x, y in zip(p, q, strict=True))


def test_shuffled_batches_come_in_pygs_order() -> None:
    data = random_data()
    torch.manual_seed(7)
    ours = [batch.input_id for batch in NeighborLoader(data, [1], batch_size=64, shuffle=True)]
    torch.manual_seed(7)
    sampler = NeighborSampler(data, [1])
    theirs = [batch.input_id for batch in pyg.NodeLoader(data, sampler, batch_size=64, shuffle=True)]
    assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))


@pytest.mark.parametrize("kind", [random_data, random_hetero])
def test_pygs_own_loaders_accept_the_sampler_and_join_the_same_features(kind: Any) -> None:
    data = kind()
    seeds = "paper" if isinstance(data, HeteroData) else None
    theirs = pyg.NodeLoader(data, NeighborSampler(data, [3, 3], seed=1), seeds, batch_size=50)
    for a, b in zip(NeighborLoader(data, [3, 3], seeds, batch_size=50, seed=1), theirs, strict=True):
        assert same(a, b)
    given = pyg.NeighborLoader(data, [], seeds, neighbor_sampler=NeighborSampler(data, [3, 3], seed=1), batch_size=50)
    assert same(next(iter(theirs)), next(iter(given)))


def test_a_sampler_of_pygs_kind_is_accepted() -> None:
    class Alone(pyg.node_loader.BaseSampler):  # type: ignore[misc]
        def sample_from_nodes(self, index: NodeSamplerInput, **_: Any) -> Any:
            return NeighborSampler(random_data(), [0], seed=0).sample_from_nodes(index)

        def sample_from_edges(self, index: Any, neg_sampling: Any = None) -> Any:
            raise NotImplementedError

    loader = NeighborLoader(random_data(), [], neighbor_sampler=Alone(), batch_size=100)
    assert [batch.num_edges for batch in loader] == [0, 0, 0]


def test_a_sampler_can_be_sent_to_another_process() -> None:
    sampler = NeighborSampler(random_data(), [3, 3], seed=4)
    nodes = NodeSamplerInput(input_id=None, node=torch.arange(9))
    out = sampler.sample_from_nodes(nodes)
    again = pickle.loads(pickle.dumps(sampler)).sample_from_nodes(nodes)
    assert torch.equal(out.edge, again.edge)


def test_fanouts_by_relation_and_their_default() -> None:
    data = random_hetero()
    some = NumNeighbors({("paper", "to", "paper"): [2]}, default=[0])
    batch = next(iter(NeighborLoader(data, some, "paper", batch_size=10)))
    check_hops(data, batch, {kind: [2 if kind[2] == kind[0] else 0] for kind in data.edge_types}, False)


def test_transforms_and_direct_calls() -> None:
    data = random_data()

    def mark(batch: Data) -> Data:
        batch.marked = True
        return batch

    loader = NeighborLoader(data, [2], batch_size=10, transform=mark, transform_sampler_output=lambda out: out)
    assert next(iter(loader)).marked
    assert loader([3, 4]).n_id[:2].tolist() == [3, 4]
    assert loader([3, 4]).marked


def test_step_is_a_function_of_the_ids() -> None:
    assert (
        step_of(torch.tensor([1, 2])) == step_of(torch.tensor([1, 2], dtype=torch.int32)) == step_of(None, torch.tensor([1, 2]))
    )
    assert step_of(torch.tensor([1, 2])) != step_of(torch.tensor([2, 1]))
    assert 0 <= step_of(torch.tensor([5])) < 2**63


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"subgraph_type": "both"}, SpecError, "subgraph_type must be"),
        ({"temporal_strategy": "first"}, SpecError, "temporal_strategy must be"),
        ({"time_attr": "when"}, SpecError, "time_attr must name"),
        ({"weight_attr": "w"}, SpecError, "weight_attr must name"),
        ({"input_time": torch.zeros(3)}, SpecError, "input_time needs time_attr"),
        ({"is_sorted": True}, SpecError, "is_sorted says"),
        ({"seed": -1}, SpecError, "seed must lie"),
        ({"num_neighbors": {("node", "to", "node"): [1], ("a", "to", "b"): [1]}}, SpecError, "edge types of the graph"),
        ({"input_nodes": torch.tensor([300])}, SeedError, "0..299, got 300"),
    ],
)
def test_refusals(options: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        next(iter(NeighborLoader(random_data(), **{"num_neighbors": [1], **options})))


def test_refusals_of_data() -> None:
    with pytest.raises(SpecError, match="data must be"):
        NeighborSampler([1, 2, 3], [1])
    with pytest.raises(GraphError, match="source ids"):
        NeighborSampler(Data(edge_index=torch.tensor([[5], [0]]), num_nodes=2), [1])
    with pytest.raises(SpecError, match="hops must be the same"):
        NeighborSampler(random_hetero(), {("paper", "paper"): [1], ("paper", "author"): [1, 1], ("author", "paper"): [1]})
    with pytest.raises(SpecError, match="got none for"):
        NeighborSampler(random_hetero(), {("paper", "paper"): [1]})


@pytest.mark.slow
def test_cora() -> None:
    graph = Graph.from_raw(planetoid.read(shared_data("cora")))
    batches = list(NeighborLoader(graph, [10, 10], batch_size=256, num_workers=2, seed=0))
    assert sum(batch.batch_size for batch in batches) == graph.num_nodes["node"]
    indptr, indices = graph.csc(graph.relations[0])
    for batch in batches:
        row, col = batch.n_id[batch.edge_index]
        assert torch.equal(row, torch.from_numpy(indices[batch.e_id]).to(torch.int64))
        position = torch.from_numpy(indptr.copy())
        assert bool(((batch.e_id >= position[col]) & (batch.e_id < position[col + 1])).all())
        assert torch.equal(batch.x, graph.features.gather("node", "x", batch.n_id))
    assert typed(batches[0])[0]["node"].y.shape == (batches[0].num_nodes,)
