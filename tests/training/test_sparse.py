"""Lazy updates against torch's own sparse optimisers, and sums over ranks that do not depend on the split."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.strategies import typed_labelled_graph
from torch import Tensor
from torch.nn import functional

from gnnhet.config import TrainConfig
from gnnhet.models import build_model
from gnnhet.models.embeddings import initial_rows, with_initial_rows
from gnnhet.samplers import NeighborLoader
from gnnhet.training.embeddings import EmbeddingTable
from gnnhet.training.ranks import Ranks
from gnnhet.training.sparse import sum_rows

GRAPH = typed_labelled_graph()  # `c` has 15 nodes and no features: number 2 of the types
COLUMNS = 5
Optimizer = Callable[[list[Tensor]], torch.optim.Optimizer]


@pytest.fixture(autouse=True)
def checked() -> Iterator[None]:
    """Torch warns where nobody has said whether sparse tensors are checked; its optimisers make some."""
    with torch.sparse.check_sparse_tensor_invariants(True):  # type: ignore[no-untyped-call]
        yield


def fresh_table(folder: Path, **options: Any) -> EmbeddingTable:
    config = TrainConfig(hidden=COLUMNS, seed=4, embeddings="sparse", **options)
    table = EmbeddingTable(GRAPH, config, torch.nn.Linear(1, 1), Ranks(0, [1.0], 9.0))
    table.open(folder, None)
    return table


def trained(table: EmbeddingTable, make: Optimizer, *, touch_all: bool) -> tuple[Tensor, Tensor]:
    """Rows after the same gradients by the table and by one of torch's optimisers."""
    everyone = torch.arange(15)
    parameter = torch.nn.Parameter(initial_rows(4, 2, 15, everyone.numpy(), COLUMNS))
    assert torch.equal(table.gather("c", everyone), parameter.data)
    optimizer = make([parameter])
    rng = np.random.default_rng(0)
    for step in range(1, 30):
        ids = torch.from_numpy(rng.permutation(15)[: 15 if touch_all else rng.integers(1, 6)])
        grads = torch.from_numpy(rng.standard_normal((ids.numel(), COLUMNS)).astype(np.float32))
        sparse = torch.sparse_coo_tensor(ids.unsqueeze(0), grads, (15, COLUMNS))
        parameter.grad = sparse.to_dense() if touch_all else sparse
        optimizer.step()
        table.update({"c": ids}, {"c": grads}, lr=0.05, step=step)
    return table.gather("c", everyone), parameter.data


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("adam", lambda p: torch.optim.SparseAdam(p, lr=0.05)),
        ("adamw", lambda p: torch.optim.SparseAdam(p, lr=0.05)),
        ("adagrad", lambda p: torch.optim.Adagrad(p, lr=0.05)),
        ("sgd", lambda p: torch.optim.SGD(p, lr=0.05)),
    ],
)
def test_lazy_laws_are_torchs(tmp_path: Path, name: str, make: Optimizer) -> None:
    got, wanted = trained(fresh_table(tmp_path, optimizer=name), make, touch_all=False)
    torch.testing.assert_close(got, wanted, rtol=1e-6, atol=1e-7)
    assert float((got - initial_rows(4, 2, 15, np.arange(15), COLUMNS)).abs().min()) > 0


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("adam", lambda p: torch.optim.Adam(p, lr=0.05, weight_decay=0.1)),
        ("adamw", lambda p: torch.optim.AdamW(p, lr=0.05, weight_decay=0.1)),
        ("adagrad", lambda p: torch.optim.Adagrad(p, lr=0.05, weight_decay=0.1)),
        ("sgd", lambda p: torch.optim.SGD(p, lr=0.05, weight_decay=0.1)),
    ],
)
def test_where_every_row_is_touched_they_are_the_dense_laws_with_weight_decay(tmp_path: Path, name: str, make: Optimizer) -> None:
    got, wanted = trained(fresh_table(tmp_path, optimizer=name, weight_decay=0.1), make, touch_all=True)
    torch.testing.assert_close(got, wanted, rtol=1e-5, atol=1e-5)  # Adam's eps stands elsewhere


def row_gradients(share: tuple[int, list[float]] | None) -> tuple[Tensor, Tensor]:
    """(ids, gradients) of the rows that a rank's part of a step reads; sorted by id where it is the whole."""
    loader = NeighborLoader(GRAPH, [3, 2], 64, seed=5, share=share)
    batch = next(iter(loader))
    if not batch.seeds.numel():
        return torch.empty(0, dtype=torch.int64), torch.empty((0, 8), dtype=torch.float64)
    model = build_model(
        "rgcn", GRAPH, hidden=8, num_layers=2, dropout=0.5, target_type="a", seed=1, sparse_embeddings=True
    ).double()
    batch = with_initial_rows(batch, GRAPH, ["c"], 8)
    leaf = batch.features["c"]["x"].detach().double().requires_grad_()
    batch.features["c"]["x"] = leaf  # type: ignore[index]
    assert batch.y is not None
    loss = functional.cross_entropy(model(batch), batch.y, ignore_index=-1, reduction="sum") / batch.num_labelled
    torch.autograd.backward(loss)
    return batch.input_of["c"], torch.zeros_like(leaf) if leaf.grad is None else leaf.grad


@settings(max_examples=20)
@given(weights=st.lists(st.one_of(st.just(0.0), st.floats(0.01, 10)), min_size=1, max_size=6).filter(any))
def test_any_split_gives_the_steps_row_gradients(weights: list[float]) -> None:
    """To 1e-10 in float64, and the same rows are touched."""
    ids, whole = sum_rows([row_gradients(None)])
    same, summed = sum_rows([row_gradients((rank, weights)) for rank in range(len(weights))])
    assert same.tolist() == ids.tolist()
    assert ids.numel() > 5
    assert float(whole.abs().max()) > 0
    assert float((summed - whole).abs().max()) <= 1e-10 * max(1.0, float(whole.abs().max()))


@given(st.lists(st.lists(st.integers(0, 20), unique=True, max_size=10), min_size=1, max_size=4))
def test_sums_are_those_of_a_dictionary(parts: list[list[int]]) -> None:
    rng = np.random.default_rng(0)
    given_rows = [(torch.tensor(ids, dtype=torch.int64), torch.from_numpy(rng.integers(-9, 9, (len(ids), 2)))) for ids in parts]
    expected: dict[int, list[int]] = {}
    for ids, grads in given_rows:
        for node, row in zip(ids.tolist(), grads.tolist(), strict=True):
            before = expected.get(node, [0, 0])
            expected[node] = [before[0] + row[0], before[1] + row[1]]
    ids, total = sum_rows(given_rows)
    assert ids.tolist() == sorted(expected)
    assert total.tolist() == [expected[node] for node in sorted(expected)]
