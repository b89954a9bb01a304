"""Tables of edges and nodes in Parquet and text."""

import gzip
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.datasets.refusals import refused

from gnnhet import Graph
from gnnhet.datasets.raw import HOMOGENEOUS
from gnnhet.datasets.source import to_raw
from gnnhet.datasets.tables import source
from gnnhet.errors import FormatError, MissingDependencyError, SpecError

pytest.importorskip("duckdb", reason="tables need the extra `tables`")
pa = pytest.importorskip("pyarrow", reason="tables need the extra `tables`")
from pyarrow import parquet  # noqa: E402


def ends(path: Path, **options: object) -> list[tuple[int, int]]:
    src, dst = to_raw(source(path, **options)).edges[HOMOGENEOUS]  # type: ignore[arg-type]
    return list(zip(src.tolist(), dst.tolist(), strict=True))


def ids_of(path: Path) -> list[object]:
    """Of the mapping, by their nodes."""
    found = parquet.read_table(source(path).ids["node"])
    assert found.column("node").to_pylist() == list(range(found.num_rows))
    return list(found.column("id").to_pylist())


def text(path: Path, *lines: str) -> Path:
    path.write_text("\n".join(lines) + "\n")
    return path


def test_strings_are_mapped_in_their_order(tmp_path: Path) -> None:
    file = text(tmp_path / "cites.csv", "from,to,w", "b,a,0.5", "c,b,1", "a,b,2.25")
    found = source(file)
    assert found.num_nodes == {"node": 3}
    raw = to_raw(found)
    assert ends(file) == [(1, 0), (2, 1), (0, 1)]
    np.testing.assert_array_equal(raw.edge_features[HOMOGENEOUS]["weight"], np.array([0.5, 1, 2.25], np.float32))
    made = parquet.read_table(found.ids["node"])
    assert made.to_pydict() == {"id": ["a", "b", "c"], "node": [0, 1, 2]}


def test_integers_are_mapped_by_number_and_dense_ones_stay(tmp_path: Path) -> None:
    file = text(tmp_path / "e.csv", "src,dst", "100,9", "9,-3", "100,100")
    assert ends(file) == [(2, 1), (1, 0), (2, 2)]
    assert ids_of(file) == [-3, 9, 100]
    dense = text(tmp_path / "dense.csv", "src,dst", "2,0", "1,2")
    assert ends(dense) == [(2, 0), (1, 2)]
    assert source(dense).ids == {}


def test_a_list_of_pairs_without_header_and_with_comments(tmp_path: Path) -> None:
    file = text(tmp_path / "snap.txt", "# Directed graph", "# FromNodeId\tToNodeId", "0\t1", "1\t2", "2\t0")
    assert ends(file) == [(0, 1), (1, 2), (2, 0)]
    (tmp_path / "e.tsv.gz").write_bytes(gzip.compress(b"src\tdst\n5\t7\n7\t5\n"))
    assert ends(tmp_path / "e.tsv.gz") == [(0, 1), (1, 0)]


def test_nodes_give_order_features_labels_and_splits(tmp_path: Path) -> None:
    text(tmp_path / "edges.csv", "src,dst", "p9,p1", "p1,p5")
    text(tmp_path / "nodes.csv", "id,label,split,x_0,x_1", "p9,bio,train,1,2", "p1,ai,valid,3,4", "p5,,,5,6.5")
    found = source(tmp_path)
    assert found.name == tmp_path.name
    raw = to_raw(found)
    assert ends(tmp_path) == [(0, 1), (1, 2)]
    assert raw.features["node"]["y"].tolist() == [1, 0, -1]
    assert raw.features["node"]["split"].tolist() == [0, 1, -1]
    assert raw.features["node"]["split"].dtype == np.int8
    np.testing.assert_array_equal(raw.features["node"]["x"], np.array([[1, 2], [3, 4], [5, 6.5]], np.float32))
    assert ids_of(tmp_path) == ["p9", "p1", "p5"]


def test_parquet_in_parts_with_lists_and_dates(tmp_path: Path) -> None:
    (tmp_path / "edges").mkdir()
    when = np.array(["1970-01-01T00:00:01", "2020-01-01T00:00:00"], "datetime64[us]")
    for part in range(2):
        table = pa.table({"src": [part, 1], "dst": [1, part], "time": pa.array(when)})
        parquet.write_table(table, tmp_path / "edges" / f"part-{part}.parquet")
    parquet.write_table(pa.table({"id": [1, 0], "x": [[1.0, 2.0], [3.0, 4.0]]}), tmp_path / "nodes.parquet")
    raw = to_raw(source(tmp_path))
    assert ends(tmp_path) == [(1, 0), (0, 1), (0, 0), (0, 0)]
    assert raw.edge_features[HOMOGENEOUS]["time"].tolist() == when.astype(np.int64).tolist() * 2
    np.testing.assert_array_equal(raw.features["node"]["x"], [[1, 2], [3, 4]])


