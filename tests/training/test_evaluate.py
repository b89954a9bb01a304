"""Evaluation in parts: chunks, ranks' parts, and modules without layers."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.strategies import labelled_graph, typed_labelled_graph
from torch import Tensor, nn

from gnnhet.models import build_model
from gnnhet.samplers import MiniBatch, NeighborLoader
from gnnhet.training import evaluate
from gnnhet.training.ranks import Ranks

GRAPH = labelled_graph()


@given(st.integers(0, 200), st.integers(0, 200), st.integers(1, 50), st.booleans())
def test_chunks_tile_a_range(start: int, stop: int, most: int, with_edges: bool) -> None:
    first, last = sorted((start, stop))
    into = tuple(GRAPH.relations) if with_edges else ()
    bounds = evaluate._Chunks(GRAPH, np.arange(200), into, most).between(first, last)
    assert [position for one, other in bounds for position in range(one, other)] == list(range(first, last))
    assert all(0 < other - one <= most for one, other in bounds)


def test_small_chunks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = typed_labelled_graph()
    model = build_model("rgcn", graph, hidden=8, num_layers=2, dropout=0.5, target_type="a", seed=0).double()
    ids = np.arange(0, 120, 3)
    loader = NeighborLoader(graph, [2, 2], 8)

    def scores() -> Tensor:
        return evaluate.predict(model, graph, "a", ids, loader=loader, ranks=Ranks(0, [1.0], 9.0), place=torch.device("cpu"))

    whole = scores()
    monkeypatch.setattr(evaluate, "_CHUNK_EDGES", 40)
    assert torch.allclose(scores(), whole, atol=1e-12)


class Degrees(nn.Module):
    """A module without layers: says how many neighbours each seed drew."""

    def forward(self, batch: MiniBatch) -> Tensor:
        assert batch.seeds.numel() <= 16
        counts: Tensor = batch.blocks[-1].indptr.diff().unsqueeze(1).double()
        return counts


def test_a_module_without_layers_is_run_over_batches_of_the_loaders_size() -> None:
    loader = NeighborLoader(GRAPH, [3], 16)
    ids = np.arange(100)
    found = evaluate.predict(Degrees(), GRAPH, "node", ids, loader=loader, ranks=Ranks(0, [1.0], 9.0), place=torch.device("cpu"))
    indptr, _ = GRAPH.csc(GRAPH.relations[0])
    assert found[:, 0].tolist() == np.minimum(np.diff(indptr)[:100], 3).tolist()
