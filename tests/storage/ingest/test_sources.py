"""What is carried from a source into a folder, and from a folder into another."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from gnnhet.datasets import pyg
from gnnhet.datasets.raw import HOMOGENEOUS, NODE, RawGraph
from gnnhet.datasets.source import Source, edges_of, of_raw
from gnnhet.errors import GnnhetError
from gnnhet.storage import Graph, verify

SRC, DST = np.array([0, 2, 1, 1]), np.array([1, 0, 1, 2])
ORDER = [1, 0, 2, 3]  # by destination
WIDE = torch.tensor([[1.0, -2.5, 0.1], [0.0, 3.0, 0.2], [8.0, 7.0, 0.3], [-1.0, 0.5, 0.4]])


def graph_of(features: dict[str, Any]) -> Graph:
    return Graph.from_raw(RawGraph(num_nodes={NODE: 3}, edges={HOMOGENEOUS: (SRC, DST)}, edge_features={HOMOGENEOUS: features}))


def gathered(graph: Graph, name: str) -> torch.Tensor:
    return graph.features.gather(HOMOGENEOUS, name, np.arange(graph.num_edges[HOMOGENEOUS]))


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int8"])
def test_features_of_edges_go_from_folder_to_folder_as_they_are_stored(dtype: str, tmp_path: Path) -> None:
    graph_of({"w": WIDE, "time": np.arange(4)}).save(tmp_path / "g")
    held = Graph.open(tmp_path / "g")
    held.set_feature(HOMOGENEOUS, "w", WIDE[ORDER], dtype=dtype)
    held.set_feature(NODE, "x", WIDE[:3], dtype=dtype)
    held = Graph.open(tmp_path / "g")
    again = Graph.ingest(tmp_path / "g", tmp_path / "again")
    for owner, name in ((HOMOGENEOUS, "w"), (NODE, "x"), (HOMOGENEOUS, "time")):
        one, other = again.features.rows(owner, name), held.features.rows(owner, name)
        assert one.dtype == other.dtype
        assert np.array_equal(one.array, other.array)
        assert (one.scale is None) == (other.scale is None)
        if one.scale is not None:
            assert np.array_equal(one.scale, np.asarray(other.scale))
    assert verify(tmp_path / "again").problems == ()
    both = Graph.ingest(tmp_path / "g", tmp_path / "both", add_reverse=True, sort_rows="source")
    reverse = (NODE, "rev_to", NODE)
    rows = both.features.gather(reverse, "w", np.arange(4))
    # reversed, 0 is reached from 1, 1 from 1 and 2, 2 from 0
    assert torch.equal(rows, gathered(held, "w")[[1, 2, 3, 0]])


def test_bfloat16_of_pyg_is_carried(tmp_path: Path) -> None:
    data = Data(
        x=WIDE[:3].to(torch.bfloat16),
        edge_index=torch.from_numpy(np.stack([SRC, DST])),
        edge_attr=WIDE.to(torch.bfloat16),
        edge_weight=torch.arange(4.0).to(torch.bfloat16),
    )
    torch.save(data.to_dict(), tmp_path / "data.pt")
    made, held = Graph.ingest(f"pyg:{tmp_path / 'data.pt'}", tmp_path / "g"), Graph.from_raw(pyg.from_data(data))
    assert torch.equal(gathered(made, "edge_attr"), WIDE.to(torch.bfloat16)[ORDER])
    assert [(owner, name, rows.dtype) for owner, name, rows in made.features] == [
        (owner, name, rows.dtype) for owner, name, rows in held.features
    ]
    for owner, name, rows in held.features:
        assert rows.dtype == torch.bfloat16
        assert np.array_equal(made.features.array(owner, name), rows.array)
    assert verify(tmp_path / "g").problems == ()


@pytest.mark.parametrize("dtype", [">i2", ">i4", ">i8", ">u4"])
def test_bytes_in_the_other_order(dtype: str, tmp_path: Path) -> None:
    raw = RawGraph(
        num_nodes={NODE: 3},
        edges={HOMOGENEOUS: (SRC.astype(dtype), DST.astype(dtype))},
        features={NODE: {"x": WIDE[:3].numpy().astype(">f4"), "y": np.array([0, 1, 1], dtype)}},
        edge_features={HOMOGENEOUS: {"w": WIDE.numpy().astype(">f8"), "time": np.array([3, 2, 1, 0], dtype)}},
    )
    graph = Graph.ingest(of_raw(raw), tmp_path / "g", sort_rows="time")
    assert [array.tolist() for array in graph.csc(HOMOGENEOUS)] == [[0, 1, 3, 4], [2, 1, 0, 1]]
    assert np.array_equal(graph.features.array(HOMOGENEOUS, "w"), WIDE.numpy()[[1, 2, 0, 3]].astype(np.float64))
    assert graph.features.array(NODE, "y").tolist() == [0, 1, 1]
    assert np.array_equal(graph.features.array(NODE, "x"), WIDE[:3].numpy())
    (tmp_path / "pairs").mkdir()
    for name, ids in (("src", SRC), ("dst", DST), ("time", [3, 2, 1, 0])):
        np.save(tmp_path / "pairs" / f"{name}.npy", np.asarray(ids).astype(dtype))
    found = Graph.ingest(f"tables:{tmp_path / 'pairs'}", tmp_path / "of_pairs", sort_rows="time")
    assert [array.tolist() for array in found.csc(HOMOGENEOUS)] == [[0, 1, 3, 4], [2, 1, 0, 1]]
    assert found.features.array(HOMOGENEOUS, "time").tolist() == [2, 1, 3, 0]


def test_rows_of_no_numbers(tmp_path: Path) -> None:
    stream = edges_of(SRC, DST, {"w": np.empty((4, 0), np.float32)})
    graph = Graph.ingest(Source(num_nodes={NODE: 3}, edges={HOMOGENEOUS: stream}), tmp_path / "g", sort_rows="source")
    assert graph.features.array(HOMOGENEOUS, "w").shape == (4, 0)


@pytest.mark.parametrize(
    ("values", "options", "message"),
    [
        ({"w": np.zeros(4, np.complex64)}, {}, "`w` .* must be numbers, got dtype complex64"),
        ({"w": np.zeros(4, "datetime64[s]")}, {}, "must be numbers, got dtype datetime64"),
        ({"time": np.zeros((4, 2))}, {"sort_rows": "time"}, r"one time an edge.*got \(2,\)"),
        ({"time": torch.zeros(4, dtype=torch.bfloat16)}, {"sort_rows": "time"}, "got bfloat16"),
    ],
)
def test_values_that_cannot_be_are_refused(values: Any, options: dict[str, Any], message: str, tmp_path: Path) -> None:
    raw = RawGraph(num_nodes={NODE: 3}, edges={HOMOGENEOUS: (SRC, DST)}, edge_features={HOMOGENEOUS: values})
    with pytest.raises(GnnhetError, match=message):
        Graph.ingest(of_raw(raw), tmp_path / "g", **options)
    assert not (tmp_path / "g").exists()
