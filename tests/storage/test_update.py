"""Features of a saved graph: added, replaced, written by rows, removed; who sees what, and two writers at once."""

import json
import multiprocessing
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.strategies import labelled_graph, typed_labelled_graph

from gnnhet.errors import FormatError, GraphError, WaitError
from gnnhet.storage import Graph, disk, lock, update, verify

ROOT = Path(__file__).resolve().parents[2]
WRITES = ("a", "to", "a")


def files(folder: Path) -> set[str]:
    """Everything in a graph folder."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def whole(folder: Path) -> Graph:
    """The graph of a folder, which verifies and has no file too many."""
    assert verify(folder).problems == ()
    named = {entry["file"] for entry in disk.array_entries(disk.read_index(folder))}
    assert files(folder) == named | {"graph.json"}
    return Graph.open(folder)


def test_a_feature_is_added_replaced_and_removed(tmp_path: Path) -> None:
    before = typed_labelled_graph()
    before.save(tmp_path)
    graph = Graph.open(tmp_path)
    assert graph.revision == 1
    weights = np.random.default_rng(1).random(graph.num_edges[WRITES]).astype(np.float16)
    graph.set_feature(WRITES, "weight", weights)
    graph.set_feature("c", "x", torch.ones(15, 2, dtype=torch.bfloat16))
    graph.set_feature("b", "x", torch.arange(40))
    for seen in (graph, whole(tmp_path)):
        assert np.array_equal(seen.features.array(WRITES, "weight"), weights)
        assert torch.equal(seen.features.gather("c", "x", np.arange(2)), torch.ones(2, 2, dtype=torch.bfloat16))
        assert torch.equal(seen.features.gather("b", "x", np.arange(40)), torch.arange(40))
        assert np.array_equal(seen.features.array("a", "x"), before.features.array("a", "x"))
        assert seen.revision == 4
    graph.remove_feature("c", "x")
    assert not graph.features.has("c", "x")
    assert not whole(tmp_path).features.has("c", "x")
    assert not graph.is_stale()


def test_changes_in_any_order_write_what_a_save_writes(tmp_path: Path) -> None:
    """The document is a save's, but for the numbers in file names and the revision."""
    graph = typed_labelled_graph()
    graph.save(tmp_path / "one")
    weights = np.arange(graph.num_edges[WRITES])
    graph.features.add(WRITES, "weight", weights, weights.size)
    graph.features.add("a", "age", np.arange(120), 120)
    graph.save(tmp_path / "two")
    update.put_feature(tmp_path / "one", WRITES, "weight", weights)
    update.put_feature(tmp_path / "one", "a", "age", np.arange(120))
    one, two = (disk.read_index(tmp_path / name) for name in ("one", "two"))
    assert [(f["of"], f["name"], f["array"]["xxh3_128"]) for f in one["features"]] == [
        (f["of"], f["name"], f["array"]["xxh3_128"]) for f in two["features"]
    ]
    assert {**one, "features": 0, "revision": 1} == {**two, "features": 0}


def test_who_has_the_graph_open_keeps_the_old_rows_and_can_learn_of_the_new(tmp_path: Path) -> None:
    labelled_graph(seed=1).save(tmp_path)
    opened, writer = Graph.open(tmp_path), Graph.open(tmp_path)
    old = opened.features.array("node", "x").copy()
    writer.set_feature("node", "x", np.zeros((200, 3), np.float32))
    assert np.array_equal(opened.features.array("node", "x"), old)
    assert opened.is_stale()
    assert not writer.is_stale()
    opened.set_feature("node", "z", np.ones(200))  # upon what the other left, which it has not seen
    assert opened.is_stale()
    assert writer.is_stale()
    again = whole(tmp_path)
    assert again.features.names("node") == ["split", "x", "y", "z"]
    assert again.features.array("node", "x").shape == (200, 3)
    assert again.revision == 3


def test_another_process_keeps_the_old_rows(tmp_path: Path) -> None:
    labelled_graph(seed=1).save(tmp_path)
    code = """
import sys
import numpy as np
from gnnhet.storage import Graph
graph = Graph.open(sys.argv[1])
print("open", flush=True)
sys.stdin.readline()
print(graph.is_stale(), float(np.abs(graph.features.array("node", "x")).sum()) > 0, flush=True)
"""
    pipe = subprocess.PIPE
    process = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdin=pipe, stdout=pipe, text=True, cwd=ROOT)
    assert process.stdout is not None
    assert process.stdout.readline() == "open\n"
    Graph.open(tmp_path).set_feature("node", "x", np.zeros((200, 8), np.float32))
    out, _ = process.communicate("go\n", timeout=60)
    assert out == "True True\n"


