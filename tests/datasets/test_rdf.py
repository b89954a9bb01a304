import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.datasets.refusals import refused
from tests.shared_data import shared_data

from gnnhet.datasets import rdf
from gnnhet.errors import FormatError
from gnnhet.storage import Graph

TRIPLES = """\
# people
<http://e/ann> <http://e#knows> <http://e/bob> .

<http://e/ann> <http://e#knows> <http://e/bob> .  # again
<http://e/bob> <http://e#knows> _:x .
_:x <http://e#name> "X" .
"""
TRAIN = "person\tid\tlabel_group\nhttp://e/ann\t1\tred\n"
TEST = "id\tperson\tlabel_group\n7\thttp://e/bob\tblue\n"


def write(folder: Path, triples: str = TRIPLES, train: str = TRAIN, test: str = TEST) -> Path:
    (folder / "some.nt").write_text(triples, encoding="utf-8")
    (folder / "trainingSet.tsv").write_text(train, encoding="utf-8")
    (folder / "testSet.tsv").write_text(test, encoding="utf-8")
    return folder


def parsed(folder: Path, text: str | bytes) -> list[tuple[str, str, str]]:
    file = folder / "some.nt"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return list(rdf.parse(file))


def test_a_folder(tmp_path: Path) -> None:
    raw = rdf.read(write(tmp_path))
    # "X", _:x, ann, bob
    assert raw.num_nodes == {"entity": 4}
    pairs = {name: list(zip(src.tolist(), dst.tolist(), strict=True)) for (_, name, _), (src, dst) in raw.edges.items()}
    assert pairs == {"knows": [(2, 3), (3, 1)], "name": [(1, 0)], "rev_knows": [(3, 2), (1, 3)], "rev_name": [(0, 1)]}
    assert raw.features["entity"]["y"].tolist() == [-1, -1, 1, 0]  # blue 0, red 1
    assert raw.features["entity"]["split"].tolist() == [-1, -1, 0, 2]
    assert raw.name == tmp_path.name
    Graph.from_raw(raw)


def test_gzip_reads_the_same(tmp_path: Path) -> None:
    before = rdf.read(write(tmp_path))
    (tmp_path / "some.nt").unlink()
    (tmp_path / "some.nt.gz").write_bytes(gzip.compress(TRIPLES.encode()))
    after = rdf.read(tmp_path)
    assert before.num_nodes == after.num_nodes
    assert all(np.array_equal(before.edges[relation][0], after.edges[relation][0]) for relation in before.edges)


def test_blank_nodes_of_two_files_are_two_nodes(tmp_path: Path) -> None:
    write(tmp_path, triples="<http://e/ann> <http://e#p> _:x .\n<http://e/bob> <http://e#p> _:x .\n")
    assert rdf.read(tmp_path).num_nodes == {"entity": 3}
    (tmp_path / "two.nt").write_text("<http://e/ann> <http://e#p> _:x .\n")
    assert rdf.read(tmp_path).num_nodes == {"entity": 4}


@pytest.mark.parametrize(
    ("line", "triple"),
    [
        ("<http://a> <http://b> <http://c> .", ("http://a", "http://b", "http://c")),
        ("<http://a><http://b><http://c>.", ("http://a", "http://b", "http://c")),
        ("\t<http://a>\t<http://b> _:c.d\t.\t# end", ("http://a", "http://b", "_:c.d")),
        ("_:a <http://b> _:c.", ("_:a", "http://b", "_:c")),
        ("_:1a-\u00b7é <http://b> _:c .", ("_:1a-\u00b7é", "http://b", "_:c")),
        ('<http://a> <http://b> "c" .', ("http://a", "http://b", '"c"')),
        ('<http://a> <http://b> "" .', ("http://a", "http://b", '""')),
        ('<http://a> <http://b> "c"@en-GB .', ("http://a", "http://b", '"c"@en-gb')),
        ('<http://a> <http://b> "1"^^<http://int> .', ("http://a", "http://b", '"1"^^http://int')),
        (r'<http://a> <http://b> "a\tb\nc\"d\\e\'\r\b\f" .', ("http://a", "http://b", '"a\tb\nc"d\\e\'\r\b\f"')),
        (r'<http://a> <http://b> "\u00e9\U0001F600" .', ("http://a", "http://b", '"é😀"')),
        (r'<http://a> <http://b> "\\u0041" .', ("http://a", "http://b", r'"\u0041"')),
        (r"<http://a/\u00e9> <http://b/\U000000e9> <http://c> .", ("http://a/é", "http://b/é", "http://c")),
        ('<http://a> <http://b> "# no . comment" .', ("http://a", "http://b", '"# no . comment"')),
        ("<http://é> <http://b> <http://c> .", ("http://é", "http://b", "http://c")),
    ],
)
def test_grammar(tmp_path: Path, line: str, triple: tuple[str, str, str]) -> None:
    assert parsed(tmp_path, line + "\n") == [triple]
    assert parsed(tmp_path, line) == [triple]  # the last line needs no end
    assert parsed(tmp_path, f"# before\n\n{line}\r\n \t\n{line}\r# after") == [triple, triple]


