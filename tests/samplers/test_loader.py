"""`NeighborLoader`: order, threads, shares, memory, positions, failures."""

import threading
from itertools import chain

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.strategies import labelled_graph, typed_labelled_graph

from gnnhet.errors import FormatError, SeedError, SpecError, WaitError
from gnnhet.jit import frozen
from gnnhet.samplers import MiniBatch, NeighborLoader
from gnnhet.storage import Graph
from gnnhet.storage.csc import Csc

SEEDS = np.arange(150)


def made(threads: int = 1, **options: object) -> NeighborLoader:
    return NeighborLoader(labelled_graph(), [4, 3], 32, SEEDS, seed=1, threads=threads, **options)  # type: ignore[arg-type]


def bytes_of(batch: MiniBatch) -> tuple[bytes, ...]:
    assert batch.y is not None
    parts = [batch.seeds, batch.input_ids, batch.x, batch.y]
    parts += [part for block in batch.blocks for part in (block.indptr, block.indices)]
    return tuple(part.numpy().tobytes() for part in parts)


def sampler_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("gnnhet-sampler")]


def test_threads_change_nothing() -> None:
    one = [bytes_of(batch) for batch in made(1)]
    for threads in (2, 4, 8):
        assert [bytes_of(batch) for batch in made(threads)] == one


def test_an_epoch_is_a_permutation_and_each_for_is_the_next_one() -> None:
    loader = made(2)
    epochs = [[batch.seeds.tolist() for batch in loader] for _ in range(2)]
    for steps in epochs:
        assert [len(step) for step in steps] == [32, 32, 32, 32, 22]
        assert sorted(chain.from_iterable(steps)) == SEEDS.tolist()
    assert epochs[0] != epochs[1]
    assert loader.state_dict() == {"seed": 1, "epoch": 2, "step": 0}


def test_rows_and_labels_are_those_of_the_ids() -> None:
    loader = made(2)
    features = loader.graph.features
    for batch in loader:
        assert np.array_equal(batch.x.numpy(), features.array("node", "x")[batch.input_ids.numpy()])
        assert batch.y is not None
        assert np.array_equal(batch.y.numpy(), features.array("node", "y")[batch.seeds.numpy()])


def test_typed_batches_gather_every_type_that_has_rows() -> None:
    graph = typed_labelled_graph()
    for batch in NeighborLoader(graph, [3, 3], 16, seed=0):
        assert set(batch.x) == {"a", "b"}
        for node_type, rows in batch.x.items():
            assert np.array_equal(rows.numpy(), graph.features.array(node_type, "x")[batch.input_of[node_type].numpy()])


@settings(max_examples=30)
@given(st.lists(st.floats(0, 10), min_size=1, max_size=5).filter(lambda w: sum(w) > 0.01))
def test_shares_divide_every_step(weights: list[float]) -> None:
    whole = [batch.seeds.tolist() for batch in made()]
    parts = [[b.seeds.tolist() for b in made(share=(rank, weights))] for rank in range(len(weights))]
    assert [list(chain.from_iterable(part[k] for part in parts)) for k in range(len(whole))] == whole


def test_every_rank_yields_every_step_and_knows_the_whole_steps_labels() -> None:
    graph = typed_labelled_graph()  # a tenth of its labels is -1
    whole = [batch.num_labelled for batch in NeighborLoader(graph, [2], 16, ("a", np.arange(100)))]
    assert sum(whole) == int((graph.features.array("a", "y")[:100] >= 0).sum()) < 100
    for rank, weights in ((0, (1.0, 0.0)), (1, (1.0, 0.0))):
        share = NeighborLoader(graph, [2], 16, ("a", np.arange(100)), share=(rank, weights))
        assert [batch.num_labelled for batch in share] == whole


def test_kept_batches_are_never_overwritten_and_dropped_ones_give_their_memory_back() -> None:
    kept = list(made(2))
    assert [bytes_of(batch) for batch in kept] == [bytes_of(batch) for batch in made(1)]
    wide = labelled_graph(columns=1024)  # smaller tensors are the allocator's to reuse
    loader = NeighborLoader(wide, [5, 3], 32, np.arange(150), seed=1, prefetch=0)
    for _ in range(3):
        places = {batch.x.untyped_storage().data_ptr() for batch in loader}
    assert len(places) <= 4
    view = None
    for batch in loader:
        if view is None:
            view = batch.x[:5]
            before = view.clone()
    assert view is not None
    assert torch.equal(view, before)


def test_a_for_left_early_leaves_no_thread_and_the_next_one_is_the_next_epoch() -> None:
    loader = made(3)
    for batch in loader:
        first = batch.seeds.tolist()
        break
    assert sampler_threads() == []
    assert loader.state_dict() == {"seed": 1, "epoch": 0, "step": 1}
    second = made(1)
    list(second)
    assert next(iter(loader)).seeds.tolist() == next(iter(second)).seeds.tolist() != first


