"""Rows that become another dtype on their way, against torch and a plain twin."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import naive

from gnnhet.errors import GraphError
from gnnhet.storage.convert import convert_rows, convertible, flat, put_rows

SOURCES = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8]
TARGETS = [torch.float32, torch.float16, torch.bfloat16]
OTHERS = [torch.int16, torch.uint8, torch.bool]


def stored(tensor: torch.Tensor) -> np.ndarray:
    """As a feature holds it."""
    return tensor.view(torch.int16).numpy().view(np.uint16) if tensor.dtype == torch.bfloat16 else tensor.numpy()


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(SOURCES + OTHERS),
    st.sampled_from([*TARGETS, torch.float64]),
    st.sampled_from([(), (1,), (5,), (64,), (2, 3), (0,)]),
    st.lists(st.integers(0, 19), max_size=40),
    st.booleans(),
    st.booleans(),
)
def test_put_rows_is_indexing_and_conversion(
    source: torch.dtype, target: torch.dtype, shape: tuple[int, ...], ids: list[int], scaled: bool, placed: bool
) -> None:
    torch.manual_seed(len(ids))
    rows = (torch.randn(20, *shape) * 50).to(source)
    scale = torch.rand(shape) if scaled and source == torch.int8 else None
    wanted = np.array(ids, np.int64)
    places = np.random.default_rng(0).permutation(wanted.size + 3)[: wanted.size] if placed else None
    out = torch.full((wanted.size + 3, *shape), 7, dtype=target) if placed else torch.empty((wanted.size, *shape), dtype=target)
    put_rows(stored(rows), source, None if scale is None else scale.numpy(), wanted, out, places)
    chosen = rows[torch.from_numpy(wanted)]
    right = (chosen if scale is None else chosen.float() * scale).to(target)
    where = torch.arange(wanted.size) if places is None else torch.from_numpy(places)
    assert torch.equal(out[where], right)
    if placed:
        untouched = np.setdiff1d(np.arange(wanted.size + 3), where.numpy())
        assert bool((out[torch.from_numpy(untouched)] == 7).all())


@given(st.floats(width=32), st.sampled_from(["float16", "bfloat16"]))
def test_numbers_are_rounded_to_nearest_even_as_by_the_plain_twin(value: float, name: str) -> None:
    dtype = getattr(torch, name)
    out = torch.empty((1, 1), dtype=dtype)
    convert_rows(np.array([[value]], np.float32), torch.float32, np.zeros(1, np.int64), out)
    right = naive.narrowed(value, name)
    assert out.item() == right or (math.isnan(out.item()) and math.isnan(right))
    assert math.copysign(1, out.item()) == math.copysign(1, right) or math.isnan(right)


@pytest.mark.parametrize("value", [65519.0, 65520.0, 2.0**-24, 2.0**-25, 3.0e-8, 1.0009765625, 1.00048828125, 3.4e38, -0.0])
def test_the_edges_of_half_precision(value: float) -> None:
    for name in ("float16", "bfloat16"):
        out = torch.empty((1,), dtype=getattr(torch, name))
        convert_rows(np.array([value], np.float32), torch.float32, np.zeros(1, np.int64), out)
        assert out.item() == naive.narrowed(float(np.float32(value)), name)


def test_an_id_out_of_range_leaves_out_untouched() -> None:
    out = torch.full((2, 3), 9.0)
    for ids in ([0, 4], [-1, 0]):
        with pytest.raises(GraphError, match=r"0\.\.3"):
            convert_rows(np.ones((4, 3), np.float16), torch.float16, np.array(ids), out)
    assert bool((out == 9).all())


def test_what_can_be_converted_is_said() -> None:
    assert convertible(torch.int8, torch.float32)
    assert convertible(torch.float64, torch.bfloat16)
    assert not convertible(torch.int64, torch.float32)
    assert not convertible(torch.float32, torch.int8)


def test_flat_is_the_same_memory() -> None:
    for dtype in TARGETS:
        out = torch.zeros((3, 2), dtype=dtype)
        flat(out)[3] = 1
        assert out.view(-1)[3] != 0
