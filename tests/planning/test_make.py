"""Plans of real graphs: measured devices, and what cannot be planned."""

import numpy as np
import pytest
import torch
from tests.strategies import labelled_graph, typed_labelled_graph
from torch import Tensor, nn

import gnnhet.planning.make as make
from gnnhet.errors import GnnhetError, PlanError, SpecError
from gnnhet.planning import Plan, plan
from gnnhet.planning.measure import sample_sizes
from gnnhet.samplers import MiniBatch
from gnnhet.storage import Graph

OPTIONS = {"fanouts": (5, 5), "hidden": 16, "batch_size": 64}
UNEQUAL = "cpu;cpu@0.5;cpu@0.25"


def test_a_measured_plan_gives_slower_devices_less() -> None:
    graph = labelled_graph(num_nodes=2000, num_edges=30_000)
    threads = torch.get_num_threads()
    made = plan(graph, "sage", UNEQUAL, **OPTIONS)
    assert made.strategy == "data_parallel"
    assert sum(made.shares) == pytest.approx(1)
    assert list(made.shares) == sorted(made.shares, reverse=True)
    assert made.shares[0] > 0
    assert [device.spec for device in made.devices] == ["cpu", "cpu@0.5", "cpu@0.25"]
    # one piece of hardware is timed once: its throttled twins cost exactly so much more
    full, half, quarter = made.costs
    assert full.measured_s == half.measured_s == quarter.measured_s
    assert set(full.measured_s) == {"8", "64"}
    assert (half.per_seed_s, quarter.per_seed_s) == pytest.approx((2 * full.per_seed_s, 4 * full.per_seed_s))
    assert quarter.fixed_s == pytest.approx(4 * full.fixed_s)
    assert made.predicted is not None
    assert made.predicted.seeds == 64
    ends = [cost.per_seed_s * share * 64 + cost.fixed_s for cost, share in zip(made.costs, made.shares, strict=True) if share]
    assert ends == pytest.approx([made.predicted.step_seconds] * len(ends))
    steps = -(-graph.split_ids("node", "train").size // 64)
    assert made.predicted.epoch_seconds == pytest.approx(steps * made.predicted.step_seconds)
    assert all(num_bytes > 0 for num_bytes in made.predicted.memory_bytes)
    assert made.predicted.bottleneck in UNEQUAL.split(";")
    assert torch.get_num_threads() == threads  # planning leaves the process as it was
    assert Plan.from_json(made.to_json()) == made
    text = made.explain()
    assert all(spec in text for spec in UNEQUAL.split(";"))
    assert len(text.splitlines()) > 5


def test_a_typed_graph_smaller_than_a_batch_is_planned_by_its_own_size() -> None:
    graph = typed_labelled_graph()
    made = plan(graph, "rgcn", "cpu;cpu@0.5", fanouts=(3, 3), hidden=8)
    count = graph.split_ids("a", "train").size
    assert made.config.batch_size > count
    assert made.predicted is not None
    assert made.predicted.seeds == count
    assert made.predicted.epoch_seconds == made.predicted.step_seconds  # one step an epoch
    shown = [int(line.split()[2]) for line in made.explain().splitlines() if line.startswith("cpu")]
    assert sum(shown) == pytest.approx(count, abs=1)


def test_a_slow_link_costs_its_device_seeds() -> None:
    graph = labelled_graph()
    made = plan(graph, "sage", "cpu;cpu,link=1KB/s", **OPTIONS)
    free, held = made.costs
    sizes = sample_sizes(make.training_loader(graph, made.config, "sage"))
    assert held.per_seed_s - free.per_seed_s == pytest.approx(sizes.whole.feature_bytes / 64 / 1000)
    assert made.shares[1] < made.shares[0]


def test_a_single_device_is_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(make, "measure_cost", lambda *parts: pytest.fail("one device has nobody to share with"))
    made = plan(labelled_graph(), "sage", "cpu@0.5", **OPTIONS)
    assert made.shares == (1.0,)
    assert made.costs == ()
    assert made.predicted is None
    assert made.config.fanouts == (5, 5)


class Own(nn.Module):
    """A person's own model, without the graph."""

    def __init__(self, fails: bool = False) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 3)
        self.fails = fails

    def forward(self, batch: MiniBatch) -> Tensor:
        if self.fails:
            raise RuntimeError("out of memory\nand more lines")
        out: Tensor = self.linear(batch.x[: batch.seeds.numel()])
        return out


def test_a_persons_own_module_is_measured_and_left_as_it_was() -> None:
    model = Own()
    before = model.linear.weight.detach().clone()
    made = plan(labelled_graph(), model, "cpu;cpu@0.5", **OPTIONS)
    assert made.config.model == "Own"
    assert torch.equal(model.linear.weight, before)
    assert model.linear.weight.grad is None


def test_a_device_that_cannot_do_the_work_is_named() -> None:
    with pytest.raises(PlanError, match=r"^cpu must compute a step of the model .* got: out of memory$"):
        plan(labelled_graph(), Own(fails=True), "cpu;cpu@0.5", **OPTIONS)


def no_training_nodes() -> Graph:
    return Graph.from_csc([0, 1, 2], [1, 0], x=np.eye(2, dtype=np.float32), y=np.array([0, 1]))


@pytest.mark.parametrize(
    ("graph", "model", "devices", "options", "rule"),
    [
        (labelled_graph(), "sage", "cuda:97", {}, r"no cuda device 97 here: found .*; name one"),
        (labelled_graph(), "sage", "warp:9", {}, "kind is one of"),
        (labelled_graph(), "sage", [], {}, "at least one device"),
        (labelled_graph(), "sagee", "cpu", {}, r"got 'sagee': did you mean sage\?"),
        (labelled_graph(), "sage", "cpu", {"fanouts": ()}, "one fanout a layer, got none"),
        (labelled_graph(), "sage", "cpu", {"speed": 3}, "an option must be one of"),
        (labelled_graph(), "sage", "cpu", {"target": "nope"}, r"a node type of the graph \(node\), got 'nope'"),
        (typed_labelled_graph(), "sage", "cpu", {}, "use one of hgt, mlp, rgcn"),
        (typed_labelled_graph(), "rgcn", "cpu", {"target": "b"}, "training needs labelled b nodes"),
        (no_training_nodes(), "sage", "cpu", {}, "add the feature `split`"),
        (Graph.from_csc([0, 1, 2], [1, 0]), "sage", "cpu", {}, "must have labels `y`, got none"),
    ],
)
def test_refuses_what_cannot_be_planned(graph: Graph, model: str, devices: str, options: dict[str, object], rule: str) -> None:
    with pytest.raises(GnnhetError, match=rule) as caught:
        plan(graph, model, devices, **options)
    assert "\n" not in str(caught.value)


def test_errors_of_specs_are_spec_errors() -> None:
    with pytest.raises(SpecError):
        plan(labelled_graph(), "sage", "cuda:97")
