"""Metrics against scikit-learn-free definitions."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gnnhet.training.metrics import accuracy, macro_f1

pairs = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=30)


@given(pairs)
def test_definitions(drawn: list[tuple[int, int]]) -> None:
    predicted, labels = torch.tensor([p for p, _ in drawn]), torch.tensor([y for _, y in drawn])
    assert accuracy(predicted, labels) == pytest.approx(sum(p == y for p, y in drawn) / len(drawn))
    scores = []
    for c in {value for pair in drawn for value in pair}:
        right = sum(p == y == c for p, y in drawn)
        wrong = sum((p == c) != (y == c) for p, y in drawn)
        scores.append(2 * right / (2 * right + wrong))
    assert macro_f1(predicted, labels, 4) == pytest.approx(sum(scores) / len(scores))
