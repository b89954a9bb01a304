"""`LinkLoader`: order, threads, shares that draw the same, positions, failures."""

from itertools import chain
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.samplers.test_link import drawn_edges, neighbours, pairs_of
from tests.samplers.test_loader import sampler_threads
from tests.samplers.test_negatives import NODE, as_arrays, true_edges
from tests.strategies import labelled_graph, typed_labelled_graph

from gnnhet.datasets.raw import Relation
from gnnhet.errors import GraphError, SeedError, SpecError
from gnnhet.samplers.link import LinkBatch
from gnnhet.samplers.link_loader import LinkLoader
from gnnhet.storage import Graph

FORWARD: Relation = ("b", "of", "a")
REVERSE = {FORWARD: ("a", "in", "b")}


def made(threads: int = 1, **options: Any) -> LinkLoader:
    return LinkLoader(labelled_graph(), [4, 3], 32, np.arange(100), seed=1, threads=threads, **options)


def typed(threads: int = 1, **options: Any) -> LinkLoader:
    return LinkLoader(typed_labelled_graph(), [3, 3], 40, None, FORWARD, seed=1, threads=threads, reverse_of=REVERSE, **options)


def bytes_of(links: LinkBatch) -> tuple[bytes, ...]:
    parts = [*links.seeds_of.values(), *links.batch.input_of.values()]
    parts += [rows for named in links.batch.features.values() for rows in named.values()]
    given = (links.positions, links.edge_label_index, links.edge_label, links.src_index, links.dst_pos_index, links.dst_neg_index)
    parts += [part for part in given if part is not None]
    for block in links.batch.blocks:
        parts += [*block.indptr_of.values(), *block.indices_of.values()]
    return tuple(part.numpy().tobytes() for part in parts)


@pytest.mark.parametrize("loader", [made, typed])
@pytest.mark.parametrize(
    "options", [{"exclude": "seeds_and_reverse"}, {"mode": "triplet", "amount": 2, "strict": True}, {"mode": None}], ids=str
)
def test_threads_change_nothing(loader: Any, options: dict[str, Any]) -> None:
    one = [bytes_of(links) for links in loader(1, **options)]
    for threads in (2, 4):
        assert [bytes_of(links) for links in loader(threads, **options)] == one


def test_an_epoch_is_a_permutation_and_each_for_is_the_next_one() -> None:
    loader = made(2)
    epochs = []
    for _ in range(2):
        steps = [links.positions.tolist() for links in loader if links.positions is not None]
        assert [len(step) for step in steps] == [32, 32, 32, 4]
        assert sorted(chain.from_iterable(steps)) == list(range(100))
        epochs.append(steps)
    assert epochs[0] != epochs[1]
    assert len(loader) == 4
    assert loader.state_dict() == {"seed": 1, "epoch": 2, "step": 0}


def test_all_edges_by_default_and_rows_are_those_of_the_ids() -> None:
    graph = typed_labelled_graph()
    found: list[tuple[int, int]] = []
    for links in typed(2):
        count = 0 if links.positions is None else links.positions.numel()
        found += pairs_of(links)[:count]
        assert set(links.batch.features) == {"a", "b"}
        for node_type, rows in links.batch.x.items():
            ids = links.batch.input_of[node_type].numpy()
            assert np.array_equal(rows.numpy(), graph.features.array(node_type, "x")[ids])
        assert links.batch.num_labelled == links.num_examples == 2 * count
    assert sorted(found) == sorted(true_edges(graph, FORWARD))


@pytest.mark.parametrize("options", [{"amount": 1.5}, {"mode": "triplet", "amount": 2, "negatives": "shared"}], ids=str)
@settings(max_examples=15)
@given(st.lists(st.floats(0, 10), min_size=1, max_size=4).filter(lambda w: sum(w) > 0.01))
def test_shares_divide_every_step_and_draw_the_same(options: dict[str, Any], weights: list[float]) -> None:
    options = {**options, "exclude": "seeds_and_reverse"}
    ranks = [list(made(share=(rank, weights), **options)) for rank in range(len(weights))]
    for k, whole in enumerate(made(**options)):
        parts = [rank[k] for rank in ranks]
        counts = [0 if part.positions is None else part.positions.numel() for part in parts]
        pairs, n = pairs_of(whole), sum(counts)
        assert list(chain.from_iterable(pairs_of(p)[:c] for p, c in zip(parts, counts, strict=True))) == pairs[:n]
        assert list(chain.from_iterable(pairs_of(p)[c:] for p, c in zip(parts, counts, strict=True))) == pairs[n:]
        assert {part.num_examples for part in parts} == {whole.num_examples}
        assert {part.step for part in parts} == {k}
        taken = set(pairs[:n]) | {(v, u) for u, v in pairs[:n]}
        for layer in range(2):
            drawn = {v: sources for part in parts for v, sources in neighbours(part.batch, layer).items()}
            assert drawn == neighbours(whole.batch, layer)
        for part in parts:
            assert not drawn_edges(part.batch)[NODE] & taken


