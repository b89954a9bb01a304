"""`info`, `verify`, `devices`: what they print, and their exit codes."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from tests.strategies import labelled_graph, typed_labelled_graph

from gnnhet.cli import main
from gnnhet.devices import parse_devices
from gnnhet.storage import Graph

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A saved homogeneous graph."""
    labelled_graph().save(tmp_path / "graph")
    return tmp_path / "graph"


@pytest.fixture
def typed_folder(tmp_path: Path) -> Path:
    """A saved typed graph."""
    typed_labelled_graph().save(tmp_path / "typed")
    return tmp_path / "typed"


def printed(capsys: Captured, *words: object) -> str:
    """What a command that succeeds prints; nothing goes to stderr."""
    assert main([str(word) for word in words]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return out


def printed_json(capsys: Captured, *words: object) -> dict[str, Any]:
    """The one JSON object that a command prints with --json."""
    value = json.loads(printed(capsys, *words, "--json"))
    assert isinstance(value, dict)
    return value


def largest(folder: Path) -> Path:
    return max((folder / "arrays").iterdir(), key=lambda path: path.stat().st_size)


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def test_info_tells_what_a_graph_holds(capsys: Captured, typed_folder: Path) -> None:
    text = printed(capsys, "info", typed_folder)
    graph = typed_labelled_graph()
    for node_type, count in graph.num_nodes.items():
        assert [node_type, str(count)] in [line.split() for line in text.splitlines()]
    for relation, count in graph.num_edges.items():
        (row,) = [line for line in text.splitlines() if line.startswith(" -> ".join(relation) + " ")]
        assert row.split()[5] == str(count)
    assert "float32" in text
    assert "120 x 8" in text
    assert "Splits of a: train" in text


def test_info_as_json(capsys: Captured, folder: Path) -> None:
    found = printed_json(capsys, "info", folder)
    graph = labelled_graph()
    count = graph.num_edges["node", "to", "node"]
    assert found["name"] == "labelled"
    assert found["num_nodes"] == {"node": 200}
    assert found["num_edges"] == count
    (relation,) = found["relations"]
    assert relation["relation"] == ["node", "to", "node"]
    assert relation["mean_degree"] == pytest.approx(count / 200)
    assert relation["max_degree"] >= relation["mean_degree"]
    features = {feature["name"]: feature for feature in found["features"]}
    assert features["x"] == {"of": "node", "name": "x", "dtype": "float32", "shape": [200, 8], "bytes": 6400}
    assert set(features) == {"x", "y", "split"}
    assert found["splits"]["node"] == {part: graph.split_ids("node", part).size for part in ("train", "val", "test")}


def test_info_of_a_generated_graph_and_of_one_without_edges(capsys: Captured, typed_folder: Path) -> None:
    assert printed_json(capsys, "info", "rmat:5:40")["num_nodes"] == {"node": 32}
    relations = printed_json(capsys, "info", typed_folder)["relations"]
    (never,) = [entry for entry in relations if entry["relation"] == ["a", "never", "c"]]
    assert never == {"relation": ["a", "never", "c"], "edges": 0, "mean_degree": 0.0, "max_degree": 0}


def test_verify_of_a_whole_graph(capsys: Captured, folder: Path) -> None:
    text = printed(capsys, "verify", folder)
    assert text.startswith(f"{folder}: 5 files, ")
    assert text.rstrip().endswith("whole")
    found = printed_json(capsys, "verify", folder)
    assert found["problems"] == []
    assert found["files"] == len(os.listdir(folder / "arrays")) == 5
    assert found["bytes"] == sum(path.stat().st_size for path in (folder / "arrays").iterdir())


@pytest.mark.parametrize("words", [(), ("--json",)])
@pytest.mark.parametrize("damage", [flip, lambda path: os.truncate(path, 100), lambda path: path.unlink()])
def test_verify_names_every_damaged_file_and_exits_1(capsys: Captured, folder: Path, damage: Any, words: Any) -> None:
    victims = sorted((folder / "arrays").iterdir())[:2]
    for victim in victims:
        damage(victim)
    assert main(["verify", str(folder), *words]) == 1
    out, err = capsys.readouterr()
    problems = json.loads(out)["problems"] if words else out.splitlines()
    assert len(problems) == 2
    assert all(sum(victim.name in problem for problem in problems) == 1 for victim in victims)
    assert "Traceback" not in err


def test_a_flipped_byte_passes_info_but_a_truncated_file_does_not(capsys: Captured, folder: Path) -> None:
    """Opening reads no array, so only `verify` sees flipped bytes; sizes are seen at once."""
    flip(largest(folder))
    printed(capsys, "info", folder)
    os.truncate(largest(folder), 100)
    assert main(["info", str(folder)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "truncated" in err
    assert largest(folder).parent.name in err
    assert len(err.splitlines()) == 1


def test_rows_are_not_folded_in_a_pipe(capsys: Captured, tmp_path: Path) -> None:
    """A line a row is what `grep` and `awk` need, whatever the width of a terminal."""
    names = ("a_rather_long_source_type_" * 2, "a_rather_long_relation_" * 2, "a_rather_long_destination_type_" * 2)
    Graph.from_relations({names: ([0, 1], [0])}, {names[0]: 1, names[2]: 1}).save(tmp_path / "long")
    lines = printed(capsys, "info", tmp_path / "long").splitlines()
    assert [line.split()[5:] for line in lines if line.startswith(" -> ".join(names))] == [["1", "1.00", "1"]]


def test_devices_says_what_is_here(capsys: Captured) -> None:
    text = printed(capsys, "devices")
    found = printed_json(capsys, "devices")["devices"]
    assert "cpu" in [device["spec"] for device in found]
    for device in found:
        assert device["spec"] in text
        assert parse_devices(device["spec"])[0].kind == device["kind"]
        assert "profile" not in device
    (cpu,) = [device for device in found if device["kind"] == "cpu"]
    assert cpu["total_threads"] >= 1
    assert cpu["total_memory_bytes"] > 2**20


@pytest.mark.slow
def test_devices_are_measured_once(capsys: Captured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    found = printed_json(capsys, "devices", "--measure")["devices"]
    (cpu,) = [device for device in found if device["kind"] == "cpu"]
    assert cpu["profile"]["dense_gflops"]["median"] > 0
    assert [path for path in tmp_path.rglob("*.json") if path.is_file()]
    text = printed(capsys, "devices", "--measure")  # from the cache
    assert f"{cpu['profile']['dense_gflops']['median']:.4g}" in text


def test_info_of_one_node(capsys: Captured, tmp_path: Path) -> None:
    pytest.importorskip("duckdb", reason="tables need the extra `tables`")
    raw = tmp_path / "raw"
    raw.mkdir()
    (raw / "nodes.csv").write_text("id,label,split\np9,bio,train\np1,ai,test\np5,,\n")
    (raw / "edges.csv").write_text("src,dst\np1,p9\np5,p9\np9,p1\n")
    graph = Graph.ingest(f"tables:{raw}", tmp_path / "graph")
    edges = [{"relation": ["node", "to", "node"], "edges": 2}]
    whole = {"type": "node", "id": "p9", "node": 0, "label": 1, "split": "train", "in_edges": edges}
    assert printed_json(capsys, "info", graph.path, "--lookup", "node", "p9") == whole
    assert printed_json(capsys, "info", graph.path, "--node", "node", 0) == whole
    said = printed(capsys, "info", graph.path, "--lookup", "node", "p5")
    assert "node p5 is node 2" in said
    assert "split" not in said
    for words in (["--lookup", "node", "p7"], ["--lookup", "paper", "p9"], ["--node", "node", "3"]):
        assert main(["info", str(graph.path), *words]) == 2
        assert words[-1] in capsys.readouterr().err or "paper" in words
    assert main(["info", str(graph.path), "--lookup", "node", "p9", "--node", "node", "0"]) == 2
    assert "not both" in capsys.readouterr().err
