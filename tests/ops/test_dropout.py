"""Keyed dropout: its twin, its law, the same bits by kernel and by tensor operations."""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests import naive

from gnnhet.ops import keyed_dropout
from gnnhet.ops.dropout import _mask

words = st.integers(0, 2**64 - 1)


@given(words, st.lists(st.integers(0, 2**40), max_size=6), st.integers(0, 5), st.floats(0.01, 0.99))
def test_kernel_tensor_operations_and_twin_agree(base: int, ids: list[int], columns: int, p: float) -> None:
    nodes = torch.tensor(ids, dtype=torch.long)
    x = torch.ones(len(ids), columns, dtype=torch.float64)
    kept = keyed_dropout(x, p, np.uint64(base), nodes) > 0
    assert kept.tolist() == naive.dropout_mask(base, ids, columns, p)
    assert _mask(np.uint64(base), nodes, columns, round(p * 2**32)).tolist() == kept.tolist()


def test_the_law() -> None:
    x = torch.ones(400, 500)
    out = keyed_dropout(x, 0.3, np.uint64(9), torch.arange(400))
    assert set(out.flatten().tolist()) == {0.0, np.float32(1 / 0.7)}
    assert abs(float((out == 0).float().mean()) - 0.3) < 0.005  # 5 standard deviations
    assert abs(float((out == 0).float().mean(0).max()) - 0.3) < 0.12


def test_a_nodes_mask_does_not_depend_on_the_others() -> None:
    x = torch.rand(10, 7, requires_grad=True)
    ids = torch.arange(10) * 3
    whole = keyed_dropout(x, 0.5, np.uint64(1), ids)
    part = keyed_dropout(x[[7, 2]], 0.5, np.uint64(1), ids[[7, 2]])
    assert torch.equal(whole[[7, 2]], part)
    torch.autograd.backward(whole.sum())
    assert x.grad is not None
    assert torch.equal(x.grad, (whole != 0) * 2.0)


def test_nothing_dropped_is_the_input_itself() -> None:
    x = torch.rand(3, 3)
    assert keyed_dropout(x, 0.0, np.uint64(1), torch.arange(3)) is x
