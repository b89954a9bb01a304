"""`TrainConfig`: every rule, changes, the round trip and the length of a run."""

import dataclasses
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gnnhet.config import DEFAULT_EPOCHS, OPTIMIZERS, SCHEDULES, TrainConfig
from gnnhet.errors import SpecError

configs = st.builds(
    TrainConfig,
    model=st.sampled_from(["sage", "gcn", "Own"]),
    fanouts=st.lists(st.one_of(st.just(-1), st.integers(1, 30)), max_size=4).map(tuple),
    hidden=st.integers(1, 512),
    dropout=st.floats(0, 1, exclude_max=True),
    lr=st.floats(1e-9, 1e3),
    weight_decay=st.floats(0, 1),
    optimizer=st.sampled_from(OPTIMIZERS),
    schedule=st.sampled_from(SCHEDULES),
    epochs=st.none() | st.integers(1, 99),
    steps=st.none() | st.integers(1, 9999),
    batch_size=st.integers(1, 10**6),
    seed=st.integers(0, 2**62),
    replace=st.booleans(),
    early_stop=st.none() | st.integers(1, 9),
    eval_every=st.integers(1, 9),
    target=st.none() | st.sampled_from(["node", "paper"]),
    embeddings=st.just("dense"),
)


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        ({"fanouts": (10, 0)}, "a fanout must be 1 or more, or -1 for all neighbours, got 0"),
        ({"fanouts": (-2,)}, "or -1 for all neighbours, got -2"),
        ({"hidden": 0}, "hidden must be 1 or more, got 0"),
        ({"batch_size": 0}, "batch_size must be 1 or more, got 0"),
        ({"epochs": 0}, "epochs must be 1 or more, got 0"),
        ({"steps": 0}, "steps must be 1 or more, got 0"),
        ({"early_stop": 0}, "early_stop must be 1 or more, got 0"),
        ({"eval_every": 0}, "eval_every must be 1 or more, got 0"),
        ({"weight_decay": -1e-9}, "weight_decay must be 0 or more, got -1e-09"),
        ({"weight_decay": float("nan")}, "weight_decay must be 0 or more, got nan"),
        ({"seed": -1}, "seed must be 0 or more, got -1"),
        ({"dropout": 1.0}, r"dropout must be a probability in \[0, 1\), got 1.0"),
        ({"dropout": -0.1}, "dropout must be a probability"),
        ({"dropout": float("nan")}, "dropout must be a probability"),
        ({"lr": 0}, "lr must be a finite number above 0, got 0"),
        ({"lr": -1}, "lr must be a finite number above 0"),
        ({"lr": float("inf")}, "lr must be a finite number above 0"),
        ({"lr": float("nan")}, "lr must be a finite number above 0"),
        ({"optimizer": "lion"}, "optimizer must be one of adagrad, adam, adamw, rmsprop, sgd, got 'lion'"),
        ({"evaluation": "half"}, "evaluation must be one of full, sampled, none, got 'half'"),
        ({"evaluation": "none", "early_stop": 3}, "stopping early needs evaluations"),
        ({"embeddings": "thin"}, "embeddings must be one of dense, sparse, got 'thin'"),
        ({"embeddings": "sparse", "optimizer": "rmsprop"}, "sparse embeddings need one of adagrad, adam, adamw, sgd, got"),
        ({"schedule": "step"}, "schedule must be one of constant, cosine, linear, got 'step'"),
    ],
)
def test_every_rule_is_held_however_the_config_is_made(options: dict[str, Any], rule: str) -> None:
    makers: list[Callable[[], TrainConfig]] = [
        lambda: TrainConfig(**options),
        lambda: TrainConfig().changed(**options),
        lambda: TrainConfig.from_dict({**TrainConfig().to_dict(), **options}),
    ]
    for make in makers:
        with pytest.raises(SpecError, match=rule) as caught:
            make()
        assert "\n" not in str(caught.value)


def test_the_edges_of_the_rules_are_allowed() -> None:
    least = TrainConfig(
        fanouts=(-1, 1), hidden=1, batch_size=1, epochs=1, steps=1, early_stop=1, eval_every=1, weight_decay=0, seed=0, dropout=0
    )
    assert least.fanouts == (-1, 1)
    assert TrainConfig(fanouts=()).fanouts == ()  # a model that sees no graph


def test_fanouts_may_be_any_sequence() -> None:
    assert TrainConfig(fanouts=[3, 2]) == TrainConfig(fanouts=(3, 2))  # type: ignore[arg-type]


@given(configs)
def test_it_comes_back_from_json(config: TrainConfig) -> None:
    assert TrainConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config
    assert set(config.to_dict()) == {field.name for field in dataclasses.fields(TrainConfig)}


@given(configs, configs)
def test_changed_takes_what_is_given_and_leaves_the_rest(one: TrainConfig, other: TrainConfig) -> None:
    given_options = {"lr": other.lr, "steps": other.steps, "target": other.target, "replace": other.replace}
    after = one.changed(**given_options)
    for name, value in dataclasses.asdict(one).items():
        expected = given_options.get(name)
        assert getattr(after, name) == (value if expected is None else expected)
    assert one.changed() == one
    assert one.changed(lr=None, epochs=None) == one


def test_an_unknown_option_is_named_beside_the_known() -> None:
    with pytest.raises(SpecError, match=r"an option must be one of batch_size, .*weight_decay, got depth, learning_rate"):
        TrainConfig().changed(learning_rate=0.1, depth=3)


@pytest.mark.parametrize(
    ("epochs", "steps", "expected"),
    [
        (None, None, DEFAULT_EPOCHS * 7),
        (3, None, 21),
        (None, 1000, 1000),  # steps alone say when to stop, however many epochs that is
        (3, 10, 10),
        (3, 1000, 21),
        (None, 5, 5),
    ],
)
def test_a_run_ends_at_the_first_of_its_limits(epochs: int | None, steps: int | None, expected: int) -> None:
    assert TrainConfig(epochs=epochs, steps=steps).total_steps(7) == expected


def test_a_config_is_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        TrainConfig().lr = 1.0  # type: ignore[misc]
