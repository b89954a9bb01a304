"""The principle: any split of a step over any ranks gives the step's gradient."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.strategies import labelled_graph, typed_labelled_graph
from torch import Tensor
from torch.nn import functional

from gnnhet.models import MODELS, LayeredModel, build_model
from gnnhet.samplers import NeighborLoader
from gnnhet.storage import Graph

HOMOGENEOUS = labelled_graph()
TYPED = typed_labelled_graph()


def graph_for(name: str) -> Graph:
    return TYPED if MODELS[name].typed else HOMOGENEOUS


def gradient(
    model: LayeredModel, graph: Graph, share: tuple[int, list[float]] | None, fanouts: list[int]
) -> tuple[Tensor, float]:
    """Summed-loss gradient of a rank's part of one step, flat; and its part of the loss."""
    loader = NeighborLoader(graph, fanouts if model.num_layers else [], 64, seed=5, share=share, with_degrees=model.needs_degrees)
    batch = next(iter(loader))
    model.zero_grad()
    loss = torch.zeros((), dtype=torch.float64)
    if batch.seeds.numel():
        assert batch.y is not None
        loss = functional.cross_entropy(model(batch), batch.y, ignore_index=-1, reduction="sum") / batch.num_labelled
        torch.autograd.backward(loss)
    flat = [torch.zeros_like(p) if p.grad is None else p.grad for p in model.parameters()]
    return torch.cat([part.reshape(-1) for part in flat]), float(loss.detach())


@pytest.mark.parametrize("name", sorted(MODELS))
@settings(max_examples=12)
@given(
    weights=st.lists(st.one_of(st.just(0.0), st.floats(0.01, 10)), min_size=1, max_size=6).filter(any),
    fanouts=st.sampled_from([[3, 2], [-1, -1], [1, 4]]),
    dropout=st.sampled_from([0.0, 0.5]),
)
def test_any_split_gives_the_steps_gradient(name: str, weights: list[float], fanouts: list[int], dropout: float) -> None:
    """To 1e-10 in float64, dropout included, for any number of ranks and empty shares."""
    graph = graph_for(name)
    model = build_model(name, graph, hidden=8, num_layers=2, dropout=dropout, target_type=graph.target_type, seed=1).double()
    model.train()
    whole, loss = gradient(model, graph, None, fanouts)
    parts = [gradient(model, graph, (rank, weights), fanouts) for rank in range(len(weights))]
    summed = torch.stack([part for part, _ in parts]).sum(0)
    assert float((summed - whole).abs().max()) <= 1e-10 * max(1.0, float(whole.abs().max()))
    assert abs(sum(part for _, part in parts) - loss) <= 1e-12
    assert float(whole.abs().max()) > 0


def test_the_mean_of_means_would_not() -> None:
    """What this guards against: with 100 : 900 seeds the smaller share's would weigh nine times too much."""
    model = build_model("sage", HOMOGENEOUS, hidden=8, num_layers=2, dropout=0, target_type="node", seed=1).double()
    weights = [1.0, 9.0]
    whole, _ = gradient(model, HOMOGENEOUS, None, [3, 2])
    sizes = np.array([6.0, 58.0])
    parts = [gradient(model, HOMOGENEOUS, (rank, weights), [3, 2])[0] for rank in range(2)]
    means = sum(part * 64 / size for part, size in zip(parts, sizes, strict=True)) / 2
    assert float((means - whole).abs().max()) > 1e-4
