"""Nodes found by the ids that a person wrote, and back."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.datasets.refusals import refused

from gnnhet.errors import FormatError, GraphError
from gnnhet.storage import Graph

pytest.importorskip("duckdb", reason="tables need the extra `tables`")


def ingested(folder: Path, ids: list[str]) -> Graph:
    """A ring over the ids."""
    folder.mkdir()
    lines = ["src,dst", *(f"{a},{b}" for a, b in zip(ids, ids[1:] + ids[:1], strict=True))]
    (folder / "edges.csv").write_text("\n".join(lines) + "\n")
    return Graph.ingest(f"tables:{folder}", folder / "graph")


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ids=st.lists(st.from_regex(r"[a-z0-9/ü]{1,8}", fullmatch=True), min_size=1, max_size=20, unique=True))
def test_ids_lead_to_nodes_and_back(ids: list[str], tmp_path_factory: pytest.TempPathFactory) -> None:
    graph = ingested(tmp_path_factory.mktemp("ids") / "raw", ids)
    nodes = graph.nodes_of("node", ids)
    assert sorted(nodes.tolist()) == list(range(len(ids)))
    assert [str(one) for one in graph.ids_of("node", nodes.tolist())] == ids
    indptr, indices = graph.csc(("node", "to", "node"))
    for at, node in enumerate(nodes):
        assert indices[indptr[node] : indptr[node + 1]].tolist() == [nodes[at - 1]]


def test_integers_are_found_as_such_or_as_written(tmp_path: Path) -> None:
    graph = ingested(tmp_path / "raw", ["700", "-5", "9007199254740993"])
    assert graph.nodes_of("node", [700, "-5", 9007199254740993, "700"]).tolist() == [1, 0, 2, 1]
    assert graph.ids_of("node", [2, 0, 2]) == [9007199254740993, -5, 9007199254740993]
    for wrong in ("0700", 9007199254740992, "x", 1 << 70, "7" * 30):
        with refused(GraphError, "node", "int64", repr(wrong)):
            graph.nodes_of("node", [700, wrong])
    assert graph.nodes_of("node", []).dtype == np.int64
    with refused(GraphError, "0 to 2", "3"):
        graph.ids_of("node", [3])
    with refused(GraphError, "node", "'paper'"):
        graph.nodes_of("paper", [1])


def test_kept_by_all_ways_to_write_a_graph(tmp_path: Path) -> None:
    graph = ingested(tmp_path / "raw", ["b", "a", "c"])
    graph.save(tmp_path / "saved")
    Graph.ingest(tmp_path / "raw" / "graph", tmp_path / "again", undirected=True)
    graph.set_feature("node", "x", np.zeros((3, 2), np.float32))
    for found in (graph, graph.preload(), Graph.open(tmp_path / "saved"), Graph.open(tmp_path / "again")):
        assert found.nodes_of("node", ["c", "a"]).tolist() == [2, 0]
        assert found.ids_of("node", [1]) == ["b"]


def test_without_other_ids_nodes_go_by_their_numbers() -> None:
    graph = Graph.from_coo([0], [1], 2)
    assert graph.nodes_of("node", ["1", 0]).tolist() == [1, 0]
    assert graph.ids_of("node", [1]) == [1]
    with refused(GraphError, "0 to 1", "'2'"):
        graph.nodes_of("node", ["2"])


def test_a_damaged_table_is_named(tmp_path: Path) -> None:
    graph = ingested(tmp_path / "raw", ["b", "a", "c"])
    (table,) = (tmp_path / "raw" / "graph" / "arrays").glob("*.parquet")
    table.write_bytes(table.read_bytes()[:-20])
    with refused(FormatError, table, "ingest again"):
        graph.nodes_of("node", ["a"])
