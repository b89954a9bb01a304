"""Saving, opening, and what damage, kills and full disks do."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from tests.strategies import labelled_graph, typed_labelled_graph, typed_raw

from gnnhet.datasets.raw import RawGraph
from gnnhet.errors import FormatError
from gnnhet.storage import Graph, disk, verify

ROOT = Path(__file__).resolve().parents[2]


def same(one: Graph, other: Graph) -> bool:
    """Whether two graphs hold the same."""
    return (
        one.num_nodes == other.num_nodes
        and one.name == other.name
        and one.relations == other.relations
        and all(
            np.array_equal(a, b)
            for relation in one.relations
            for a, b in zip(one.csc(relation), other.csc(relation), strict=True)
        )
        and [(o, n, r.dtype) for o, n, r in one.features] == [(o, n, r.dtype) for o, n, r in other.features]
        and all(np.array_equal(a[2].array, b[2].array) for a, b in zip(one.features, other.features, strict=True))
    )


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(typed_raw())
def test_any_graph_opens_as_it_was_saved(tmp_path: Path, raw: RawGraph) -> None:
    graph = Graph.from_raw(raw)
    graph.save(tmp_path / "g")  # over the one before, too
    assert same(Graph.open(tmp_path / "g"), graph)
    assert verify(tmp_path / "g").problems == ()


def test_features_of_every_dtype_come_back(tmp_path: Path) -> None:
    rows = {
        str(dtype): (torch.rand(5, 3) * 9).to(dtype)
        for dtype in (torch.bfloat16, torch.float16, torch.int8, torch.float64, torch.bool)
    }
    graph = Graph.from_relations({}, {"n": 5}, {"n": rows})
    graph.save(tmp_path / "g")
    opened = Graph.open(tmp_path / "g").features
    for name, values in rows.items():
        assert torch.equal(opened.gather("n", name, np.arange(5)), values)


def test_saving_over_itself_and_over_another_keeps_open_graphs_alive(tmp_path: Path) -> None:
    labelled_graph(seed=1).save(tmp_path / "g")
    opened = Graph.open(tmp_path / "g")
    opened.save(tmp_path / "g")
    assert same(Graph.open(tmp_path / "g"), labelled_graph(seed=1))
    labelled_graph(seed=2).save(tmp_path / "g")
    assert same(opened, labelled_graph(seed=1))
    assert same(Graph.open(tmp_path / "g"), labelled_graph(seed=2))
    document = disk.read_index(tmp_path / "g")
    named = {entry["file"] for entry in disk.array_entries(document)}
    assert named == {f"arrays/{path.name}" for path in (tmp_path / "g" / "arrays").iterdir()}  # no litter


def test_refuses_a_folder_that_holds_something_else(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(FormatError, match="new, empty or graph folder"):
        labelled_graph().save(tmp_path)
    assert (tmp_path / "thesis.tex").exists()


def test_refuses_anothers_arrays_and_anothers_graph_json(tmp_path: Path) -> None:
    (tmp_path / "arrays").mkdir()
    (tmp_path / "arrays" / "results.npy").write_bytes(b"years of work")
    with pytest.raises(FormatError, match="new, empty or graph folder"):
        labelled_graph().save(tmp_path)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "graph.json").write_text('{"nodes": []}')
    with pytest.raises(FormatError, match="not a graph of ours"):
        labelled_graph().save(tmp_path / "other")
    assert (tmp_path / "arrays" / "results.npy").read_bytes() == b"years of work"


def test_a_save_leaves_strangers_files_beside_it_alone_and_removes_its_own_litter(tmp_path: Path) -> None:
    labelled_graph().save(tmp_path)
    for name in ("arrays/notes.txt", "arrays/.edges000.node.to.node.indptr.77.part", ".graph.json.77.part"):
        (tmp_path / name).write_text("x")
    labelled_graph(seed=2).save(tmp_path)
    assert (tmp_path / "arrays" / "notes.txt").exists()
    assert not list(tmp_path.rglob("*.part"))


def damaged(change: Callable[[Path], object]) -> Callable[[Path], object]:
    """Do something to the largest array file."""
    return lambda folder: change(max((folder / "arrays").iterdir(), key=lambda path: path.stat().st_size))


def edited(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], object]:
    """Do something to graph.json."""

    def edit(folder: Path) -> None:
        document = json.loads((folder / "graph.json").read_text())
        change(document)
        (folder / "graph.json").write_text(json.dumps(document))

    return edit


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize(
    ("damage", "rule"),
    [
        (lambda folder: (folder / "graph.json").unlink(), "holds graph.json"),
        (lambda folder: (folder / "graph.json").write_text("{"), "readable JSON"),
        (lambda folder: (folder / "graph.json").write_text("[]"), "not a graph of ours"),
        (edited(lambda d: d.update(version=disk.VERSION + 1)), "update gnnhet"),
        (edited(lambda d: d.pop("relations")), "broken entry"),
        (edited(lambda d: d["features"][0]["array"].update(file="../../etc/passwd")), "must lie in its arrays/ folder"),
        (edited(lambda d: d["features"][0]["array"].update(dtype="Tensor")), "dtypes that torch has"),
        (edited(lambda d: d["features"][0]["array"].pop("bytes")), "broken entry"),
        (edited(lambda d: d["node_types"][0].update(count=7)), "graph.json"),
        (damaged(lambda path: os.truncate(path, path.stat().st_size // 2)), "truncated"),
        (damaged(lambda path: path.unlink()), "readable .npy"),
        (damaged(lambda path: path.write_bytes(b"x" * path.stat().st_size)), "readable .npy"),
    ],
)
def test_damage_is_a_clear_error(tmp_path: Path, damage: Callable[[Path], object], rule: str) -> None:
    labelled_graph().save(tmp_path / "g")
    damage(tmp_path / "g")
    with pytest.raises(FormatError, match=rule):
        Graph.open(tmp_path / "g")


def test_verify_names_the_file_with_a_flipped_bit(tmp_path: Path) -> None:
    typed_labelled_graph().save(tmp_path / "g")
    victim = max((tmp_path / "g" / "arrays").iterdir(), key=lambda path: path.stat().st_size)
    flip(victim)
    (problem,) = verify(tmp_path / "g").problems
    assert victim.name in problem
    assert "checksum" in problem


def test_verify_reads_every_byte_and_finds_broken_structure(tmp_path: Path) -> None:
    graph = Graph.from_csc([0, 1, 2], [1, 0])
    part = graph.part(graph.relations[0])
    object.__setattr__(part, "indices", np.array([1, 9], np.int32))  # as a writer with a bug would have
    graph.save(tmp_path / "g")
    seen: list[int] = []
    result = verify(tmp_path / "g", seen.append)
    assert sum(seen) == result.num_bytes == sum(path.stat().st_size for path in (tmp_path / "g" / "arrays").iterdir())
    assert re.search(r"must lie in 0\.\.1, got 9", result.problems[0])


SAVER = """
import sys
sys.path.insert(0, sys.argv[2])
from tests.strategies import labelled_graph
graph = labelled_graph(num_nodes=20_000, num_edges=200_000, seed=1)
print("ready", flush=True)
graph.save(sys.argv[1])
"""


@pytest.mark.slow
def test_a_killed_save_leaves_the_old_graph_or_the_new_one(tmp_path: Path) -> None:
    old = labelled_graph(seed=5)
    new = labelled_graph(num_nodes=20_000, num_edges=200_000, seed=1)
    outcomes = set()
    for delay in (0.0, 0.002, 0.005, 0.01, 0.02, 0.05):
        old.save(tmp_path / "g")
        process = subprocess.Popen([sys.executable, "-c", SAVER, str(tmp_path / "g"), str(ROOT)], stdout=subprocess.PIPE)
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        time.sleep(delay)
        process.send_signal(signal.SIGKILL)
        process.wait(30)
        process.stdout.close()
        opened = Graph.open(tmp_path / "g")
        assert verify(tmp_path / "g").problems == ()
        outcomes.add("old" if same(opened, old) else "new" if same(opened, new) else "half")
    assert outcomes <= {"old", "new"}


def test_a_full_disk_leaves_the_old_graph(tmp_path: Path) -> None:
    """A limit on file size stands for the disk: the write fails in the middle, as on a full one."""
    labelled_graph(seed=5).save(tmp_path / "g")
    code = "import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
    code += "resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))\n" + SAVER
    done = subprocess.run(
        [sys.executable, "-B", "-c", code, str(tmp_path / "g"), str(ROOT)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "File too large" in done.stderr
    assert same(Graph.open(tmp_path / "g"), labelled_graph(seed=5))
    assert not [path for path in (tmp_path / "g" / "arrays").iterdir() if path.name.startswith(".")]
    fresh = subprocess.run(
        [sys.executable, "-B", "-c", code, str(tmp_path / "new"), str(ROOT)],
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert fresh.returncode
    assert not (tmp_path / "new").exists()
