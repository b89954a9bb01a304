"""What an interrupted ingest of tables, or of files that changed meanwhile, goes on with."""

import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from tests.datasets.refusals import refused

from gnnhet.datasets.raw import HOMOGENEOUS
from gnnhet.datasets.source import to_raw
from gnnhet.datasets.tables import source
from gnnhet.errors import FormatError, SpecError
from gnnhet.storage import Graph

pytest.importorskip("duckdb", reason="tables need the extra `tables`")
_CHILD = "import sys; from gnnhet.datasets.tables import source; source(sys.argv[1], work=sys.argv[2])"
_PATIENCE_SECONDS = 60


def pairs(path: Path, count: int) -> np.ndarray:
    ids = np.random.default_rng(0).integers(0, count, (count, 2)) * 7
    np.savetxt(path, ids, "n%d", ",", header="src,dst", comments="")
    return ids


def test_a_killed_reading_goes_on_after_its_last_step(tmp_path: Path) -> None:
    edges, work = tmp_path / "edges.csv", tmp_path / "work"
    ids = pairs(edges, 200_000)
    child = subprocess.Popen([sys.executable, "-c", _CHILD, edges, work])
    done = work / "tables" / "text-00000.json"
    give_up = time.monotonic() + _PATIENCE_SECONDS
    while not done.exists():
        assert time.monotonic() < give_up, "no step was finished"
        assert child.poll() in (None, 0)
        time.sleep(0.01)
    child.send_signal(signal.SIGKILL)
    child.wait(_PATIENCE_SECONDS)
    kept = done.with_suffix(".parquet").stat()
    src, dst = to_raw(source(edges, work=work)).edges[HOMOGENEOUS]
    again = done.with_suffix(".parquet").stat()
    assert (kept.st_ino, kept.st_mtime_ns) == (again.st_ino, again.st_mtime_ns)
    order = np.array(sorted(map(str, np.unique(ids))))
    np.testing.assert_array_equal(order[np.stack([src, dst], 1)], ids.astype(str))
    os.utime(edges, ns=(1, 1))  # changed since
    source(edges, work=work)
    assert done.with_suffix(".parquet").stat().st_ino != kept.st_ino


def test_lines_left_out_are_told_again(tmp_path: Path) -> None:
    edges = tmp_path / "edges.csv"
    edges.write_text("src,dst\na,b\nc\nb,a\n,a\n")
    first, again = (source(edges, work=tmp_path / "work", on_error="skip").report for _ in range(2))
    assert list(first) == list(again)
    assert len(first) == 4


def test_a_mended_row_and_what_was_done_before_it(tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()
    nodes, edges = tmp_path / "raw" / "nodes.csv", tmp_path / "raw" / "edges.csv"
    nodes.write_text("id\na\nb\n")
    edges.write_text("src,dst\na,b\nb,zz\n")
    spec, dest = f"tables:{tmp_path / 'raw'}", tmp_path / "graph"
    with refused(FormatError, "row 2", "'zz'"):
        Graph.ingest(spec, dest)
    edges.write_text("src,dst\na,b\nb,a\n")
    made = Graph.ingest(spec, dest, resume=True)
    assert made.csc(HOMOGENEOUS)[1].tolist() == [1, 0]
    assert sorted(path.name for path in dest.iterdir()) == ["arrays", "graph.json"]


def test_files_that_changed_since_are_refused(tmp_path: Path) -> None:
    """An ingest stopped at its features is not gone on with once the edges are others."""
    raw, dest = tmp_path / "raw", tmp_path / "graph"
    raw.mkdir()
    np.save(raw / "src.npy", np.arange(10))
    np.save(raw / "dst.npy", np.arange(10))
    np.save(raw / "split.npy", np.full(10, 9))
    with pytest.raises(FormatError):
        Graph.ingest(f"tables:{raw}", dest)
    np.save(raw / "src.npy", np.arange(10)[::-1])
    with refused(SpecError, "src.npy", "changed", "leave --resume out"):
        Graph.ingest(f"tables:{raw}", dest, resume=True)
    np.save(raw / "split.npy", np.zeros(10, np.int8))
    assert Graph.ingest(f"tables:{raw}", dest).csc(HOMOGENEOUS)[1].tolist() == list(range(10))[::-1]


def test_a_destination_within_the_source_is_none_of_its_files(tmp_path: Path) -> None:
    for name in ("src", "dst"):
        np.save(tmp_path / f"{name}.npy", np.arange(10))
    np.save(tmp_path / "split.npy", np.full(10, 9))
    with pytest.raises(FormatError):
        Graph.ingest(f"tables:{tmp_path}", tmp_path / "graph")
    before = (tmp_path / "split.npy").stat()
    np.save(tmp_path / "split.npy", np.zeros(10, np.int64))
    os.utime(tmp_path / "split.npy", ns=(before.st_atime_ns, before.st_mtime_ns))  # unseen: bytes and time are the same
    assert Graph.ingest(f"tables:{tmp_path}", tmp_path / "graph", resume=True).num_nodes == {"node": 10}


def test_a_disk_that_is_full_while_tables_are_read(tmp_path: Path) -> None:
    """The size a file may have is limited: what DuckDB writes fails as on a full disk."""
    pairs(tmp_path / "edges.csv", 200_000)
    command = [sys.executable, "-m", "gnnhet", "ingest", f"tables:{tmp_path / 'edges.csv'}", str(tmp_path / "graph")]

    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))

    environment = {**os.environ, "NUMBA_DISABLE_JIT": "0"}
    run = subprocess.run(command, capture_output=True, text=True, preexec_fn=limit, env=environment, check=False)
    assert run.returncode == 2
    assert "edges.csv" in run.stderr
    assert "must find room" in run.stderr
    assert "Traceback" not in run.stderr
    assert not (tmp_path / "graph").exists()
    assert subprocess.run([*command, "--resume"], capture_output=True, env=environment, check=False).returncode == 0
    assert sum(Graph.open(tmp_path / "graph").num_edges.values()) == 200_000
