import functools
import os
import zlib
from pathlib import Path

import numpy as np
import pytest
from tests.datasets.refusals import refused

from gnnhet.datasets import make_wordnet, wordnet
from gnnhet.datasets.files import read_npz
from gnnhet.datasets.raw import Array
from gnnhet.errors import FormatError

LINE = "00001740 03 n 02 entity 0 thing 1 003 ~ 00001930 n 0000 ~ 00001930 n 0102 + 00000007 v 0101 | a Thing; a thing | there  "


def installed() -> Path:
    """WordNet's own files; the test that asks is skipped where they are absent."""
    folder = Path(os.environ.get("WORDNET_DIR", "/usr/share/wordnet"))
    if not (folder / "data.noun").exists():
        pytest.skip("no WordNet in WORDNET_DIR or /usr/share/wordnet: apt-get install wordnet-base")
    return folder


@functools.cache
def made(folder: Path) -> dict[str, Array]:
    return make_wordnet.arrays_of(make_wordnet.read_synsets(folder))


def write(folder: Path, **lines: str) -> Path:
    for name in make_wordnet.FILES:
        (folder / f"data.{name}").write_text("  1 a licence  \n" + lines.get(name, ""))
    return folder


def test_parse_line() -> None:
    synset = make_wordnet.parse_line(LINE)
    assert synset.offset == "00001740"
    assert synset.category == 3
    assert synset.pointers == {("hyponym", "noun", "00001930"), ("derivation", "verb", "00000007")}
    assert synset.gloss == "a Thing; a thing | there"


def test_parse_line_of_a_verb_with_frames_and_hexadecimal_counts() -> None:
    words = " ".join(f"word{k} 0" for k in range(17))
    line = f"00000007 29 v 11 {words} 001 \\ 00000009 s 0000 02 + 02 00 + 08 00 | do"
    synset = make_wordnet.parse_line(line)
    assert synset.category == 29
    assert synset.pointers == {("pertainym", "adjective", "00000009")}


def test_words_are_hashed_without_case() -> None:
    assert make_wordnet.hash_words("A Thing; a-thing 2") == [
        zlib.crc32(word) % make_wordnet.HASHES for word in (b"a", b"thing", b"a", b"thing")
    ]


@pytest.mark.parametrize("line", ["00001740 03 n", "00001740 03 n zz entity 0 000 | x", LINE.replace("~", "?"), "x", ""])
def test_lines_that_are_no_synset_are_named(tmp_path: Path, line: str) -> None:
    with refused(FormatError, tmp_path / "data.noun", "line 2"):
        make_wordnet.read_synsets(write(tmp_path, noun=line + "\n"))


def test_missing_files_and_pointers_to_nothing_are_refused(tmp_path: Path) -> None:
    with refused(FormatError, tmp_path / "data.noun"):
        make_wordnet.read_synsets(tmp_path)
    with refused(FormatError, "00001740"):
        make_wordnet.arrays_of(make_wordnet.read_synsets(write(tmp_path, noun=LINE)))


def test_a_small_net(tmp_path: Path) -> None:
    noun = "\n".join(
        [
            "00000001 03 n 01 a 0 001 ~ 00000002 n 0000 | first words",
            "00000002 04 n 01 b 0 002 @ 00000001 n 0000 + 00000001 v 0000 | second",
        ]
    )
    verb = "00000001 29 v 01 c 0 001 + 00000002 n 0000 00 | third"
    arrays = make_wordnet.arrays_of(make_wordnet.read_synsets(write(tmp_path, noun=noun, verb=verb)))
    assert arrays["relations"].tolist() == [
        ["noun", "derivation", "verb"],
        ["noun", "hypernym", "noun"],
        ["noun", "hyponym", "noun"],
        ["verb", "derivation", "noun"],
    ]
    first = int(np.flatnonzero(arrays["noun_category"] == 3)[0])
    assert arrays["noun_lengths"][first] == 2
    assert arrays["sources2"].tolist() == [first]  # the hyponym pointer is the first's
    assert arrays["degrees2"].tolist() == [int(node != first) for node in (0, 1)]


def test_writing_twice_gives_the_same_bytes(tmp_path: Path) -> None:
    arrays = {"b": np.arange(5), "a": np.array(["x", "yy"])}
    for name, given in (("one", arrays), ("two", dict(reversed(arrays.items())))):
        make_wordnet.write(tmp_path / name, given)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    assert read_npz(tmp_path / "one")["a"].tolist() == ["x", "yy"]


def test_the_shipped_file_can_be_made_again() -> None:
    arrays, shipped = made(installed()), read_npz(wordnet.FILE)
    assert set(arrays) == set(shipped)
    for name, array in shipped.items():
        assert arrays[name].dtype == array.dtype, name
        assert np.array_equal(arrays[name], array), name


def test_writing_it_twice_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("one", "two"):
        make_wordnet.write(tmp_path / name, made(installed()))
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
