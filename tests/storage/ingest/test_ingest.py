"""Graphs built out of core are those that are built in memory, whatever the chunks, buckets and threads."""

import itertools
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests import naive

from gnnhet.datasets import catalogue
from gnnhet.datasets.raw import HOMOGENEOUS, NODE
from gnnhet.datasets.source import Edges, EdgeStream, Source, edges_of, rows_of
from gnnhet.errors import FormatError, GnnhetError, GraphError, SpecError
from gnnhet.storage import Graph, load_dataset, verify
from gnnhet.storage.ingest import options as amounts
from gnnhet.storage.ingest import relation as passes

Files = set[str]


def files(folder: Path) -> Files:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()} if folder.exists() else set()


def source_of(edges: list[tuple[int, int, float]], num_nodes: int, name: str = "weight", piece: int = 7) -> Source:
    src, dst = (np.array([edge[k] for edge in edges], np.int64) for k in (0, 1))
    stream = edges_of(src, dst, {name: np.array([edge[2] for edge in edges], np.float32)})

    def read(most: int) -> Iterator[Edges]:
        return stream.read(min(most, piece))

    return Source(num_nodes={NODE: num_nodes}, edges={HOMOGENEOUS: EdgeStream(read=read, count=len(edges), values=stream.values)})


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Chunks, buckets and limits so small that little graphs go all ways."""
    monkeypatch.setattr(passes, "_MOST_CHUNK", 16)
    monkeypatch.setattr(passes, "_LEAST_CHUNK", 16)
    monkeypatch.setattr(passes, "_LEAST_EDGES", 8)
    monkeypatch.setattr(passes, "_MOST_PLACED", 12)
    return monkeypatch


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_rows_are_those_of_the_plain_twin(data: st.DataObject, small: pytest.MonkeyPatch, tmp_path_factory: Any) -> None:
    count = data.draw(st.sampled_from([1, 2, 5, 40, 3000]))
    node = st.integers(0, count - 1) | st.just(0)
    edges = data.draw(st.lists(st.tuples(node, node, st.integers(-3, 3).map(float)), max_size=120))
    distinct, self_loops, undirected = (data.draw(st.booleans()) for _ in range(3))
    sort = data.draw(st.sampled_from([None, "source", "time"]))
    chunk, placed = data.draw(st.sampled_from([(4, 3), (16, 12), (1000, 1000)]))
    small.setattr(passes, "_MOST_CHUNK", chunk)
    small.setattr(passes, "_MOST_PLACED", placed)
    dest = tmp_path_factory.mktemp("g")
    threads = data.draw(st.sampled_from([1, 2]))

    def make() -> Graph:
        return Graph.ingest(
            source_of(edges, count, "time"),
            dest,
            drop_duplicates=distinct,
            self_loops=self_loops,
            undirected=undirected,
            sort_rows=sort,
            keep_edge_ids=True,
            threads=threads,
        )

    rows = [edge[1] for edge in edges if self_loops or edge[0] != edge[1]]
    rows += [edge[0] for edge in edges if undirected and (self_loops or edge[0] != edge[1])]
    largest = max((rows.count(v) for v in set(rows)), default=0)
    if (distinct or undirected) and sort == "time" and largest > placed:
        with pytest.raises(GraphError, match="two ingests"):
            make()
        assert files(dest)  # the first pass is finished
        return
    graph = make()
    indptr, sources, values, places = naive.ingested(
        edges, count, distinct=distinct, self_loops=self_loops, undirected=undirected, sort=sort
    )
    part = graph.part(HOMOGENEOUS)
    assert part.indptr.tolist() == indptr
    assert part.indices.tolist() == sources
    assert graph.features.array(HOMOGENEOUS, "time").tolist() == values
    assert part.edge_ids is not None
    assert part.edge_ids.tolist() == places
    assert verify(dest).problems == ()
    assert files(dest) == {"graph.json"} | {str(p.relative_to(dest)) for p in (dest / "arrays").iterdir()}


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.uint32, np.uint64])
def test_ids_of_any_width(dtype: type[np.integer[Any]], tmp_path: Path) -> None:
    src, dst = (np.array(ids).astype(dtype) for ids in ([3, 1, 2], [0, 0, 3]))
    graph = Graph.ingest(Source(num_nodes={NODE: 4}, edges={HOMOGENEOUS: edges_of(src, dst)}), tmp_path / "g")
    assert [array.tolist() for array in graph.csc(HOMOGENEOUS)] == [[0, 2, 2, 2, 3], [3, 1, 2]]


@pytest.mark.parametrize(
    "rows", [np.arange(36, dtype=np.float32).reshape(12, 3), np.arange(12) % 2 == 0, np.arange(12, dtype=np.int16)]
)
@pytest.mark.parametrize("sort", [None, "source"])
def test_values_of_any_width_go_with_their_edges(rows: np.ndarray, sort: str | None, small: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    src, dst = list(rng.integers(0, 5, (2, 12)))
    raw = Source(
        num_nodes={NODE: 5},
        edges={
            HOMOGENEOUS: EdgeStream(
                read=lambda most: (Edges(src[i : i + 5], dst[i : i + 5], {"w": rows[i : i + 5]}) for i in (0, 5, 10)),
                values={"w": np.dtype((rows.dtype, rows.shape[1:]))},
            )
        },
    )
    graph = Graph.ingest(raw, tmp_path / "g", sort_rows=sort)
    order = np.lexsort((src, dst)) if sort else np.argsort(dst, kind="stable")
    assert np.array_equal(graph.features.array(HOMOGENEOUS, "w"), rows[order])
    assert np.array_equal(graph.csc(HOMOGENEOUS)[1], src[order])


@pytest.mark.parametrize("spec", ["rmat:8:3000", "wordnet", "communities:300:2000"])
def test_a_graph_by_its_words_is_that_in_memory(spec: str, tmp_path: Path) -> None:
    made, held = Graph.ingest(spec, tmp_path / "g"), load_dataset(spec)
    assert made.num_nodes == held.num_nodes
    for relation in held.relations:
        for one, other in zip(made.csc(relation), held.csc(relation), strict=True):
            assert one.dtype == other.dtype
            assert np.array_equal(one, other)
    assert [(o, n) for o, n, _ in made.features] == [(o, n) for o, n, _ in held.features]
    for (_, _, rows), (_, _, expected) in zip(made.features, held.features, strict=True):
        assert rows.dtype == expected.dtype
        assert np.array_equal(rows.array, expected.array)


def test_reverses_and_a_graph_that_is_ingested_again(tmp_path: Path) -> None:
    graph = Graph.ingest("wordnet", tmp_path / "g", add_reverse=True, sort_rows="source")
    held = load_dataset("wordnet")
    for source, name, destination in held.relations:
        indptr, indices = held.csc((source, name, destination))
        pairs = sorted(zip(indices.tolist(), np.repeat(np.arange(indptr.size - 1), np.diff(indptr)).tolist(), strict=True))
        pointers, sources = graph.csc((destination, f"rev_{name}", source))
        rows = np.repeat(np.arange(pointers.size - 1), np.diff(pointers)).tolist()
        assert list(zip(rows, sources.tolist(), strict=True)) == pairs
    again = Graph.ingest(tmp_path / "g", tmp_path / "again")
    assert again.relations == graph.relations
    for relation in graph.relations:
        assert all(np.array_equal(a, b) for a, b in zip(again.csc(relation), graph.csc(relation), strict=True))
    with pytest.raises(GraphError, match="reverse"):
        Graph.ingest(tmp_path / "g", tmp_path / "third", add_reverse=True)
    assert not (tmp_path / "third").exists()


def test_counts_are_read_off_the_edges(tmp_path: Path) -> None:
    source = Source(
        num_nodes={"a": None, "b": 9},
        edges={
            ("a", "to", "b"): edges_of(np.array([4, 0]), np.array([8, 0])),
            ("b", "to", "a"): edges_of(np.array([1]), np.array([6])),
        },
    )
    assert Graph.ingest(source, tmp_path / "g").num_nodes == {"a": 7, "b": 9}


def test_no_edges_and_no_nodes(tmp_path: Path) -> None:
    nothing = np.empty(0, np.int64)
    graph = Graph.ingest(Source(num_nodes={NODE: 0}, edges={HOMOGENEOUS: edges_of(nothing, nothing)}), tmp_path / "g")
    assert (graph.num_nodes[NODE], graph.num_edges[HOMOGENEOUS]) == (0, 0)
    assert verify(tmp_path / "g").problems == ()


@pytest.mark.parametrize(
    ("source", "options", "message"),
    [
        ((np.array([0, 9]), np.array([0, 1])), {}, "got 9 at edge 1"),
        ((np.array([0, 1]), np.array([0, -1])), {}, "destination ids .* got -1 at edge 1"),
        ((np.array([0]), np.array([0])), {"sort_rows": "time"}, "edges have one"),
        ((np.array([0]), np.array([0])), {"sort_rows": "id"}, "source or time"),
        ((np.array([0]), np.array([0])), {"undirect": True}, "did you mean undirected"),
        ((np.array([0]), np.array([0])), {"on_error": "no"}, "stop or skip"),
        ((np.array([0]), np.array([0])), {"memory": "2 lots"}, "like 2GiB"),
        ((np.array([0]), np.array([0])), {"memory": "20MiB"}, "or more here"),
        ((np.array([0]), np.array([0])), {"num_nodes": 3}, "what the source says, 4"),
    ],
)
def test_what_cannot_be_is_refused_and_leaves_nothing(source: Any, options: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(GnnhetError, match=message):
        Graph.ingest(Source(num_nodes={NODE: 4}, edges={HOMOGENEOUS: edges_of(*source)}), tmp_path / "g", **options)
    assert not (tmp_path / "g").exists()


def test_times_that_are_none_and_features_of_other_lengths(tmp_path: Path) -> None:
    with pytest.raises(GraphError, match="NaN at edge 1"):
        Graph.ingest(source_of([(0, 0, 1.0), (0, 1, np.nan)], 2, "time"), tmp_path / "g", sort_rows="time")
    with pytest.raises(GraphError, match="one row for each of the 2"):
        Graph.ingest(Source(num_nodes={NODE: 2}, edges={}, features={NODE: {"x": rows_of(np.ones((3, 1)))}}), tmp_path / "g")
    with pytest.raises(GraphError, match="must not be NaN"):
        Graph.ingest(
            Source(num_nodes={NODE: 2}, edges={}, features={NODE: {"y": rows_of(np.array([0.0, np.nan]))}}), tmp_path / "g"
        )
    assert not (tmp_path / "g").exists()


def test_bad_edges_are_skipped_and_listed(small: Any, tmp_path: Path) -> None:
    src, dst = np.array([0, 9, 1, -1, 2, 3]), np.array([0, 1, 7, -5, 1, 2])
    report: list[str] = []
    source = Source(num_nodes={NODE: 4}, edges={HOMOGENEOUS: edges_of(src, dst)})
    graph = Graph.ingest(source, tmp_path / "g", on_error="skip", keep_edge_ids=True, report=report)
    ids = graph.part(HOMOGENEOUS).edge_ids
    assert ids is not None
    assert ids.tolist() == [0, 4, 5]
    assert sorted(line.split("got ")[1].split(":")[0] for line in report) == ["-1 at edge 3", "7 at edge 2", "9 at edge 1"]


@pytest.mark.parametrize(
    ("text", "size"), [("2GiB", 2 << 30), ("500MB", 500_000_000), ("1.5 g", 1_500_000_000), ("7", 7), (7, 7), ("64 kib", 65536)]
)
def test_amounts(text: str | int, size: int) -> None:
    assert amounts.parse_bytes(text) == size


class Stop(Exception):
    """Raised in the middle of a source."""


def interrupted(step: int) -> Source:
    """R-MAT with features, whose `step`-th stream ends in an exception."""
    made = catalogue.source("rmat:10:30000")
    (stream,) = made.edges.values()
    rows = rows_of(np.arange(2048, dtype=np.float32).reshape(1024, 2))

    def edges(most: int) -> Iterator[Edges]:
        yield from stream.read(5000)
        if step == 0:
            raise Stop

    def features(most: int) -> Iterator[Any]:
        yield from rows.read(100)
        if step == 1:
            raise Stop

    return Source(
        num_nodes=made.num_nodes,
        edges={HOMOGENEOUS: EdgeStream(read=edges, count=30000)},
        features={NODE: {"x": type(rows)(read=features, shape=rows.shape, dtype=rows.dtype)}},
        name="r",
    )


def test_what_is_finished_stays_for_resume(tmp_path: Path) -> None:
    dest = tmp_path / "g"
    with pytest.raises(Stop):
        Graph.ingest(interrupted(0), dest)
    assert not dest.exists()  # nothing was finished
    with pytest.raises(Stop):
        Graph.ingest(interrupted(1), dest)
    with pytest.raises(FormatError, match="--resume"):
        Graph.open(dest)
    begun = dest / ".ingest" / "arrays"
    for path in begun.iterdir():
        os.utime(path, ns=(1, 1))
    left = {(path.name, path.stat().st_mtime_ns) for path in begun.iterdir()}
    assert len(left) == 2  # indptr and indices
    with pytest.raises(SpecError, match="another undirected"):
        Graph.ingest(interrupted(2), dest, undirected=True, resume=True)
    assert {(path.name, path.stat().st_mtime_ns) for path in begun.iterdir()} == left  # refused without harm
    graph = Graph.ingest(interrupted(2), dest, resume=True)
    assert left <= {(path.name, path.stat().st_mtime_ns) for path in (dest / "arrays").iterdir()}  # not made again
    assert not (dest / ".ingest").exists()
    whole = Graph.ingest(interrupted(2), tmp_path / "whole")
    assert (dest / "graph.json").read_text() == (tmp_path / "whole" / "graph.json").read_text()
    assert verify(dest).problems == ()
    assert graph.revision == whole.revision == 1


def test_a_graph_stays_until_the_new_one_is_whole(tmp_path: Path) -> None:
    dest = tmp_path / "g"
    before = Graph.ingest("rmat:5:100", dest)
    with pytest.raises(Stop):
        Graph.ingest(interrupted(1), dest)
    assert Graph.open(dest).num_edges == before.num_edges
    assert verify(dest).problems == ()
    assert Graph.ingest(interrupted(2), dest).revision == 2
    assert Graph.open(dest).num_edges[HOMOGENEOUS] == 30000
    assert len(files(dest)) == 4


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("mine")
    with pytest.raises(FormatError, match="choose another path"):
        Graph.ingest("rmat:5:100", tmp_path)
    assert files(tmp_path) == {"thesis.tex"}


def command(*words: object) -> list[str]:
    return [sys.executable, "-c", "import sys; from gnnhet.cli import main; sys.exit(main())", *map(str, words)]


def test_a_disk_that_is_full(tmp_path: Path) -> None:
    """The size a file may have is limited: the write fails as on a full disk."""
    dest = tmp_path / "g"

    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))

    environment = {**os.environ, "NUMBA_DISABLE_JIT": "0"}
    run = subprocess.run(
        command("ingest", "rmat:10:400000", dest), capture_output=True, text=True, preexec_fn=limit, env=environment, check=False
    )
    assert run.returncode == 2
    assert "Traceback" not in run.stderr
    assert not dest.exists()


def test_a_disk_that_is_too_small_is_told_first(tmp_path: Path) -> None:
    far = Source(num_nodes={NODE: 1 << 20}, edges={HOMOGENEOUS: EdgeStream(read=lambda most: iter(()), count=10**15)})
    with pytest.raises(SpecError, match="GB free"):
        Graph.ingest(far, tmp_path / "g")
    assert not (tmp_path / "g").exists()


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak is read from /proc")
def test_peak_memory_is_kept(tmp_path: Path) -> None:
    """Edges of several times the memory that is allowed beyond the process itself."""
    script = (
        "import re, sys; from gnnhet.storage import Graph; "
        "g = Graph.ingest('rmat:20:24_000_000', sys.argv[1], memory=sys.argv[2], sort_rows='source'); "
        "print(re.search(r'VmHWM:\\s*(\\d+) kB', open('/proc/self/status').read())[1])"  # ru_maxrss counts the parent's, too
    )
    run = subprocess.run([sys.executable, "-c", script, tmp_path / "g", "700MiB"], capture_output=True, text=True, check=True)
    assert int(run.stdout) <= 700 << 10


def test_large_rows_keep_within_their_pieces(small: Any, tmp_path: Path) -> None:
    """All edges end at one node: the row is parted by its sources, again and again."""
    src = np.random.default_rng(0).integers(0, 10**6, 2000)
    src[::3] = 5  # many alike
    source = Source(num_nodes={NODE: 10**6}, edges={HOMOGENEOUS: edges_of(src, np.full(2000, 7))})
    for drop, sort in itertools.product([False, True], [None, "source"]):
        graph = Graph.ingest(source, tmp_path / "g", drop_duplicates=drop, sort_rows=sort)
        expected = np.unique(src) if drop else np.sort(src) if sort else src
        assert np.array_equal(graph.csc(HOMOGENEOUS)[1], expected)
        assert graph.csc(HOMOGENEOUS)[0][[7, 8, -1]].tolist() == [0, expected.size, expected.size]


def test_a_large_row_whose_first_chunk_has_none_of_its_edges_loses_none(small: Any, tmp_path: Path) -> None:
    small.setattr(passes, "_MOST_CHUNK", 4)
    small.setattr(passes, "_MOST_PLACED", 3)
    edges = [(1, 0, 0.0)] * 5 + [(0, 1, 0.0)] * 3 + [(0, 0, 0.0)] * 2
    for threads in (1, 2):
        graph = Graph.ingest(source_of(edges, 2), tmp_path / "g", undirected=True, threads=threads)
        assert [array.tolist() for array in graph.csc(HOMOGENEOUS)] == [[0, 2, 3], [0, 1, 0]]


def test_tables_of_ids_go_with_the_graph(tmp_path: Path) -> None:
    table = tmp_path / "ids.parquet"
    table.write_bytes(b"PAR1 as far as a copy knows" * 1000)
    source = Source(
        num_nodes={NODE: 2}, edges={HOMOGENEOUS: edges_of(np.array([0]), np.array([1]))}, ids={NODE: table}, name="named"
    )
    graph = Graph.ingest(source, tmp_path / "g")
    graph.save(tmp_path / "saved")
    graph.save(tmp_path / "g")
    Graph.ingest(tmp_path / "g", tmp_path / "again")
    for folder in ("g", "saved", "again"):
        kept = [path for path in (tmp_path / folder / "arrays").iterdir() if path.suffix == ".parquet"]
        assert [path.read_bytes() for path in kept] == [table.read_bytes()]
        assert verify(tmp_path / folder).problems == ()
        with kept[0].open("r+b") as file:
            file.write(b"x")
        (problem,) = verify(tmp_path / folder).problems
        assert kept[0].name in problem
    labelled = Graph.ingest("rmat:5:100", tmp_path / "g")  # a graph without takes the table away
    assert labelled.revision == 3
    assert not list((tmp_path / "g").rglob("*.parquet"))
