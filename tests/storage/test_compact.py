"""Features stored in fewer bytes: what comes back, and what is refused."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from gnnhet.errors import FormatError, GraphError, SpecError
from gnnhet.storage import Graph
from gnnhet.storage.compact import compacted
from gnnhet.storage.features import Rows


def graph_of(nodes: int) -> Graph:
    """A graph with nothing but nodes and one edge."""
    return Graph.from_coo([0], [0], num_nodes=nodes)


@given(
    arrays.arrays(
        np.float32, st.tuples(st.integers(0, 12), st.integers(1, 5)), elements=st.floats(-(2.0**100), 2.0**100, width=32)
    ),
    st.integers(1, 5),
)
def test_int8_is_off_by_half_a_step_at_most(values: np.ndarray, step: int) -> None:
    def pieces() -> list[Rows]:
        parts = [values[i : i + step] for i in range(0, len(values), step)] or [values]
        return [Rows.of(part, "x") for part in parts]

    coded, scale = compacted(pieces, "int8", "x")
    assert scale is not None
    codes = np.concatenate([rows.array for rows in coded])
    assert codes.dtype == np.int8
    largest = np.abs(values).max(0, initial=0)
    assert (np.abs(codes * scale.astype(np.float64) - values) <= largest / 254 * (1 + 1e-5) + 1e-44).all()


@pytest.mark.parametrize("stored", ["float32", "float16", "bfloat16", "int8"])
def test_a_saved_graph_gives_back_what_was_stored(tmp_path: Path, stored: str) -> None:
    x = torch.randn(50, 12) * torch.logspace(-3, 3, 12)
    graph_of(50).save(tmp_path / "g")
    graph = Graph.open(tmp_path / "g")
    graph.set_feature("node", "x", x.numpy(), dtype=stored)
    for held in (graph, Graph.open(tmp_path / "g")):
        rows = held.features.rows("node", "x")
        assert rows.dtype == getattr(torch, stored)
        ids = torch.tensor([3, 3, 49, 0])
        got = held.features.gather("node", "x", ids)
        if stored == "int8":
            assert got.dtype == torch.float32
            assert rows.scale is not None
            assert bool(((got - x[ids]).abs() <= x.abs().amax(0) / 254 * 1.0001).all())
        else:
            assert torch.equal(got, x[ids].to(rows.dtype))
        half = held.features.gather("node", "x", ids, dtype=torch.bfloat16)
        assert torch.equal(half, got.to(torch.bfloat16))


def test_a_scale_is_kept_by_a_copy_of_the_graph(tmp_path: Path) -> None:
    graph_of(4).save(tmp_path / "a")
    graph = Graph.open(tmp_path / "a")
    graph.set_feature("node", "x", np.arange(8, dtype=np.float32).reshape(4, 2), dtype="int8")
    graph.save(tmp_path / "b")
    Graph.ingest(tmp_path / "a", tmp_path / "c")
    right = graph.features.gather("node", "x", np.arange(4))
    assert right[3, 1] == pytest.approx(7)
    for name in ("b", "c"):
        assert torch.equal(Graph.open(tmp_path / name).features.gather("node", "x", np.arange(4)), right)


def test_a_scale_that_does_not_fit_is_a_damaged_graph(tmp_path: Path) -> None:
    graph_of(4).save(tmp_path / "a")
    Graph.open(tmp_path / "a").set_feature("node", "x", np.ones((4, 2), np.float32), dtype="int8")
    index = tmp_path / "a" / "graph.json"
    text = index.read_text()
    assert '"scale"' in text
    for wrong in ("[1.0]", "[1.0, NaN]"):
        document = json.loads(text)
        next(f for f in document["features"] if "scale" in f)["scale"] = json.loads(wrong)
        index.write_text(json.dumps(document))
        with pytest.raises(FormatError, match="scale"):
            Graph.open(tmp_path / "a")


def test_what_cannot_be_stored_so_is_refused(tmp_path: Path) -> None:
    graph_of(4).save(tmp_path / "a")
    graph = Graph.open(tmp_path / "a")
    with pytest.raises(SpecError, match="one of float32"):
        graph.set_feature("node", "x", np.ones((4, 2), np.float32), dtype="int4")
    with pytest.raises(GraphError, match="floating"):
        graph.set_feature("node", "x", np.ones((4, 2), np.int64), dtype="float16")
    with pytest.raises(GraphError, match="finite"):
        graph.set_feature("node", "x", np.full((4, 2), np.nan, np.float32), dtype="int8")
    with pytest.raises(GraphError, match="in memory"):
        graph_of(4).set_feature("node", "x", np.ones((4, 2), np.float32), dtype="int8")
    assert not Graph.open(tmp_path / "a").features.has("node", "x")


@pytest.mark.parametrize("stored", ["float16", "bfloat16", "int8"])
def test_an_ingest_stores_x_in_another_dtype(tmp_path: Path, stored: str) -> None:
    x = np.random.default_rng(0).standard_normal((60, 3)).astype(np.float32)
    y = np.arange(60, dtype=np.float32)
    graph = graph_of(60)
    graph.features.add("node", "x", x, 60)
    graph.features.add("node", "y", y, 60)
    graph.save(tmp_path / "a")
    made = Graph.ingest(tmp_path / "a", tmp_path / "b", feature_dtype=stored)
    graph = Graph.open(tmp_path / "a")
    graph.set_feature("node", "x", x, dtype=stored)
    assert made.features.rows("node", "x").dtype == getattr(torch, stored)
    every = np.arange(60)
    assert torch.equal(made.features.gather("node", "x", every), graph.features.gather("node", "x", every))
    assert np.array_equal(made.features.array("node", "y"), y)
    with pytest.raises(SpecError, match="stored as one of"):
        Graph.ingest(tmp_path / "a", tmp_path / "c", feature_dtype="int4")
