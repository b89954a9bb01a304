"""Plans as data: the round trip, edits by hand, and what `explain` says."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gnnhet.config import TrainConfig
from gnnhet.devices import parse_devices
from gnnhet.errors import FormatError, GnnhetError, PlanError, SpecError
from gnnhet.planning import Plan
from gnnhet.planning.make import rank_threads
from gnnhet.planning.plan import DeviceCost, Predicted

SPEC = "cuda:1,memory=4GiB;cpu@0.5,threads=2;cpu"


def a_plan(**parts: Any) -> Plan:
    costs = tuple(
        DeviceCost(per_seed_s=slope, fixed_s=0.001, measured_s={"4": 0.002, "32": 0.01}) for slope in (1e-5, 3e-5, 1.5e-5)
    )
    predicted = Predicted(
        seeds=32, step_seconds=0.012, epoch_seconds=0.5, memory_bytes=(2**20, 2**21, 2**22), bottleneck="cpu@0.5,threads=2"
    )
    given = {
        "strategy": "data_parallel",
        "devices": tuple(parse_devices(SPEC)),
        "shares": (0.5, 0.2, 0.3),
        "threads": (1, 2, 1),
        "config": TrainConfig(model="gcn", fanouts=(3, -1), batch_size=64, steps=7, lr=0.1),
        "costs": costs,
        "predicted": predicted,
    }
    return Plan(**{**given, **parts})


def edited(change: Callable[[dict[str, Any]], object]) -> str:
    """A plan's JSON after a person has been at it."""
    values = a_plan().to_dict()
    change(values)
    return json.dumps(values)


def refused(text: str, kind: type[GnnhetError], rule: str) -> None:
    """Reading ends in one line that says the rule."""
    with pytest.raises(kind, match=rule) as caught:
        Plan.from_json(text)
    assert "\n" not in str(caught.value)


def test_json_reads_back_as_it_was_written() -> None:
    plan = a_plan()
    again = Plan.from_json(plan.to_json())
    assert again == plan
    assert again.config.fanouts == (3, -1)
    assert [device.spec for device in again.devices] == ["cuda:1,memory=4GiB", "cpu@0.5,threads=2", "cpu"]
    bare = a_plan(costs=(), predicted=None)
    assert Plan.from_json(bare.to_json()) == bare


@given(st.lists(st.integers(1, 10**6), min_size=1, max_size=8))
def test_any_shares_come_back_to_the_last_bit(weights: list[int]) -> None:
    shares = tuple(weight / sum(weights) for weight in weights)
    devices = tuple(parse_devices(["cpu"] * len(weights)))
    plan = Plan(
        strategy="data_parallel", devices=devices, shares=shares, threads=(1,) * len(shares), config=TrainConfig(dropout=1 / 3)
    )
    assert Plan.from_json(plan.to_json()) == plan