@pytest.mark.parametrize(
    "line",
    [
        "<http://a> <http://b> <http://c>",
        "<http://a> <http://b> .",
        "<http://a> <http://b> <http://c> . <http://d>",
        "<http://a> _:b <http://c> .",
        '"a" <http://b> <http://c> .',
        '<http://a> "b" <http://c> .',
        "<http://a b> <http://b> <http://c> .",
        "<http://a> <http://b> 'c' .",
        '<http://a> <http://b> "c .',
        '<http://a> <http://b> "c"d" .',
        r'<http://a> <http://b> "\x" .',
        r'<http://a> <http://b> "\u00" .',
        r'<http://a> <http://b> "\U00110000" .',
        r'<http://a> <http://b> "\uD800" .',
        '<http://a> <http://b> "c"@ .',
        '<http://a> <http://b> "c"^^int .',
        "<http://a> <http://b> <http://c> <http://graph> .",
        "<http://a>\u00a0<http://b> <http://c> .",
        "@prefix e: <http://e/> .",
        "_:. <http://b> <http://c> .",
        "x" * 10_000,
        "<" * 10_000,
        '<http://a> <http://b> "' + "\\" * 9999,
    ],
    ids=range(23),
)
def test_malformed_lines_are_refused_with_their_number(tmp_path: Path, line: str) -> None:
    with refused(FormatError, tmp_path / "some.nt", "line 3"):
        parsed(tmp_path, f"# comment\n<http://a> <http://b> <http://c> .\n{line}\n")


def test_bytes_that_are_not_utf_8_are_refused(tmp_path: Path) -> None:
    with refused(FormatError, tmp_path / "some.nt", "UTF-8"):
        parsed(tmp_path, b'<http://a> <http://b> "\xff" .\n')