def test_a_position_is_taken_up_by_another_loader() -> None:
    whole = [bytes_of(links) for links in made(1, exclude="seeds")]
    loader = made(2, exclude="seeds")
    for links in loader:
        if links.step == 1:
            break
    assert sampler_threads() == []
    assert loader.state_dict() == {"seed": 1, "epoch": 0, "step": 2}
    other = made(4, exclude="seeds")
    other.load_state_dict(loader.state_dict())
    assert [bytes_of(links) for links in other] == whole[2:]
    with pytest.raises(SpecError, match="keep its seed"):
        other.load_state_dict({"seed": 2, "epoch": 0, "step": 0})


def test_edges_by_their_ends_and_in_the_given_order() -> None:
    graph = labelled_graph()
    ends = true_edges(graph, NODE)[:50]
    loader = LinkLoader(graph, [3], 20, as_arrays(ends), shuffle=False, mode=None)
    assert list(chain.from_iterable(pairs_of(links) for links in loader)) == ends
    for links in LinkLoader(graph, [3], 20, as_arrays(ends), mode=None):
        assert links.positions is None
        assert links.places is not None
        assert [ends[k] for k in links.places.tolist()] == pairs_of(links)


def test_times_follow_their_edges() -> None:
    graph = labelled_graph()
    times = np.random.default_rng(0).integers(0, 1000, graph.num_edges[NODE])
    seed_time = np.arange(100) * 10
    loader = LinkLoader(graph, [5], 30, np.arange(100), time=times, seed_time=seed_time, seed=1, with_edge_ids=True, threads=2)
    for links in loader:
        assert links.positions is not None
        assert links.edge_label_index is not None
        seen = dict(zip(links.edge_label_index[1].tolist(), seed_time[links.positions.numpy()].tolist(), strict=False))
        block = links.batch.blocks[0]
        ends, ids = block.indptr.tolist(), block.edge_ids.numpy()
        for place, limit in seen.items():
            assert (times[ids[ends[place] : ends[place + 1]]] <= limit).all()
    with pytest.raises(SeedError, match="one number an edge"):
        LinkLoader(graph, [5], 30, np.arange(100), time=times, seed_time=seed_time[:3])


def test_an_exception_in_a_thread_reaches_the_caller() -> None:
    graph = Graph.from_csc([0, 2, 4, 6], [0, 1, 1, 0, 0, 2])
    with pytest.raises(GraphError, match="strict negative") as caught:
        list(LinkLoader(graph, [2], 2, mode="triplet", strict=True, threads=2))
    assert any(entry.name == "make" for entry in caught.traceback)
    assert sampler_threads() == []


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        ({"batch_size": 0}, "batch_size must be"),
        ({"threads": 0}, "threads must be"),
        ({"share": (2, [1, 1])}, "share must be"),
        ({"exclude": "some"}, "exclude must be"),
        ({"amount": -1}, "amount must be"),
        ({"pool": None}, "pool must be left out"),
    ],
)
def test_refuses_options(options: dict[str, Any], rule: str) -> None:
    with pytest.raises(SpecError, match=rule):
        LinkLoader(labelled_graph(), [2], **{"batch_size": 4, **options})


def test_refuses_edges() -> None:
    with pytest.raises(SeedError, match="places of edges"):
        LinkLoader(labelled_graph(), [2], 4, np.array([10**7]))


def test_a_loss_of_shares_sums_to_the_whole_steps() -> None:
    """Scores of pairs from one embedding a seed: what a rank sums over its pairs adds up to the whole step's sum."""

    def loss(links: LinkBatch) -> float:
        assert links.edge_label_index is not None
        assert links.edge_label is not None
        rows = links.batch.x[: links.seeds_of["node"].numel()].double()
        score = (rows[links.edge_label_index[0]] * rows[links.edge_label_index[1]]).sum(1)
        total = torch.nn.functional.binary_cross_entropy_with_logits(score, links.edge_label.double(), reduction="sum")
        return float(total) / links.num_examples

    whole = [loss(links) for links in made()]
    ranks = [[loss(links) for links in made(share=(rank, [2, 1]))] for rank in range(2)]
    assert np.allclose(np.sum(ranks, axis=0), whole, rtol=1e-12)