@given(
    pairs=st.lists(st.tuples(st.integers(-(2**62), 2**62), st.integers(-5, 5)), min_size=1, max_size=30), most=st.integers(1, 9)
)
@settings(deadline=None, max_examples=25)
def test_any_integers(tmp_path_factory: pytest.TempPathFactory, pairs: list[tuple[int, int]], most: int) -> None:
    folder = tmp_path_factory.mktemp("pairs")
    src, dst = (list(end) for end in zip(*pairs, strict=True))
    parquet.write_table(pa.table({"src": src, "dst": dst}), folder / "edges.parquet")
    order = sorted({*src, *dst})
    stream = source(folder).edges[HOMOGENEOUS]
    for _ in range(2):
        pieces = list(stream.read(most))
        got = [edge for piece in pieces for edge in zip(piece.src.tolist(), piece.dst.tolist(), strict=True)]
        assert got == [(order.index(a), order.index(b)) for a, b in pairs]


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_edges_of_no_node_are_named_or_skipped(tmp_path: Path, kind: str) -> None:
    text(tmp_path / "nodes.csv", "id", "a", "b")
    if kind == "csv":
        text(tmp_path / "edges.csv", "src,dst", "a,b", "a,zz", "b,a")
    else:
        parquet.write_table(pa.table({"src": ["a", "a", "b"], "dst": ["b", "zz", "a"]}), tmp_path / "edges.parquet")
    with refused(FormatError, f"edges.{kind}", "row 2", "column dst", "'zz'"):
        source(tmp_path)
    found = source(tmp_path, on_error="skip")
    assert ends(tmp_path, on_error="skip") == [(0, 1), (1, 0)]
    assert len(found.report) == 2
    assert "row 2" in found.report[0]
    assert "rows left out: 1" in found.report[1]


def test_a_weight_that_is_none_is_named_or_skipped(tmp_path: Path) -> None:
    file = text(tmp_path / "e.csv", "src,dst,weight", "0,1,0.5", "1,0,heavy", "1,1,2")
    with refused(FormatError, "row 2", "column weight", "'heavy'"):
        source(file)
    assert ends(file, on_error="skip") == [(0, 1), (1, 1)]


def test_a_line_of_other_length_is_named_or_skipped(tmp_path: Path) -> None:
    lines = [f"{n},{n + 1}" for n in range(50_000)]
    lines[40_000] = "40000"
    file = text(tmp_path / "e.csv", "src,dst", *lines)
    with refused(FormatError, "e.csv", "40002", "Found: 1: mend"):
        source(file)
    found = source(file, on_error="skip")
    assert found.edges[HOMOGENEOUS].count == 49_999
    assert "line 40,002" in found.report[0]
    assert "left out: 1" in found.report[1]


@pytest.mark.parametrize(
    "ids",
    [
        ["007", "7", "07"],
        ["1.10", "1.1", "1"],
        ["18446744073709551617", "18446744073709551616", "9"],
        ["C#", "C", "C%"],
        ["2020-01-01", "2020-1-1", "x"],
        ["1_0", "10", "1e1"],
    ],
)
def test_ids_that_differ_as_strings_stay_apart(tmp_path: Path, ids: list[str]) -> None:
    file = text(tmp_path / "e.csv", "src,dst", f"{ids[0]},{ids[1]}", f"{ids[2]},{ids[0]}")
    order = sorted(ids)
    assert ids_of(file) == order
    assert ends(file) == [(order.index(ids[0]), order.index(ids[1])), (order.index(ids[2]), order.index(ids[0]))]


def test_a_first_line_that_may_be_an_edge_is_warned_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert ends(text(tmp_path / "plain.csv", "src,dst", "a,b")) == [(0, 1)]
    assert ends(text(tmp_path / "numbers.csv", "0,1")) == [(0, 1)]
    assert not caplog.records
    assert ends(text(tmp_path / "pairs.csv", "ann,bob", "bob,cid")) == [(0, 1)]
    assert "pairs.csv is taken for names of columns, ann and bob" in caplog.text


@pytest.mark.parametrize("delimiter", [",", "\t", ";", "|", " "])
def test_delimiters(tmp_path: Path, delimiter: str) -> None:
    assert ends(text(tmp_path / "e.txt", f"0{delimiter}1", f"1{delimiter}2")) == [(0, 1), (1, 2)]
    assert ends(text(tmp_path / "named.txt", f"dst{delimiter}src", f"0{delimiter}1")) == [(1, 0)]


