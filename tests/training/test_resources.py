"""Where features and topology are read from changes no loss; a cache says what it did."""

from pathlib import Path
from typing import Any

import psutil
import pytest
import torch
from tests.strategies import labelled_graph
from torch import Tensor, nn

from gnnhet.errors import SpecError
from gnnhet.samplers import MiniBatch, NeighborLoader, Tiers
from gnnhet.storage import Graph
from gnnhet.training import Run, train
from gnnhet.training.resources import Resources

DTYPES = ["float32", "float16", "bfloat16", "int8"]


@pytest.fixture(scope="module", params=DTYPES)
def graph(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Graph:
    """A graph in files, its features stored in each dtype."""
    place = tmp_path_factory.mktemp("graphs")
    labelled_graph().save(place / "wide")
    return Graph.ingest(place / "wide", place / request.param, feature_dtype=request.param)


def run_in(folder: Path, graph: Graph, **options: Any) -> Run:
    given = {"fanouts": (4, 3), "hidden": 8, "batch_size": 32, "lr": 0.01, "epochs": 2, "devices": "cpu", **options}
    return train(graph, run=str(folder), quiet=True, **given)


@pytest.mark.parametrize(
    ("tiers", "preload"),
    [
        (Tiers(reads="direct", cache=2000), True),
        (Tiers(reads="buffered", cache="1MiB", policy="degree"), False),
        (Tiers(cache=1), None),
        (Tiers(reads="map", cache=4000, policy="belady", presample=4), True),
    ],
)
def test_no_tier_changes_a_loss(tmp_path: Path, graph: Graph, tiers: Tiers, preload: bool | None) -> None:
    plain = run_in(tmp_path / "plain", graph, preload=False)
    assert plain.cache is None
    run = run_in(tmp_path / "run", graph, tiers=tiers, preload=preload)
    assert run.step_loss == plain.step_loss
    assert run.metrics == plain.metrics
    if tiers.cache == 1:  # too small for the table of where rows are
        assert run.cache is None
        return
    assert run.cache is not None
    assert run.cache["bytes"] <= tiers.cache_bytes
    nodes = graph.num_nodes["node"]
    assert (run.cache["hit_rate"] == 1) == (run.cache["rows"]["node"] == nodes)
    row_bytes = graph.features.rows("node", "x").array.nbytes // nodes
    assert run.cache["rows"]["node"] == min((tiers.cache_bytes - 4 * nodes) // row_bytes, nodes)


@pytest.mark.slow
def test_ranks_with_caches_give_the_losses_of_one_device(tmp_path: Path, graph: Graph) -> None:
    one = run_in(tmp_path / "one", graph, dropout=0.0)
    two = run_in(tmp_path / "two", graph, dropout=0.0, devices="cpu@0.5;cpu", tiers=Tiers(reads="direct", cache=2000))
    assert two.step_loss == pytest.approx(one.step_loss, rel=1e-5)
    assert two.cache is not None


def test_a_persons_module_gets_features_as_stored(tmp_path: Path, graph: Graph) -> None:
    class Own(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(graph.features.rows("node", "x").array.shape[1], graph.num_classes("node"))
            self.seen: set[torch.dtype] = set()

        def forward(self, batch: MiniBatch) -> Tensor:
            x = batch.x
            self.seen.add(x.dtype)
            scores: Tensor = self.linear(x[: batch.seeds.numel()].float())
            return scores

    own = Own()
    run_in(tmp_path / "run", graph, model=own, evaluation="sampled", epochs=1)
    assert own.seen == {graph.features.rows("node", "x").gathered}


def test_evaluation_may_be_sampled_or_left_out(tmp_path: Path) -> None:
    graph = labelled_graph()
    full = run_in(tmp_path / "full", graph)
    sampled = run_in(tmp_path / "sampled", graph, evaluation="sampled")
    none = run_in(tmp_path / "none", graph, evaluation="none")
    assert full.step_loss == sampled.step_loss == none.step_loss
    assert none.metrics == dict.fromkeys(("train", "val", "test", "macro_f1", "epoch"))
    assert all("val" not in record for record in none.history)
    assert sampled.metrics["val"] is not None
    every = run_in(tmp_path / "every", graph, fanouts=(-1, -1))
    drawn = run_in(tmp_path / "drawn", graph, fanouts=(-1, -1), evaluation="sampled")
    assert drawn.metrics == every.metrics  # every neighbour is drawn: the same scores


def test_a_loader_over_other_seeds_shares_the_cache(graph: Graph) -> None:
    loader = NeighborLoader(graph, [3], 16, tiers=Tiers(reads="direct", cache="1MiB"), share=(1, [0.5, 0.5]))
    first = next(iter(loader))
    assert first.seeds.numel() == 8
    before = loader.cache_stats()
    other = loader.over(("node", [5, 4, 3]))
    batches = list(other)
    assert [batch.seeds.tolist() for batch in batches] == [[5, 4, 3]]
    after = loader.cache_stats()
    assert before is not None
    assert after is not None
    assert after.looked["node"] >= before.looked["node"] + batches[0].input_of["node"].numel()
    assert len(loader) > 1


def test_an_evaluation_that_cannot_fit_is_refused_before_the_first_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    free = psutil.virtual_memory()  # a machine with less memory is emulated
    monkeypatch.setattr(psutil, "virtual_memory", lambda: free._replace(available=1000))
    with pytest.raises(SpecError, match=r"full evaluation holds two layers' rows of .* choose the evaluation sampled, or none"):
        run_in(tmp_path / "run", labelled_graph(), preload=False)
    run_in(tmp_path / "run2", labelled_graph(), evaluation="none", preload=False)


@pytest.mark.parametrize("wrong", [{"threads": 0}, {"timeout_s": 0.0}])
def test_resources_have_rules(wrong: dict[str, Any]) -> None:
    with pytest.raises(SpecError, match="threads must be 1 or more and timeout_s above 0"):
        Resources(**wrong)
