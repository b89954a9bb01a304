"""Integer ids with gaps: mapped by arrays as by joins."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.datasets.refusals import refused

from gnnhet import Graph
from gnnhet.datasets.raw import HOMOGENEOUS
from gnnhet.datasets.source import to_raw
from gnnhet.datasets.tables import source
from gnnhet.errors import FormatError

pytest.importorskip("duckdb", reason="tables need the extra `tables`")
pa = pytest.importorskip("pyarrow", reason="tables need the extra `tables`")
from pyarrow import parquet  # noqa: E402

from gnnhet.datasets.tables import database  # noqa: E402

LEAST, MOST = -(1 << 63), (1 << 63) - 1
ids = st.integers(-40, 40) | st.sampled_from([LEAST, LEAST + 1, MOST - 1, MOST])


def ends(path: Path) -> list[tuple[int, int]]:
    found = source(path)
    src, dst = to_raw(found).edges[HOMOGENEOUS]
    return list(zip(src.tolist(), dst.tolist(), strict=True))


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(pairs=st.lists(st.tuples(ids, ids), min_size=1, max_size=30), in_table=st.booleans())
@example(pairs=[(LEAST, MOST), (5, 5)], in_table=True)
def test_arrays_map_as_joins_do(
    pairs: list[tuple[int, int]], in_table: bool, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path_factory.mktemp("ids")
    src, dst = ([pair[side] for pair in pairs] for side in (0, 1))
    parquet.write_table(pa.table({"src": pa.array(src, pa.int64()), "dst": pa.array(dst, pa.int64())}), folder / "edges.parquet")
    order = sorted({*src, *dst})
    if in_table:
        order = order[::-1]
        parquet.write_table(pa.table({"id": pa.array(order, pa.int64())}), folder / "nodes.parquet")
    expected = [(order.index(a), order.index(b)) for a, b in pairs]
    for share in (0.25, 0.0):  # of memory for arrays; none leaves joins
        monkeypatch.setattr(database, "_SPAN_SHARE", share)
        found = source(folder)
        assert ends(folder) == expected
        if found.ids:
            assert parquet.read_table(found.ids["node"]).to_pydict() == {"id": order, "node": list(range(len(order)))}
        if share and 2 < max(order) - min(order) < 1000 and found.ids:
            assert found.edges[HOMOGENEOUS].held_bytes == 4 * (max(order) - min(order) + 1)


@pytest.mark.parametrize("bad", [6, -1, LEAST, MOST, 1003, None])
def test_ids_of_no_node_are_named(tmp_path: Path, bad: int | None) -> None:
    parquet.write_table(pa.table({"id": [1002, 5, 7]}), tmp_path / "nodes.parquet")
    (tmp_path / "edges").mkdir()
    for part, dst in enumerate(([5, 1002], [7, bad])):
        parquet.write_table(pa.table({"src": [7, 7], "dst": pa.array(dst, pa.int64())}), tmp_path / "edges" / f"{part}.parquet")
    found = source(tmp_path).edges[HOMOGENEOUS]
    with refused(FormatError, "1.parquet", "row 2", "column dst", "the id of a node", bad):
        list(found.read(10))
    kept = to_raw(source(tmp_path, on_error="skip")).edges[HOMOGENEOUS]
    assert [side.tolist() for side in kept] == [[2, 2, 2], [1, 0, 2]]


@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int32, np.uint32, np.uint64])
def test_ids_of_any_width(tmp_path: Path, kind: type[np.integer]) -> None:
    rng = np.random.default_rng(0)
    pairs = rng.choice(np.array([3, 100, 7, 55, 120]), (1000, 2)).astype(kind)
    parquet.write_table(pa.table({"src": pairs[:, 0], "dst": pairs[:, 1]}), tmp_path / "e.parquet")
    order = [3, 7, 55, 100, 120]
    assert ends(tmp_path / "e.parquet") == [(order.index(a), order.index(b)) for a, b in pairs.tolist()]


def test_ingested_in_many_pieces(tmp_path: Path) -> None:
    pairs = np.random.default_rng(0).integers(0, 5000, (300_000, 2)) * 3 + 11
    parquet.write_table(pa.table({"src": pairs[:, 0], "dst": pairs[:, 1]}), tmp_path / "e.parquet", row_group_size=7000)
    graph = Graph.ingest(f"tables:{tmp_path / 'e.parquet'}", tmp_path / "g")
    nodes = np.unique(pairs)
    src, dst = np.searchsorted(nodes, pairs.T)
    twin = Graph.from_coo(src, dst, nodes.size)
    for got, wanted in zip(graph.csc(HOMOGENEOUS), twin.csc(HOMOGENEOUS), strict=True):
        np.testing.assert_array_equal(got, wanted)
    assert graph.nodes_of("node", nodes[:9].tolist()).tolist() == list(range(9))
