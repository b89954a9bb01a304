"""`FeatureStore.gather` against plain indexing, for dtypes, shapes, `out`, and bad input."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import naive

from gnnhet.errors import GraphError, SeedError
from gnnhet.storage import FeatureStore
from gnnhet.storage.gather import gather_rows

DTYPES = [
    torch.float32,
    torch.float16,
    torch.bfloat16,
    torch.float64,
    torch.int8,
    torch.int64,
    torch.int32,
    torch.bool,
    torch.uint8,
]


@settings(max_examples=80)
@given(
    st.sampled_from(DTYPES),
    st.sampled_from([(), (1,), (3,), (4,), (25,), (2, 3), (0,)]),
    st.lists(st.integers(0, 19), max_size=40),
)
def test_gather_is_indexing(dtype: torch.dtype, shape: tuple[int, ...], ids: list[int]) -> None:
    rows = (torch.rand(20, *shape) * 100).to(dtype)
    store = FeatureStore()
    store.add("node", "x", rows, 20)
    wanted = torch.tensor(ids, dtype=torch.long)
    got = store.gather("node", "x", wanted)
    assert got.dtype == dtype
    assert torch.equal(got, rows[wanted])
    out = torch.empty_like(got)
    assert store.gather("node", "x", wanted.numpy().astype(np.int32), out=out) is out
    assert torch.equal(out, got)


def test_kernel_equals_its_twin_also_where_alignments_differ() -> None:
    base = np.arange(1, 101, dtype=np.uint8)
    rows = base[1:97].reshape(12, 8)  # rows of 8 bytes that do not start at a multiple of 8
    ids = np.array([11, 0, 3, 3])
    out = np.zeros((4, 8), np.uint8)
    gather_rows(rows, ids, out)
    assert out.tolist() == naive.gather(rows.tolist(), ids.tolist())


@given(st.one_of(st.integers(1, 200), st.integers(2040, 2200)), st.integers(0, 63), st.integers(0, 63), st.integers(0, 120))
def test_rows_of_any_width_and_alignment(size: int, skew: int, out_skew: int, count: int) -> None:
    """Rows past 2048 bytes are stored past the caches, whole lines at a time: heads and tails must fit."""
    rng = np.random.default_rng(size)
    rows = rng.integers(0, 256, skew + 30 * size, dtype=np.uint8)[skew:].reshape(30, size)
    ids = rng.integers(0, 30, count)
    room = np.zeros(out_skew + count * size + 64, np.uint8)
    gather_rows(rows, ids, room[out_skew : out_skew + count * size].reshape(count, size))
    assert np.array_equal(room[out_skew : out_skew + count * size].reshape(count, size), rows[ids])
    assert not room[:out_skew].any()
    assert not room[out_skew + count * size :].any()


def test_array_out_is_filled_in_place() -> None:
    rows = np.arange(12, dtype=np.float32).reshape(4, 3)
    store = FeatureStore()
    store.add("node", "x", rows, 4)
    out = np.zeros((2, 3), np.float32)
    store.gather("node", "x", [3, 0], out=out)  # type: ignore[arg-type]
    assert np.array_equal(out, rows[[3, 0]])
    half = torch.rand(4, 2).bfloat16()
    store.add("node", "h", half, 4)
    bits = np.zeros((1, 2), np.uint16)
    got = store.gather("node", "h", np.array([2]), out=bits)
    assert torch.equal(got, half[2:3])
    assert bits.any()


def test_refuses_and_leaves_out_alone() -> None:
    store = FeatureStore()
    store.add("node", "x", np.ones((4, 3), np.float32), 4)
    out = torch.zeros(2, 3)
    for ids in ([0, 4], [-1, 0]):
        with pytest.raises(SeedError, match=r"gather of `x` of node: ids must lie in 0\.\.3"):
            store.gather("node", "x", np.array(ids), out=out)
    assert not out.any()
    for bad in (torch.zeros(3, 3), torch.zeros(2, 3, dtype=torch.float64), torch.zeros(3, 2).T):
        with pytest.raises(GraphError, match="out must be contiguous"):
            store.gather("node", "x", np.array([0, 1]), out=bad)
    frozen_out = np.zeros((2, 3), np.float32)
    frozen_out.flags.writeable = False
    with pytest.raises(GraphError, match="out must be writable"):
        store.gather("node", "x", np.array([0, 1]), out=frozen_out)
    with pytest.raises(SeedError, match="ids must be integers"):
        store.gather("node", "x", np.array([0.5]))
    with pytest.raises(GraphError, match="no feature `z` of node: it has x"):
        store.gather("node", "z", np.array([0]))


def test_foreign_byte_order_and_strides_are_put_right() -> None:
    store = FeatureStore()
    rows = np.arange(24, dtype=">f4").reshape(4, 6)[:, ::2]
    store.add("node", "x", rows, 4)
    assert store.gather("node", "x", np.array([1])).tolist() == rows[1:2].tolist()
