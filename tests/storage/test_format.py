"""FORMAT.md says what is written: its example is run, and every part of it held against the folder."""

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import xxhash

from gnnhet.storage import Graph, disk, verify

DOCUMENT = Path(__file__).resolve().parents[2] / "storage" / "FORMAT.md"


def block(language: str) -> str:
    """The document's one code block of a language."""
    (found,) = re.findall(rf"^```{language}\n(.*?)^```$", DOCUMENT.read_text(), re.MULTILINE | re.DOTALL)
    return str(found)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What the document's snippet writes."""
    monkeypatch.chdir(tmp_path)
    exec(compile(block("python"), str(DOCUMENT), "exec"), {})
    return tmp_path / "tiny"


def test_the_json_is_what_is_written(folder: Path) -> None:
    assert (folder / "graph.json").read_text().strip() == block("json").strip()


def test_the_listing_is_the_folder(folder: Path) -> None:
    files = sorted(str(path.relative_to(folder.parent)) for path in folder.rglob("*") if path.is_file())
    assert files == block("text").splitlines()


def test_the_table_names_every_array_with_its_dtype_and_values(folder: Path) -> None:
    rows = re.findall(r"^\| `([\w.]+)` \| (\w+) \| [^|]+ \| `([^`]+)` \|", DOCUMENT.read_text(), re.MULTILINE)
    entries = disk.array_entries(disk.read_index(folder))
    assert len(rows) == len(entries)
    for (name, dtype, shown), entry in zip(rows, entries, strict=True):
        assert re.search(rf"\.{re.escape(name)}-|\d\.{re.escape(name)}-", entry["file"])
        assert dtype == entry["dtype"]
        array = np.load(folder / entry["file"])
        assert array.dtype.isnative
        if dtype == "bfloat16":
            assert array.dtype == np.uint16
            assert shown == f"[[{array[0, 0]:#06x}, {array[0, 1]:#06x}], ...]"
        else:
            assert array.tolist() == json.loads(shown)


def test_checksums_are_of_the_whole_files_and_stand_in_their_names(folder: Path) -> None:
    for entry in disk.array_entries(disk.read_index(folder)):
        data = (folder / entry["file"]).read_bytes()
        assert entry["xxh3_128"] == xxhash.xxh3_128(data).hexdigest()
        assert len(data) == entry["bytes"]
        assert entry["file"].endswith(f"-{entry['xxh3_128'][:8]}.npy")


def test_the_example_opens_as_it_says(folder: Path) -> None:
    graph = Graph.open(folder)
    assert graph.num_nodes == {"author": 2, "paper": 3}
    assert graph.features.gather("paper", "x", np.array([2])).equal(torch.tensor([[-1.0, 3.0]], dtype=torch.bfloat16))
    assert verify(folder).problems == ()


def test_an_unknown_key_is_left_alone_in_the_version_the_document_names(folder: Path) -> None:
    index = folder / "graph.json"
    document = json.loads(index.read_text())
    assert document["version"] == disk.VERSION
    assert f"`version` is {disk.VERSION}." in DOCUMENT.read_text()
    index.write_text(json.dumps({**document, "remark": "added later"}))
    assert Graph.open(folder).name == "tiny"


def test_numpy_and_json_alone_read_it(folder: Path) -> None:
    """The promise to other languages: no gnnhet is needed."""
    code = """
import json, sys, numpy as np
root = sys.argv[1]
document = json.load(open(root + "/graph.json"))
for relation in document["relations"]:
    arrays = {key: np.load(f"{root}/{entry['file']}") for key, entry in relation["arrays"].items()}
    for paper, (start, end) in enumerate(zip(arrays["indptr"], arrays["indptr"][1:])):
        for source in arrays["indices"][start:end]:
            print(relation["source"], source, relation["name"], relation["destination"], paper)
"""
    done = subprocess.run([sys.executable, "-I", "-c", code, str(folder)], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.splitlines() == [
        "author 0 writes paper 0",
        "author 0 writes paper 1",
        "author 1 writes paper 1",
        "author 1 writes paper 2",
        "paper 0 cites paper 1",
        "paper 0 cites paper 2",
        "paper 1 cites paper 2",
    ]