def test_saving_over_its_own_folder_is_not_stale(tmp_path: Path) -> None:
    labelled_graph().save(tmp_path)
    graph = Graph.open(tmp_path)
    other = Graph.open(tmp_path)
    graph.save(tmp_path)
    assert (graph.revision, graph.is_stale(), other.is_stale()) == (2, False, True)
    assert not labelled_graph().is_stale()


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.sampled_from(["float32", "float16", "bfloat16", "int8", "int64", "bool"]),
    st.sampled_from([(), (3,), (2, 2), (0,)]),
    st.lists(st.integers(0, 14), max_size=30),
    st.integers(1, 200),
)
def test_rows_are_replaced_as_by_assignment(
    tmp_path: Path, dtype: str, shape: tuple[int, ...], ids: list[int], piece_bytes: int
) -> None:
    Graph.from_relations({}, {"n": 15}).save(tmp_path)
    graph = Graph.open(tmp_path)
    want = (torch.rand(15, *shape) * 100).to(getattr(torch, dtype))
    graph.set_feature("n", "f", want)
    values = (torch.rand(len(ids), *shape) * 100).to(want.dtype)
    before = update._PIECE_BYTES
    update._PIECE_BYTES = piece_bytes
    try:
        graph.set_rows("n", "f", np.array(ids, np.int64), values)
    finally:
        update._PIECE_BYTES = before
    for at, row in zip(ids, values, strict=True):
        want[at] = row
    assert torch.equal(graph.features.gather("n", "f", np.arange(15)), want)
    assert torch.equal(whole(tmp_path).features.gather("n", "f", np.arange(15)), want)


def test_pieces_are_one_array(tmp_path: Path) -> None:
    labelled_graph().save(tmp_path)
    graph = Graph.open(tmp_path)
    values = np.random.default_rng(0).random((200, 5)).astype(np.float32)
    graph.set_feature("node", "one", values)
    graph.set_feature("node", "pieces", (values[first : first + 33] for first in range(0, 200, 33)))
    one, pieces = (graph.features.array("node", name) for name in ("one", "pieces"))
    assert np.array_equal(one, values)
    assert np.array_equal(pieces, values)
    sums = [entry["array"]["xxh3_128"] for entry in disk.read_index(tmp_path)["features"] if entry["name"] in ("one", "pieces")]
    assert sums[0] == sums[1]


REFUSED = [
    (lambda g: g.set_feature("node", "x", np.ones(199)), GraphError, "one row for each of the 200, got 199"),
    (lambda g: g.set_feature("node", "x", np.ones(201)), GraphError, "one row for each of the 200, got more"),
    (lambda g: g.set_feature("nodes", "x", np.ones(200)), GraphError, "belongs to a node type or relation"),
    (lambda g: g.set_feature("node", "x", []), GraphError, "one piece or more, got none"),
    (lambda g: g.set_feature("node", "x", [1, 2]), GraphError, "an array, a tensor, or pieces"),
    (lambda g: g.set_feature("node", "x", np.array(["a"] * 200)), GraphError, "must be numbers"),
    (lambda g: g.set_feature("node", "x", [np.ones(100), np.ones(100, np.float32)]), GraphError, "must be alike"),
    (lambda g: g.set_feature("node", "split", np.full(200, 3)), GraphError, "must be 0"),
    (lambda g: g.set_feature("node", "y", np.full(200, np.nan)), GraphError, "must not be NaN"),
    (lambda g: g.set_rows("node", "z", [0], np.ones(1)), GraphError, "no feature `z` of node: it has split, x, y"),
    (lambda g: g.set_rows("node", "x", [0], np.ones((1, 8))), GraphError, "convert them"),
    (lambda g: g.set_rows("node", "x", [0], np.ones((1, 7), np.float32)), GraphError, "of shape"),
    (lambda g: g.set_rows("node", "x", [200], np.ones((1, 8), np.float32)), GraphError, r"must lie in 0\.\.199, got 200"),
    (lambda g: g.set_rows("node", "x", [0, 1], np.ones((1, 8), np.float32)), GraphError, "one row an id, 2, got 1"),
    (lambda g: g.set_rows("node", "split", [0], np.array([7], np.int8)), GraphError, "must be 0"),
    (lambda g: g.remove_feature("node", "z"), GraphError, "no feature `z`"),
]