@pytest.mark.parametrize("step", [1, 3])  # dense, and to be mapped
def test_many_rows_in_parts_keep_their_order(tmp_path: Path, step: int) -> None:
    (tmp_path / "edges").mkdir()
    ids = np.random.default_rng(0).permutation(400_000)
    parts = np.split(ids.reshape(-1, 2), [150_000])
    for number, part in enumerate(parts):
        np.savetxt(tmp_path / "edges" / f"{number}.csv", part * step, "%d", ",", header="src,dst", comments="")
    np.testing.assert_array_equal(np.array(ends(tmp_path)), ids.reshape(-1, 2))
    if step == 1:
        np.testing.assert_array_equal(np.array(ends(tmp_path, num_nodes=400_000)), ids.reshape(-1, 2))


def test_times_keep_every_digit(tmp_path: Path) -> None:
    def times(file: Path) -> tuple[str, list[float]]:
        found = to_raw(source(file)).edge_features[HOMOGENEOUS]["time"]
        return str(found.dtype), found.tolist()

    whole = text(tmp_path / "whole.csv", "src,dst,t", "0,1,1700000001", "1,0,1700000002")
    assert times(whole) == ("int64", [1700000001, 1700000002])
    parts = text(tmp_path / "parts.csv", "src,dst,t", "0,1,1700000001.25", "1,0,1")
    assert times(parts) == ("float64", [1700000001.25, 1])
    dates = text(tmp_path / "dates.csv", "src,dst,t", "0,1,1970-01-01 00:00:01", "1,0,1970-01-02")
    assert times(dates) == ("int64", [1_000_000, 86_400_000_000])
    zoned = tmp_path / "zoned.parquet"
    when = pa.array([1_000_000, 2], pa.timestamp("us", tz="Asia/Tokyo"))
    parquet.write_table(pa.table({"src": [0, 1], "dst": [1, 0], "t": when}), zoned)
    assert times(zoned) == ("int64", [1_000_000, 2])
    mixed = text(tmp_path / "mixed.csv", "src,dst,t", "0,1,5", "1,0,5.5")
    with refused(FormatError, "row 2", "column t", "whole number", "5.5"):
        source(mixed)


def test_dense_parquet_is_read_in_place_and_held_to_its_count(tmp_path: Path) -> None:
    edges, work = tmp_path / "edges", tmp_path / "work"
    edges.mkdir()
    for part, dst in enumerate(([1, 2], [0, 9])):
        table = pa.table({"src": np.array([0, 1], np.uint64), "dst": dst, "w": [1, 2], "t": [1.5, 2.5]})
        parquet.write_table(table, edges / f"{part}.parquet")
    stream = source(tmp_path, num_nodes=10, work=work).edges[HOMOGENEOUS]
    assert [path.name for path in work.rglob("*.parquet")] == []
    pieces = list(stream.read(1))
    assert stream.count == len(pieces) == 4
    assert [int(piece.dst[0]) for piece in pieces] == [1, 2, 0, 9]
    assert [float(piece.values["weight"][0]) for piece in pieces] == [1, 2, 1, 2]
    assert {name: str(dtype) for name, dtype in stream.values.items()} == {"weight": "float32", "time": "float64"}
    with refused(FormatError, "1.parquet", "row 2", "column dst", "9"):
        list(source(tmp_path, num_nodes=9).edges[HOMOGENEOUS].read(100))
    assert ends(tmp_path, num_nodes=9, on_error="skip") == [(0, 1), (1, 2), (0, 0)]
    parquet.write_table(pa.table({"src": [0, None], "dst": [0, 0]}), tmp_path / "null.parquet")
    with refused(FormatError, "null.parquet", "row 2", "column src", "None"):
        list(source(tmp_path / "null.parquet", num_nodes=2).edges[HOMOGENEOUS].read(100))


def test_labels_with_gaps_and_features_in_text(tmp_path: Path) -> None:
    text(tmp_path / "edges.csv", "src,dst", "0,1")
    parquet.write_table(pa.table({"id": [0, 1], "y": [3.0, float("nan")], "x": [0.5, 2.0]}), tmp_path / "nodes.parquet")
    raw = to_raw(source(tmp_path))
    assert raw.features["node"]["y"].tolist() == [3, -1]
    assert raw.features["node"]["x"].tolist() == [[0.5], [2]]
    (tmp_path / "nodes.parquet").unlink()
    text(tmp_path / "nodes.csv", "id,feat_1,feat_0,label", "0,1,2,5", "1,3,oops,")
    with refused(FormatError, "nodes.csv", "row 2", "column x", "numbers"):
        source(tmp_path)
    assert to_raw(source(tmp_path, on_error="skip", num_nodes=None)).features["node"]["x"].tolist() == [[2, 1]]


