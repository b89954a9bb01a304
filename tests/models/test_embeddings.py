"""First rows of sparse embeddings against a plain twin, and which node types have them."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests import naive
from tests.strategies import labelled_graph, typed_labelled_graph

from gnnhet.models import build_model
from gnnhet.models.embeddings import embedded_types, initial_rows, with_initial_rows
from gnnhet.samplers import NeighborLoader


def naive_rows(seed: int, number: int, num_nodes: int, ids: list[int], hidden: int) -> list[list[float]]:
    """The same rows, number by number."""
    bound = np.float32(math.sqrt(6 / (num_nodes + hidden)))
    base = naive.stream(1 << 52, seed, number)
    keys = [naive.node_key(base, node) for node in ids]
    return [[float(np.float32((naive.draw(key, j) >> 40) / 2**23 - 1) * bound) for j in range(hidden)] for key in keys]


@given(
    seed=st.integers(0, 2**63 - 1),
    number=st.integers(0, 5),
    num_nodes=st.integers(1, 2**40),
    ids=st.lists(st.integers(0, 2**40), max_size=8),
    hidden=st.integers(1, 20),
)
def test_rows_are_the_twins(seed: int, number: int, num_nodes: int, ids: list[int], hidden: int) -> None:
    found = initial_rows(seed, number, num_nodes, np.array(ids, np.int64), hidden)
    assert found.dtype == torch.float32
    assert found.tolist() == naive_rows(seed, number, num_nodes, ids, hidden)


def test_rows_fill_the_range_evenly_and_differ_by_type_and_seed() -> None:
    ids = np.arange(5000)
    rows = initial_rows(0, 0, 5000, ids, 10)
    bound = math.sqrt(6 / 5010)
    assert float(rows.abs().max()) <= bound
    counts, _ = np.histogram(rows.numpy(), 20, (-bound, bound))
    assert abs(counts - 2500).max() < 5 * math.sqrt(2500)
    for seed, number in ((1, 0), (0, 1)):
        other = initial_rows(seed, number, 5000, ids, 10)
        assert abs(float(torch.corrcoef(torch.stack([rows.flatten(), other.flatten()]))[0, 1])) < 0.02


def test_types_without_features_are_embedded_where_the_model_sees_them() -> None:
    typed = typed_labelled_graph()
    assert embedded_types(typed, "a", True) == ["c"]
    assert embedded_types(typed, "a", False) == []
    assert embedded_types(typed, "c", False) == ["c"]
    assert embedded_types(labelled_graph(), "node", True) == []


@pytest.mark.parametrize("name", ["rgcn", "hgt"])
def test_a_sparse_model_has_no_table_and_takes_rows_from_the_batch(name: str) -> None:
    graph = typed_labelled_graph()
    model = build_model(name, graph, hidden=8, num_layers=2, dropout=0, target_type="a", seed=0, sparse_embeddings=True)
    assert len(model.embeddings) == 0
    batch = next(iter(NeighborLoader(graph, [3, 3], 16)))
    given_rows = with_initial_rows(batch, graph, ["c"], 8)
    assert set(batch.features) == {"a", "b"}  # the batch itself is left as it was
    model(given_rows).sum().backward()
    gradient = given_rows.features["c"]["x"].grad
    assert gradient is not None
    assert gradient.shape == (batch.input_of["c"].numel(), 8)
    assert float(gradient.abs().sum()) > 0