@pytest.mark.parametrize("number", range(len(REFUSED)))
def test_what_is_refused_changes_nothing(tmp_path: Path, number: int) -> None:
    labelled_graph().save(tmp_path)
    before, graph = files(tmp_path), Graph.open(tmp_path)
    change, kind, rule = REFUSED[number]
    with pytest.raises(kind, match=rule):
        change(graph)  # type: ignore[no-untyped-call]
    assert files(tmp_path) == before
    assert not graph.is_stale()


def test_another_graph_in_the_folder_is_noticed(tmp_path: Path) -> None:
    labelled_graph(seed=1).save(tmp_path)
    graph = Graph.open(tmp_path)
    labelled_graph(seed=2).save(tmp_path)
    with pytest.raises(GraphError, match="holds another graph by now"):
        graph.set_feature("node", "z", np.ones(200))
    assert graph.is_stale()
    assert not whole(tmp_path).features.has("node", "z")


def test_a_graph_in_memory_holds_it_and_has_no_rows_on_disk() -> None:
    graph = labelled_graph()
    graph.set_feature("node", "z", np.ones(200))
    assert graph.features.array("node", "z").sum() == 200
    with pytest.raises(GraphError, match="no file to change"):
        graph.set_rows("node", "z", [0], np.ones(1))
    with pytest.raises(GraphError, match="belongs to"):
        graph.set_feature("other", "z", np.ones(200))


def test_keys_that_this_version_does_not_know_stay(tmp_path: Path) -> None:
    labelled_graph().save(tmp_path)
    document = json.loads((tmp_path / "graph.json").read_text())
    del document["revision"]  # as an older version wrote it
    (tmp_path / "graph.json").write_text(json.dumps({**document, "remark": [1]}))
    assert update.put_feature(tmp_path, "node", "z", np.ones(200)) == 2
    assert disk.read_index(tmp_path)["remark"] == [1]


def test_no_graph_and_nothing_is_put_there(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"holds graph\.json"):
        update.put_feature(tmp_path, "node", "z", np.ones(200))
    assert not files(tmp_path)


def _put_many(folder: str, number: int, times: int) -> None:
    for round_ in range(times):
        update.put_feature(folder, "node", f"f{number}", np.full(200, round_))


def test_writers_at_once_lose_no_change_and_readers_see_whole_graphs(tmp_path: Path) -> None:
    labelled_graph().save(tmp_path)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["gnnhet.storage"])
    writers = [context.Process(target=_put_many, args=(str(tmp_path), number, 15)) for number in range(3)]
    for writer in writers:
        writer.start()
    opened = 0
    while any(writer.is_alive() for writer in writers):
        graph = Graph.open(tmp_path)
        assert all(len(set(graph.features.array("node", name))) == 1 for name in graph.features.names("node") if name[0] == "f")
        assert verify(tmp_path).problems == ()
        opened += 1
    for writer in writers:
        writer.join(60)
        assert writer.exitcode == 0
    graph = whole(tmp_path)
    assert [graph.features.array("node", f"f{number}")[0] for number in range(3)] == [14, 14, 14]
    assert graph.revision == 46
    assert opened > 1


def test_who_waits_says_for_whom(tmp_path: Path) -> None:
    labelled_graph().save(tmp_path)
    code = "import sys, time; from pathlib import Path; from gnnhet.storage.lock import writing\n"
    code += "with writing(Path(sys.argv[1])): print('held', flush=True); time.sleep(60)"
    process = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, cwd=ROOT)
    assert process.stdout is not None
    assert process.stdout.readline() == b"held\n"
    before = time.monotonic()
    with pytest.raises(WaitError, match=rf"one writer at a time changes .*waited 0\.3 s for process {process.pid} on "):
        update.put_feature(tmp_path, "node", "z", np.ones(200), timeout_s=0.3)
    assert 0.3 <= time.monotonic() - before < 5
    assert Graph.open(tmp_path).features.names("node") == ["split", "x", "y"]  # readers wait for nobody
    process.kill()
    process.wait(30)
    process.stdout.close()
    assert (tmp_path / lock.LOCK).exists()  # its file stays, its lock does not
    update.put_feature(tmp_path, "node", "z", np.ones(200), timeout_s=5)
    whole(tmp_path)


def test_threads_exclude_each_other_too(tmp_path: Path) -> None:
    labelled_graph().save(tmp_path)
    inside, most = 0, 0

    def enter() -> None:
        nonlocal inside, most
        for _ in range(20):
            with lock.writing(tmp_path, 60):
                inside += 1
                most = max(most, inside)
                os.sched_yield()
                inside -= 1

    threads = [threading.Thread(target=enter) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert most == 1
    assert not (tmp_path / lock.LOCK).exists()