def test_damaged_gzip_is_refused(tmp_path: Path) -> None:
    whole = gzip.compress("".join(f"<http://a/{k}> <http://b> <http://c> .\n" for k in range(999)).encode())
    file = tmp_path / "some.nt.gz"
    for data in (whole[:1], whole[:20], whole[: len(whole) // 2], whole[:-3], b"text", whole[:40] + b"\xff" * 40 + whole[80:]):
        file.write_bytes(data)
        with refused(FormatError, file):
            list(rdf.parse(file))


def escaped(text: str, every: bool) -> str:
    short = {"\t": r"\t", "\b": r"\b", "\n": r"\n", "\r": r"\r", "\f": r"\f", '"': r"\"", "\\": r"\\"}
    if every:
        return "".join(f"\\u{ord(c):04X}" if ord(c) < 0x10000 else f"\\U{ord(c):08x}" for c in text)
    return "".join(short.get(c, c) for c in text)


characters = st.characters(exclude_categories=["Cs"])


@given(st.text(characters), st.text(characters), st.booleans(), st.sampled_from(["", "@de-AT", "^^<http://t>"]))
def test_literals_round_trip(tmp_path_factory: pytest.TempPathFactory, first: str, second: str, every: bool, tail: str) -> None:
    folder = tmp_path_factory.getbasetemp()
    text = "".join(f'<http://a> <http://b> "{escaped(value, every)}"{tail} .\n' for value in (first, second))
    suffix = tail.lower().replace("<", "").replace(">", "")
    assert [target for _, _, target in parsed(folder, text)] == [f'"{first}"{suffix}', f'"{second}"{suffix}']


def test_predicates_get_short_names_that_differ(tmp_path: Path) -> None:
    predicates = ["http://a#p", "http://b/p", "http://c/p/", "urn:x:p", "http://d#rev_p", "http://e#"]
    raw = rdf.read(write(tmp_path, "".join(f"<http://e/ann> <{p}> <http://e/bob> .\n" for p in predicates)))
    names = [name for _, name, _ in raw.edges]
    assert len(set(names)) == len(names) == 12
    assert {"p", "p_2", "p_3", "e"} <= set(names)
    assert sum(src.size for src, _ in raw.edges.values()) == 12


def test_missing_parts_are_named(tmp_path: Path) -> None:
    with refused(FormatError, tmp_path / "gone"):
        rdf.read(tmp_path / "gone")
    with refused(FormatError, tmp_path, "*.nt.gz"):
        rdf.read(tmp_path)
    write(tmp_path)
    (tmp_path / "testSet.tsv").unlink()
    with refused(FormatError, tmp_path / "testSet.tsv"):
        rdf.read(tmp_path)


@pytest.mark.parametrize(
    "table",
    [
        "",
        "person\tlabel\n",
        "person\tid\nhttp://e/ann\t1\n",
        "label_a\tlabel_b\nhttp://e/ann\tred\n",
        "person\tlabel_a\tlabel_b\nhttp://e/ann\tred\tblue\n",
        "a\tb\tlabel\nhttp://e/ann\thttp://e/bob\tred\n",
        "person\tlabel\nhttp://e/nobody\tred\n",
    ],
)
def test_tables_of_another_form_are_refused(tmp_path: Path, table: str) -> None:
    with refused(FormatError, tmp_path / "trainingSet.tsv", "columns"):
        rdf.read(write(tmp_path, train=table))


@pytest.mark.parametrize(
    ("row", "got"),
    [("http://e/nobody\tred", "http://e/nobody"), ("http://e/bob\t", "http://e/bob"), ("http://e/bob", "None"), ("\tred", "red")],
)
@pytest.mark.parametrize("first", [True, False])
def test_rows_without_a_known_node_or_a_label_are_refused(tmp_path: Path, row: str, got: str, first: bool) -> None:
    rows = [row, "http://e/ann\tred"] if first else ["http://e/ann\tred", row]
    with refused(FormatError, tmp_path / "trainingSet.tsv", got, "row 2" if first else "row 3"):
        rdf.read(write(tmp_path, train="\n".join(["person\tlabel", *rows])))


def test_cells_beyond_the_header_are_left_alone(tmp_path: Path) -> None:
    raw = rdf.read(write(tmp_path, train="person\tlabel\nhttp://e/ann\tred\tmore\teven more\n"))
    assert raw.features["entity"]["y"].tolist() == [-1, -1, 1, 0]


@pytest.mark.parametrize("data", [b"person\tlabel\n\xff\tred\n", b"person\tlabel\n" + b"x" * 200_000 + b"\tred\n"])
def test_tables_that_cannot_be_read_are_refused(tmp_path: Path, data: bytes) -> None:
    write(tmp_path)
    (tmp_path / "trainingSet.tsv").write_bytes(data)
    with refused(FormatError, tmp_path / "trainingSet.tsv"):
        rdf.read(tmp_path)


def test_aifb() -> None:
    folder = shared_data("aifb")
    triples = list(rdf.parse(folder / "aifb.nt.gz"))
    assert len(triples) == len(set(triples)) == 29_043  # none is stated twice
    raw = rdf.read(folder)
    assert raw.num_nodes == {"entity": 8285}
    assert len(raw.edges) == 2 * 45
    assert sum(src.size for src, _ in raw.edges.values()) == 2 * 29_043
    entity: dict[str, Any] = dict(raw.features["entity"])
    y, split = entity["y"], entity["split"]
    assert [int((split == part).sum()) for part in (0, 1, 2)] == [140, 0, 36]
    assert np.unique(y).tolist() == [-1, 0, 1, 2, 3]
    assert np.array_equal(y >= 0, split >= 0)
