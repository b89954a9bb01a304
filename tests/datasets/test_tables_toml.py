"""Typed graphs in tables, as a `graph.toml` describes them."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.datasets.refusals import refused

from gnnhet import Graph
from gnnhet.datasets.source import to_raw
from gnnhet.datasets.tables import source
from gnnhet.errors import FormatError, SpecError

pytest.importorskip("duckdb", reason="tables need the extra `tables`")
pa = pytest.importorskip("pyarrow", reason="tables need the extra `tables`")
from pyarrow import parquet  # noqa: E402

WRITES, CITES = ("author", "writes", "paper"), ("paper", "cites", "paper")


def text(path: Path, *lines: str) -> Path:
    path.write_text("\n".join(lines) + "\n")
    return path


def library(folder: Path) -> Path:
    """Papers in a table, authors only in edges, venues counted."""
    text(folder / "papers.csv", "paper_id;field;when;a;b", "p9;bio;2001;1;2", "p1;ai;2002;3;4", "p5;;2003;5;6.5")
    text(folder / "wrote.csv", "who,what", "ann,p1", "bob,p9", "ann,p9")
    parquet.write_table(
        pa.table({"a": ["p1", "p5"], "b": ["p9", "p9"], "how": [[0.5, 1.5], [2.5, 3.5]], "strength": [1, 2]}),
        folder / "c.parquet",
    )
    text(folder / "at.tsv", "0\t1", "1\t0")
    return text(
        folder / "graph.toml",
        'name = "library"',
        "[nodes.paper]",
        'file = "papers.csv"',
        'id = "paper_id"',
        'label = "field"',
        'time = "when"',
        'features = {x = ["b", "a"], first = "a"}',
        "[nodes.author]",
        "[nodes.venue]",
        "count = 3",
        "[[edges]]",
        'file = "wrote.csv"',
        'source = "author"',
        'relation = "writes"',
        'destination = "paper"',
        'source_column = "who"',
        'destination_column = "what"',
        "[[edges]]",
        'file = "c.parquet"',
        'source = "paper"',
        'relation = "cites"',
        'destination = "paper"',
        'weight = "strength"',
        'features = "how"',
        "[[edges]]",
        'file = "at.tsv"',
        'source = "venue"',
        'destination = "venue"',
    )


def test_types_relations_and_columns(tmp_path: Path) -> None:
    found = source(library(tmp_path))
    assert found.name == "library"
    assert found.num_nodes == {"paper": 3, "author": 2, "venue": 3}
    raw = to_raw(found)
    ends = {relation: list(zip(src.tolist(), dst.tolist(), strict=True)) for relation, (src, dst) in raw.edges.items()}
    assert ends == {WRITES: [(0, 1), (1, 0), (0, 0)], CITES: [(1, 0), (2, 0)], ("venue", "to", "venue"): [(0, 1), (1, 0)]}
    papers = raw.features["paper"]
    assert papers["y"].tolist() == [1, 0, -1]
    assert papers["time"].tolist() == [2001, 2002, 2003]
    assert papers["x"].tolist() == [[2, 1], [4, 3], [6.5, 5]]
    assert papers["first"].tolist() == [[1], [3], [5]]
    assert papers["x"].dtype == papers["first"].dtype == np.float32
    assert raw.edge_features[CITES]["weight"].tolist() == [1, 2]
    stream = found.edges[CITES]
    assert stream.values["x"] == np.dtype((np.float32, (2,)))
    assert [piece.values["x"].tolist() for piece in stream.read(1)] == [[[0.5, 1.5]], [[2.5, 3.5]]]
    ids = {node_type: parquet.read_table(path).column("id").to_pylist() for node_type, path in found.ids.items()}
    assert ids == {"paper": ["p9", "p1", "p5"], "author": ["ann", "bob"]}


def test_ingested_with_wide_features_of_edges(tmp_path: Path) -> None:
    raw = tmp_path / "raw"
    raw.mkdir()
    library(raw)
    graph = Graph.ingest(f"tables:{raw}", tmp_path / "graph")
    assert graph.num_edges == {WRITES: 3, CITES: 2, ("venue", "to", "venue"): 2}
    assert graph.features.rows(CITES, "x").array.tolist() == [[0.5, 1.5], [2.5, 3.5]]
    assert graph.name == "library"


@pytest.mark.parametrize("most", [1, 3, 1000])
def test_a_column_of_relations(tmp_path: Path, most: int) -> None:
    """Head, relation and tail in one table without names: each relation's edges in the order of the rows."""
    rng = np.random.default_rng(0)
    triples = [(f"e{a}", f"/r/{r}", f"e{b}") for a, r, b in rng.integers(0, (7, 3, 7), (200, 3)).tolist()]
    (tmp_path / "triples").mkdir()
    for part in range(2):
        rows = triples[part * 90 : 90 + part * 110]
        text(tmp_path / "triples" / f"{part}.tsv", *("\t".join(triple) for triple in rows))
    file = text(
        tmp_path / "graph.toml",
        "[[edges]]",
        'file = "triples"',
        "header = false",
        'source = "entity"',
        'destination = "entity"',
        'source_column = "0"',
        'relation_column = "1"',
        'destination_column = "2"',
    )
    found = source(file)
    assert found.num_nodes == {"entity": 7}
    assert list(found.edges) == [("entity", f"/r/{number}", "entity") for number in range(3)]
    for relation, stream in found.edges.items():
        pieces = list(stream.read(most))
        ends = [(int(a), int(b)) for piece in pieces for a, b in zip(piece.src, piece.dst, strict=True)]
        assert ends == [(int(a[1]), int(b[1])) for a, r, b in triples if r == relation[1]]
        assert stream.count == len(ends)
        assert max(piece.src.size for piece in pieces) <= most


