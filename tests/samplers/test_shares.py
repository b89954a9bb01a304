"""Largest remainders."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import naive

from gnnhet.errors import SpecError
from gnnhet.samplers.shares import integer_shares, share_bounds

weights = st.lists(st.integers(0, 100), min_size=1, max_size=8).filter(any)


@given(st.integers(0, 10_000), weights)
def test_equals_its_twin_and_is_within_one_of_exact(total: int, parts: list[int]) -> None:
    got = integer_shares(total, parts)
    assert got.tolist() == naive.integer_shares(total, parts)
    assert got.sum() == total
    assert (np.abs(got - np.array(parts) / sum(parts) * total) < 1).all()


@given(st.integers(0, 1000), weights)
def test_bounds_tile_the_range(total: int, parts: list[int]) -> None:
    bounds = [share_bounds(total, parts, rank) for rank in range(len(parts))]
    assert bounds[0][0] == 0
    assert bounds[-1][1] == total
    assert all(one[1] == other[0] for one, other in pairwise(bounds))


@pytest.mark.parametrize("bad", [[], [0, 0], [-1, 2], [float("nan")], [float("inf"), 1]])
def test_refuses_weights(bad: list[float]) -> None:
    with pytest.raises(SpecError, match="shares must be"):
        integer_shares(4, bad)
