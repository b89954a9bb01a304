"""Graphs in memory as sources, and back."""

from typing import Any

import numpy as np
import pytest
import torch
from tests.datasets.refusals import refused

from gnnhet import Graph
from gnnhet.datasets.raw import HOMOGENEOUS, NODE, RawGraph
from gnnhet.datasets.source import EdgeStream, RowStream, Source, edges_of, of_raw, rows_of, to_raw
from gnnhet.errors import GraphError

SRC, DST = np.array([0, 2, 1]), np.array([1, 0, 1])
HALVES = torch.tensor([[1.0, -2.5], [0.0, 3.0], [float("inf"), 7.0]], dtype=torch.bfloat16)


def raw_of(edge_features: dict[str, Any], features: dict[str, Any] | None = None) -> RawGraph:
    return RawGraph(
        num_nodes={NODE: 3},
        edges={HOMOGENEOUS: (SRC, DST)},
        features={NODE: features or {}},
        edge_features={HOMOGENEOUS: edge_features},
    )


def test_features_of_edges_of_any_width_go_there_and_back() -> None:
    given: dict[str, Any] = {
        "w": np.array([1, 2, 3], np.float16),
        "wide": np.arange(6, dtype=np.float32).reshape(3, 2),
        "deep": np.arange(12).reshape(3, 2, 2),
        "no": np.empty((3, 0), np.float32),
        "big": np.arange(6, dtype=">f4").reshape(3, 2),
        "half": HALVES,
        "tensor": torch.arange(6).reshape(3, 2).t().contiguous().t(),  # not contiguous
    }
    source = of_raw(raw_of(given, {"x": HALVES, "y": torch.tensor([1, 0, -1])}))
    stream = source.edges[HOMOGENEOUS]
    assert stream.values["wide"] == np.dtype((np.float32, (2,)))
    assert stream.values["big"].base.isnative
    assert stream.bfloat16 == {"half"}
    for most in (1, 2, 3, 7):
        pieces = list(stream.read(most))
        for name, values in given.items():
            if name != "half":
                assert np.array_equal(np.concatenate([piece.values[name] for piece in pieces]), np.asarray(values))
    raw = to_raw(source)
    found = raw.edge_features[HOMOGENEOUS]
    assert found.keys() == given.keys()
    for name, values in given.items():
        if name == "half":
            assert found[name].dtype == torch.bfloat16
            assert torch.equal(found[name], HALVES)
        else:
            assert found[name].shape == tuple(values.shape)
            assert np.array_equal(found[name], np.asarray(values))
    assert torch.equal(raw.features[NODE]["x"], HALVES)
    assert raw.features[NODE]["y"].tolist() == [1, 0, -1]
    graph = Graph.from_raw(raw)
    assert torch.equal(graph.features.gather(HOMOGENEOUS, "half", torch.arange(3)), HALVES[[1, 0, 2]])


def test_scaled_numbers_come_back_as_they_are_gathered() -> None:
    codes, scale = np.array([[127, -2], [0, 3], [1, 1]], np.int8), np.array([0.5, 0.1], np.float32)
    rows = rows_of(codes)
    stream = edges_of(SRC, DST, {"w": codes})
    source = Source(
        num_nodes={NODE: 3},
        edges={HOMOGENEOUS: EdgeStream(read=stream.read, values=stream.values, scales={"w": scale})},
        features={NODE: {"x": RowStream(read=rows.read, shape=rows.shape, dtype=rows.dtype, scale=scale)}},
    )
    raw = to_raw(source)
    for found in (raw.features[NODE]["x"], raw.edge_features[HOMOGENEOUS]["w"]):
        assert found.dtype == np.float32
        assert np.array_equal(found, codes.astype(np.float32) * scale)


def test_nothing_of_a_stream_is_still_of_its_shape() -> None:
    none = np.empty(0, np.int64)
    stream = edges_of(none, none, {"w": np.empty((0, 4), np.float32)})
    raw = to_raw(Source(num_nodes={NODE: 0}, edges={HOMOGENEOUS: stream}))
    assert raw.edge_features[HOMOGENEOUS]["w"].shape == (0, 4)


@pytest.mark.parametrize("shape", [(), (2,), (4, 3), (1, 3)])
def test_values_of_another_length_are_refused(shape: tuple[int, ...]) -> None:
    with refused(GraphError, "`w`", "3 edges", shape):
        of_raw(raw_of({"w": np.zeros(shape)}))
    with refused(GraphError, "`dst`", "3 edges"):
        edges_of(SRC, DST[:2])