def test_ranges_of_relations_over_row_groups(tmp_path: Path) -> None:
    """A relation begins and ends within row groups of the file it lies in."""
    rng = np.random.default_rng(1)
    src, dst, kind = rng.integers(0, 1000, 400_000), rng.integers(0, 1000, 400_000), rng.integers(0, 3, 400_000)
    parquet.write_table(pa.table({"src": src, "dst": dst, "kind": kind, "w": src / 2}), tmp_path / "e.parquet")
    lines = ['relation_column = "kind"', 'source = "n"', 'destination = "n"']
    text(tmp_path / "graph.toml", "[nodes.n]", "count = 1000", "[[edges]]", 'file = "e.parquet"', *lines)
    raw = to_raw(source(tmp_path))
    for number in range(3):
        got, weight = raw.edges["n", str(number), "n"], raw.edge_features["n", str(number), "n"]["weight"]
        np.testing.assert_array_equal(got[0], src[kind == number])
        np.testing.assert_array_equal(got[1], dst[kind == number])
        np.testing.assert_array_equal(weight, src[kind == number] / 2)


def test_delimiters_that_are_said(tmp_path: Path) -> None:
    text(tmp_path / "e.txt", "a,b~c", "d~a,b")
    lines = ['delimiter = "~"', "header = false"]
    found = source(text(tmp_path / "graph.toml", "[[edges]]", 'file = "e.txt"', *lines))
    assert parquet.read_table(found.ids["node"]).column("id").to_pylist() == ["a,b", "c", "d"]


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (['nam = "x"'], ("'nam'", "did you mean name?")),
        (["name = 1"], ("a string as name", "1")),
        (["[nodes.a]", 'file = "no.csv"'], ("[nodes.a]", "no.csv", "not")),
        (["[nodes.a]", 'file = "e.csv"', "count = 3"], ("file or count",)),
        (["[nodes.a]", 'label = "y"'], ("file or count", "label")),
        (["[nodes.a]", "count = -1"], ("0 or more", "-1")),
        (["[nodes.a]", "count = true"], ("a whole number as count", "True")),
        (["[nodes.a]", "count = 2", 'label = "y"'], ("count alone",)),
        (["[nodes]", "a = 3"], ("[nodes.a]", "a table", "3")),
        (['edges = "e.csv"'], ("[[edges]]", "e.csv")),
        (["[[edges]]"], ("number 1", "file")),
        (["[[edges]]", 'file = "e.csv"', 'sorce = "a"'], ("'sorce'", "did you mean source?")),
        (["[[edges]]", 'file = "e.csv"', 'relation = "a"', 'relation_column = "b"'], ("leave one out",)),
        (["[nodes.paper]", "[nodes.b]", "[[edges]]", 'file = "e.csv"', 'source = "papr"'], ("'papr'", "mean paper?")),
        (["[[edges]]", 'file = "e.csv"', "features = 3"], ("features", "3")),
        (["[[edges]]", 'file = "e.csv"', 'delimiter = "ab"'], ("one character", "'ab'")),
        (["[[edges]]", 'file = "e.csv"', 'weight = "wieght"'], ("'wieght'", "did you mean weight?")),
        (["[[edges]]", 'file = "e.csv"', 'source_column = "a"'], ("src and dst",)),
        (["[[edges]]", 'file = "e.csv"', 'features = {weight = "weight"}'], ("otherwise", "weight")),
        (["[[edges]]", 'file = "e.csv"', "[[edges]]", 'file = "e.csv"'], ("one table", "two")),
        ([], ("[[edges]]",)),
        (["[["], ("TOML",)),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, lines: list[str], words: tuple[str, ...]) -> None:
    text(tmp_path / "e.csv", "a,b,weight", "0,1,2", "1,0,1")
    file = text(tmp_path / "graph.toml", *lines)
    with refused(FormatError, *words):
        source(file)


def test_counts_are_said_in_the_file(tmp_path: Path) -> None:
    with refused(SpecError, "num_nodes", "[nodes.TYPE]"):
        source(library(tmp_path), num_nodes=3)


@pytest.mark.parametrize(
    ("column", "bad", "words"),
    [
        ("rel", None, ("row 2", "column rel", "name its relation", "None")),
        ("src", 9, ("row 2", "column src", "0 to 2", "'9'")),
        ("x", [1.0], ("row 2", "column x", "2 numbers", "[1.0]")),
        ("x", None, ("row 2", "column x", "2 numbers", "None")),
    ],
)
def test_edges_that_break_a_rule_are_named_or_skipped(tmp_path: Path, column: str, bad: object, words: tuple[str, ...]) -> None:
    columns: dict[str, list[Any]] = {
        "src": [0, 1, 2],
        "dst": [1, 2, 0],
        "rel": ["b", "a", "a"],
        "x": [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]],
    }
    columns[column][1] = bad
    parquet.write_table(pa.table(columns), tmp_path / "e.parquet")
    lines = ['relation_column = "rel"', 'features = "x"']
    text(tmp_path / "graph.toml", "[nodes.n]", "count = 3", "[[edges]]", 'file = "e.parquet"', *lines)
    with refused(FormatError, "e.parquet", *words):
        source(tmp_path)
    found = source(tmp_path, on_error="skip")
    raw = to_raw(found)
    assert {relation[1]: ends[0].tolist() for relation, ends in raw.edges.items()} == {"a": [2], "b": [0]}
    assert any("row 2" in line for line in found.report)
