"""`RowTensor`: rows by this library's gather, everything else as torch has it."""

from typing import Any

import pytest
import torch
from tests.samplers.pyg.graphs import random_data, same
from torch_geometric.data import HeteroData
from torch_geometric.loader.utils import filter_data, filter_hetero_data, index_select

from gnnhet.errors import GraphError
from gnnhet.samplers.pyg.rows import RowTensor, take_rows, with_row_tensors

DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.complex64, torch.int8, torch.int64, torch.bool]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(50,), (50, 7), (50, 3, 2), (50, 0), (0, 4)])
def test_rows_of_every_dtype_and_shape(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    values = (torch.rand(shape) * 9).to(dtype)
    index = torch.randint(50, (200,)) if shape[0] else torch.empty(0, dtype=torch.int64)
    taken = torch.index_select(values.as_subclass(RowTensor), 0, index)
    assert type(taken) is torch.Tensor
    assert same(taken, torch.index_select(values, 0, index))
    out = torch.empty_like(taken)
    assert take_rows(values, index, out) is out
    assert torch.equal(out, taken)


def test_pygs_selection_takes_this_way(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def counted(values: Any, index: Any, out: Any = None, pool: Any = None) -> Any:
        calls.append(index.numel())
        return take_rows(values, index, out, pool)

    monkeypatch.setattr("gnnhet.samplers.pyg.rows.take_rows", counted)
    index_select(torch.rand(5, 4).as_subclass(RowTensor), torch.tensor([2, 2, 0]), dim=0)
    assert calls == [3]


def test_anything_else_is_torchs() -> None:
    values = torch.rand(5, 4)
    rows = values.as_subclass(RowTensor)
    assert torch.equal(torch.index_select(rows, 1, torch.tensor([2])), values[:, 2:3])
    assert type(rows + 1) is torch.Tensor
    assert torch.equal(rows + 1, values + 1)
    with pytest.raises(GraphError, match=r"0\.\.4, got 9"):
        torch.index_select(rows, 0, torch.tensor([9]))


def test_only_what_is_selected_by_row_changes() -> None:
    data = random_data()
    data.x, data.edge_attr = torch.rand(300, 8), torch.rand(2000, 4, 2)
    data.graph_level = torch.rand(7)
    data.learned = torch.rand(300, 2, requires_grad=True)
    data.strided = torch.rand(2, 300).t()
    data.name = "graph"
    lean = with_row_tensors(data)
    kinds = {key: type(value) for key, value in lean.to_dict().items()}
    assert {key for key, kind in kinds.items() if kind is RowTensor} == {"x", "edge_attr"}
    assert type(data.x) is torch.Tensor
    assert with_row_tensors(("a", "b")) == ("a", "b")


@pytest.mark.parametrize("typed", [False, True])
def test_filtered_data_is_pygs(typed: bool) -> None:
    data: Any = random_data()
    data.train_mask = torch.rand(300) < 0.5
    data.wide = torch.rand(300, 40)
    data.learned = torch.rand(300, 2, requires_grad=True)
    node, edge = torch.randint(300, (80,)), torch.randint(2000, (90,))
    row, col = torch.randint(80, (2, 90))
    if typed:
        relation = ("v", "to", "v")
        hetero = HeteroData()
        hetero["v"].x, hetero["v"].wide, hetero[relation].edge_index = data.x, data.wide, data.edge_index
        hetero[relation].edge_attr = data.edge_attr
        parts = ({"v": node}, {relation: row}, {relation: col}, {relation: edge})
        a, b = filter_hetero_data(hetero, *parts), filter_hetero_data(with_row_tensors(hetero), *parts)
    else:
        a, b = filter_data(data, node, row, col, edge), filter_data(with_row_tensors(data), node, row, col, edge)
        assert b.learned.requires_grad
        a.learned, b.learned = a.learned.detach(), b.learned.detach()
    assert same(a, b)