def test_parts_of_two_kinds_and_no_text_are_refused(tmp_path: Path) -> None:
    (tmp_path / "edges").mkdir()
    text(tmp_path / "edges" / "a.csv", "src,dst", "0,1")
    parquet.write_table(pa.table({"src": [0], "dst": [1]}), tmp_path / "edges" / "b.parquet")
    with refused(FormatError, "both"):
        source(tmp_path)
    (tmp_path / "empty.csv").touch()
    with refused(FormatError, "empty.csv", "none"):
        source(tmp_path / "empty.csv")
    (tmp_path / "bytes.csv").write_bytes(b"\xff\xfe\x00a,b\n")
    with refused(FormatError, "bytes.csv", "UTF-8"):
        source(tmp_path / "bytes.csv")
    with refused(FormatError, "differently"):
        source(text(tmp_path / "twice.csv", "src,dst,dst", "0,1,2"))


def test_what_tables_need_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with refused(MissingDependencyError, "duckdb", "gnnhet[tables]"):
        source(text(tmp_path / "e.csv", "src,dst", "0,1"))


def test_nodes_named_twice_are_refused_or_the_first_is_kept(tmp_path: Path) -> None:
    text(tmp_path / "edges.csv", "src,dst", "7,8")
    text(tmp_path / "nodes.csv", "id,x_0", "8,1", "7,2", "8,3")
    with refused(FormatError, "nodes.csv", "row 3", "column id", "8"):
        source(tmp_path)
    found = source(tmp_path, on_error="skip")
    assert to_raw(found).features["node"]["x"].tolist() == [[1], [2]]
    assert ends(tmp_path, on_error="skip") == [(1, 0)]


def test_counts_hold_dense_ids(tmp_path: Path) -> None:
    file = text(tmp_path / "e.csv", "src,dst", "0,1", "1,5")
    assert source(file, num_nodes=9).num_nodes == {"node": 9}
    assert source(file, num_nodes=9).ids == {}
    with refused(FormatError, "row 2", "column dst", "5"):
        source(file, num_nodes=5)
    text(tmp_path / "words.csv", "src,dst", "a,b")
    with refused(FormatError, "row 1", "column src", "0 to 4", "'a'"):
        source(tmp_path / "words.csv", num_nodes=5)


def test_what_is_no_table_is_refused(tmp_path: Path) -> None:
    with refused(FormatError, "src.npy", tmp_path):
        source(tmp_path)
    damaged = tmp_path / "e.parquet"
    damaged.write_bytes(b"PAR1 and no more")
    with refused(FormatError, "e.parquet", "readable"):
        source(damaged)
    with refused(FormatError, "src and dst", "only"):
        source(text(tmp_path / "one.csv", "only", "1"))
    text(tmp_path / "edges.csv", "src,dst", "0,1")
    text(tmp_path / "nodes.csv", "id", "0", "1")
    with refused(SpecError, "num_nodes", "2", "3"):
        source(tmp_path, num_nodes=3)
    text(tmp_path / "edges.tsv", "src\tdst")
    with refused(FormatError, "one table of edges"):
        source(tmp_path)


@pytest.mark.parametrize(
    ("column", "bad", "value"),
    [
        ("x", [[1.0], [1.0, 2.0], [3.0]], "1.0, 2.0"),
        ("x", [[1.0], None, [3.0]], "None"),
        ("split", ["train", "trian", "test"], ""),
    ],
)
def test_a_node_that_breaks_a_rule_is_named_or_skipped(tmp_path: Path, column: str, bad: list[object], value: str) -> None:
    text(tmp_path / "edges.csv", "src,dst", "0,2", "2,0")
    parquet.write_table(pa.table({"id": [0, 1, 2], column: bad}), tmp_path / "nodes.parquet")
    with refused(FormatError, "nodes.parquet", "row 2", f"column {column}", value):
        source(tmp_path)
    found = source(tmp_path, on_error="skip")
    assert found.num_nodes == {"node": 2}
    assert to_raw(found).features["node"][column].shape[0] == 2
    assert ends(tmp_path, on_error="skip") == [(0, 1), (1, 0)]
    assert ids_of_skipped(tmp_path) == [0, 2]


def ids_of_skipped(path: Path) -> list[object]:
    return list(parquet.read_table(source(path, on_error="skip").ids["node"]).column("id").to_pylist())


def test_ingest_keeps_the_ids(tmp_path: Path) -> None:
    raw = tmp_path / "raw"
    raw.mkdir()
    text(raw / "edges.csv", "src,dst", "b,a", "c,b")
    graph = Graph.ingest(f"tables:{raw}", tmp_path / "graph")
    assert graph.num_edges == {HOMOGENEOUS: 2}
    kept = list((tmp_path / "graph").rglob("*.parquet"))
    assert len(kept) == 1
    assert parquet.read_table(kept[0]).column("id").to_pylist() == ["a", "b", "c"]