def test_a_position_is_taken_up_by_another_loader() -> None:
    loader = made(2)
    whole = [bytes_of(batch) for batch in made(1)]
    for batch in loader:
        if batch.step == 1:
            break
    other = made(4)
    other.load_state_dict(loader.state_dict())
    assert [bytes_of(batch) for batch in other] == whole[2:]
    with pytest.raises(SpecError, match="keep its seed"):
        other.load_state_dict({"seed": 2, "epoch": 0, "step": 0})
    with pytest.raises(SpecError, match="position"):
        other.load_state_dict({"seed": 1, "epoch": 0, "step": 99})


def test_an_exception_in_a_thread_reaches_the_caller_with_its_trace() -> None:
    part = Csc(indptr=frozen(np.array([0, 1, 2])), indices=frozen(np.array([1, 7], np.int32)))
    graph = Graph({("node", "to", "node"): part}, {"node": 2})
    with pytest.raises(FormatError, match="damaged") as caught:
        list(NeighborLoader(graph, [-1], 1, np.array([0, 1]), threads=2))
    assert any(entry.name == "make" for entry in caught.traceback)
    assert sampler_threads() == []


def test_a_wait_ends_and_says_what_it_waited_for() -> None:
    graph = labelled_graph(num_nodes=20_000, num_edges=600_000)
    with pytest.raises(WaitError, match=r"waited 0 s for the sampler threads to make step 0 of epoch 0"):
        list(NeighborLoader(graph, [-1, -1], 20_000, np.arange(20_000), timeout_s=1e-4))


@pytest.mark.parametrize(
    "options", [{"batch_size": 0}, {"threads": 0}, {"prefetch": -1}, {"share": (2, [1, 1])}, {"share": (0, [0, 0])}]
)
def test_refuses_options(options: dict[str, object]) -> None:
    with pytest.raises(SpecError, match="must be"):
        NeighborLoader(labelled_graph(), [2], **{"batch_size": 4, "seeds": SEEDS, **options})  # type: ignore[arg-type]


def test_refuses_seeds() -> None:
    with pytest.raises(SeedError, match="must be ids"):
        NeighborLoader(labelled_graph(), [2], 4, np.array([999]))


def test_to_pyg_holds_the_drawn_edges() -> None:
    batch = next(iter(made()))
    data = batch.to_pyg()
    drawn = {(int(s), int(d)) for block in batch.blocks for s, d in block.edge_index(("node", "to", "node")).T}
    assert {(int(s), int(d)) for s, d in data.edge_index.T} == drawn
    assert data.batch_size == 32
    assert torch.equal(data.x, batch.x)
    typed = next(iter(NeighborLoader(typed_labelled_graph(), [3, 3], 16))).to_pyg()
    assert typed["a"].batch_size == 16
    assert typed["b", "of", "a"].edge_index.max() < max(typed["a"].n_id.numel(), typed["b"].n_id.numel())


def test_times_follow_their_seeds_through_the_shuffle() -> None:
    graph = labelled_graph()
    edge_times = np.arange(graph.num_edges[graph.relations[0]]) % 50
    seeds, moments = np.arange(100), np.arange(100) % 40
    loader = NeighborLoader(graph, [-1, -1], 30, seeds, time=edge_times, seed_time=moments, with_edge_ids=True, threads=2)
    seen = 0
    for batch in loader:
        limits = moments[batch.seeds.numpy()]
        for block in batch.blocks:
            trees = batch.tree_of["node"][: block.num_dst["node"]].numpy()
            rows = np.repeat(trees, np.diff(block.indptr.numpy()))
            assert (edge_times[block.edge_ids.numpy()] <= limits[rows]).all()
            seen += block.num_edges
    assert seen > 0
    with pytest.raises(SeedError, match="one number a seed"):
        NeighborLoader(graph, [2], 30, seeds, time=edge_times, seed_time=moments[:5])


def test_a_moved_batch_keeps_its_lists_of_nodes_in_one_piece() -> None:
    graph = typed_labelled_graph()
    batch = next(iter(NeighborLoader(graph, [3, 2], 20, ("a", np.arange(40)), with_degrees=True, with_edge_ids=True)))
    twice = batch.to("meta").to("meta")
    assert twice.input_of["a"].shape == batch.input_of["a"].shape
    moved = batch.to(torch.device("cpu"))
    for before, after in zip(batch.blocks, moved.blocks, strict=True):
        for node_type, ids in before.src_of.items():
            assert torch.equal(after.src_of[node_type], ids)
            assert torch.equal(after.degree_of[node_type], before.degree_of[node_type])
            if ids.numel():
                assert after.src_of[node_type].data_ptr() == moved.input_of[node_type].data_ptr()
        assert all(torch.equal(after.edge_ids_of[r], ids) for r, ids in before.edge_ids_of.items())