@pytest.mark.parametrize(
    ("change", "kind", "rule"),
    [
        (lambda d: d.update(shares=[0.5, 0.2, 0.4]), PlanError, "sum to 1, got"),
        (lambda d: d.update(shares=[1.2, -0.2, 0.0]), PlanError, "0 or more"),
        (lambda d: d.update(shares=[0.5, float("nan"), 0.5]), PlanError, "sum to 1"),
        (lambda d: d.update(shares=[0.5, 0.5]), PlanError, "one of shares for each of its 3 devices, got 2"),
        (lambda d: d.update(shares=["half", 0.5, 0]), FormatError, "half"),
        (lambda d: d.update(shares=0.5), FormatError, "as `Plan.to_json` writes it"),
        (lambda d: d.update(threads=[1]), PlanError, "one of threads for each"),
        (lambda d: d.update(threads=[1, 0, 1]), PlanError, "threads must be 1 or more"),
        (lambda d: d.update(threads=[1, None, 1]), FormatError, "another kind of value"),
        (lambda d: d["costs"].pop(), PlanError, "one of costs for each of its 3 devices, got 2"),
        (lambda d: d["costs"][0].update(per_seed_s="fast"), FormatError, "fast"),
        (lambda d: d["costs"][0].update(measured_s=[1, 2]), FormatError, "another kind of value"),
        (lambda d: d["costs"][1].pop("fixed_s"), FormatError, "got none of 'fixed_s'"),
        (lambda d: d["predicted"].update(memory_bytes=[1]), PlanError, "memory_bytes"),
        (lambda d: d["predicted"].update(step_seconds=None), FormatError, "another kind of value"),
        (lambda d: d.update(strategy="telepathy"), PlanError, "strategy must be one of data_parallel, got 'telepathy'"),
        (lambda d: d.update(devices=[], shares=[], threads=[], costs=[], predicted=None), PlanError, "one device at least"),
        (lambda d: d["devices"][0].update(kind="warp"), SpecError, "kind"),
        (lambda d: d["devices"][0].update(speed=0), SpecError, "speed"),
        (lambda d: d["devices"][0].update(colour="red"), SpecError, "colour"),
        (lambda d: d.update(devices=[3]), FormatError, "another kind of value"),
        (lambda d: d["config"].update(epochs=0), SpecError, "epochs must be 1 or more"),
        (lambda d: d["config"].update(learning_rate=1), SpecError, "learning_rate"),
        (lambda d: d.update(config="sage"), FormatError, "another kind of value"),
        *((lambda d, key=key: d.pop(key), FormatError, f"got none of '{key}'") for key in a_plan().to_dict()),
    ],
)
def test_refuses_an_edited_plan_that_does_not_hold_together(
    change: Callable[[dict[str, Any]], object], kind: type[GnnhetError], rule: str
) -> None:
    refused(edited(change), kind, rule)


@pytest.mark.parametrize("text", ["", "not a plan", "{", '{"shares": [1.0', "[" * 100_000, "null\n\nnull"])
def test_refuses_what_is_not_json(text: str) -> None:
    refused(text, FormatError, "must be JSON")


@pytest.mark.parametrize("text", ["[]", "3", "null", '"plan"', "{}"])
def test_refuses_json_that_is_no_plan(text: str) -> None:
    refused(text, FormatError, "as `Plan.to_json` writes it|that `Plan.to_json` writes")


def test_explains_each_device_and_what_bounds_the_step() -> None:
    plan = a_plan()
    lines = plan.explain().splitlines()
    assert len(lines) > 5
    for device, seeds in zip(plan.devices, (16, 6, 10), strict=True):
        (row,) = [line for line in lines if line.split()[:1] == [device.spec]]
        assert int(row.split()[2]) == seeds  # of a real step: 32 training nodes are fewer than the batch size
    assert "gcn, fanouts [3, -1], 64 seeds a step over 3 devices" in lines[0]
    assert "last to finish: cpu@0.5,threads=2" in lines[-1]
    assert "12.0 ms a step, 0.50 s an epoch, memory 1 MiB, 2 MiB, 4 MiB" in lines[-1]


def test_explains_who_stays_idle_and_a_single_device() -> None:
    idle = a_plan(shares=(0.6, 0.0, 0.4)).explain()
    assert "Without work" in idle
    assert idle.splitlines()[4].split()[-1] == "0.00"
    single = replace(a_plan(costs=(), predicted=None), devices=tuple(parse_devices("cpu")), shares=(1.0,), threads=(4,)).explain()
    assert "1 device" in single
    assert "One device: it takes every seed" in single
    assert "Predicted" not in single


def test_threads_are_the_specs_or_an_even_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gnnhet.planning.make.available_threads", lambda: 8)
    assert rank_threads(tuple(parse_devices("cpu;cpu,threads=3"))) == (4, 3)
    assert rank_threads(tuple(parse_devices("cpu"))) == (8,)
    assert rank_threads(tuple(parse_devices(["cpu"] * 20))) == (1,) * 20
