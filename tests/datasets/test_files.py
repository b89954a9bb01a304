from pathlib import Path

import numpy as np
import pytest
from tests.datasets.refusals import refused

from gnnhet.datasets.files import existing, one_line, read_npz
from gnnhet.errors import FormatError


def test_a_missing_path_is_named(tmp_path: Path) -> None:
    with refused(FormatError, tmp_path / "gone", "a thing"):
        existing(tmp_path / "gone", "a thing")


def test_npz_comes_back(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "a.npz", a=np.arange(3), b=np.zeros((2, 2)))
    found = read_npz(tmp_path / "a.npz")
    assert {name: array.tolist() for name, array in found.items()} == {"a": [0, 1, 2], "b": [[0, 0], [0, 0]]}


def test_pickled_objects_in_npz_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", a=np.array([{}, []], object))
    with refused(FormatError, tmp_path / "a.npz"):
        read_npz(tmp_path / "a.npz")


@pytest.mark.parametrize("compressed", [True, False])
def test_damaged_npz_is_refused_wherever_it_ends(tmp_path: Path, compressed: bool) -> None:
    file = tmp_path / "a.npz"
    (np.savez_compressed if compressed else np.savez)(file, a=np.arange(100), b=np.ones(50))
    whole = file.read_bytes()
    for end in range(0, len(whole), 29):
        file.write_bytes(whole[:end])
        with refused(FormatError, file):
            read_npz(file)


@pytest.mark.parametrize("compressed", [True, False])
def test_flipped_bytes_never_escape_as_other_errors(tmp_path: Path, compressed: bool) -> None:
    file = tmp_path / "a.npz"
    (np.savez_compressed if compressed else np.savez)(file, a=np.arange(100), b=np.ones(50))
    whole = file.read_bytes()
    refusals: list[str] = []
    for at in range(0, len(whole), 3):
        file.write_bytes(whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :])
        try:
            read_npz(file)
        except FormatError as error:
            refusals.append(str(error))
    assert refusals
    assert not any("\n" in refusal for refusal in refusals)


def test_what_is_no_npz_is_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "array.npy", np.arange(3))
    (tmp_path / "text.npz").write_text("hello")
    for path in (tmp_path / "array.npy", tmp_path / "text.npz", tmp_path):
        with refused(FormatError, path):
            read_npz(path)


def test_errors_become_one_short_line() -> None:
    assert one_line(ValueError("a\n\tb")) == "a b"
    assert one_line(EOFError()) == "EOFError"
    assert len(one_line(ValueError("x" * 1000))) == 200
