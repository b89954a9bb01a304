"""Blocks as sparse matrices."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from gnnhet.ops import compact_rows, mean_adjacency, with_self_loops
from gnnhet.ops.adjacency import csr

rows = st.lists(st.lists(st.integers(0, 8), max_size=4), min_size=1, max_size=6)


def arrays(lists: list[list[int]]) -> tuple[torch.Tensor, torch.Tensor]:
    ends = torch.tensor([0, *(len(row) for row in lists)], dtype=torch.int32).cumsum(0).int()
    return ends, torch.tensor([source for row in lists for source in row], dtype=torch.int32)


@given(rows)
def test_csr_and_self_loops(lists: list[list[int]]) -> None:
    indptr, indices = arrays(lists)
    values = torch.rand(indices.numel(), dtype=torch.float64)
    loops = torch.rand(len(lists), dtype=torch.float64)
    dense = torch.zeros(len(lists), 9, dtype=torch.float64)
    at = 0
    for i, row in enumerate(lists):
        for source in row:
            dense[i, source] += values[at]
            at += 1
        dense[i, i] += loops[i]
    h = torch.rand(9, 3, dtype=torch.float64)
    assert torch.allclose(csr(*with_self_loops(indptr, indices, values, loops), num_src=9) @ h, dense @ h)


@given(rows)
def test_compact_rows_keep_the_edges(lists: list[list[int]]) -> None:
    indptr, indices = arrays(lists)
    ends, kept = compact_rows(indptr)
    assert kept.tolist() == [i for i, row in enumerate(lists) if row]
    h = torch.rand(9, 3, dtype=torch.float64)
    out = torch.zeros(len(lists), 3, dtype=torch.float64)
    out[kept] = mean_adjacency(ends, indices, 9, torch.float64) @ h
    for i, row in enumerate(lists):
        assert torch.allclose(out[i], h[row].sum(0))
