"""Numbers in texts, held against the plainest reading."""

import gzip
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests import naive
from tests.datasets.refusals import refused

from gnnhet.datasets import tokens
from gnnhet.errors import FormatError
from gnnhet.jit import frozen

LINES = st.lists(
    st.one_of(
        st.lists(st.one_of(st.integers(0, 10**18 - 1).map(str), st.sampled_from([" ", "\t", "\r", "  "])), max_size=5).map(
            " ".join
        ),
        st.sampled_from(["% 1 x", "", "1 -2", "x", "10000000000000000000", "1.5", " % 3", "3%"]),
    ),
    max_size=8,
).map("\n".join)


def as_bytes(text: str) -> np.ndarray:
    return np.frombuffer(text.encode(), np.uint8)


@given(text=LINES)
@example(text="1 2\n\n3\n\n")
@example(text="1\r\n2\r\n")
@settings(deadline=None)
def test_integers(text: str) -> None:
    numbers, ends, bad = tokens.integers(as_bytes(text))
    expected_numbers, expected_ends, expected_bad = naive.text_integers(text.replace("\r", " ").encode())
    assert bad == expected_bad
    if bad < 0:
        assert numbers.tolist() == expected_numbers
        assert ends.tolist() == expected_ends
    else:
        assert numbers.tolist()[: len(expected_numbers)] == expected_numbers


@given(text=LINES, most=st.integers(0, 5), valued=st.booleans())
@example(text="1 2 3\n4 5 -6e7", most=2, valued=True)
@example(text="1 2\n4 5", most=5, valued=False)
@example(text="1 2 3 \n4", most=2, valued=True)
@settings(deadline=None)
def test_entries(text: str, most: int, valued: bool) -> None:
    array = as_bytes(text)
    rows, columns = np.empty(most, np.int64), np.empty(most, np.int64)
    spans = np.empty((max(most, 1) if valued else 0, 2), np.int64)
    count, bad = tokens.entries(frozen(array), 0, rows, columns, spans)
    expected, expected_bad = naive.text_entries(text.encode(), most, valued)
    assert (count, bad) == (len(expected), expected_bad)
    assert list(zip(rows[:count].tolist(), columns[:count].tolist(), strict=True)) == [entry[:2] for entry in expected]
    if valued:
        assert [array[begin:end].tobytes() for begin, end in spans[:count].tolist()] == [entry[2] for entry in expected]


NUMBERS = st.one_of(
    st.floats().map(repr),
    st.floats().map(lambda value: f"{value:.4g}"),
    st.integers(-(10**20), 10**20).map(str),
    st.decimals(allow_nan=False, allow_infinity=False, places=8).map(str),
    st.sampled_from(
        ["+1", "-.5", "5.", ".5e-3", "1E22", "1e23", "1e-22", "-0", "-0.0", "inf", "-Inf", "NaN", "0001.50", "1e+05"]
    ),
)


@given(texts=st.lists(NUMBERS))
@settings(deadline=None)
def test_values_are_those_of_python(texts: list[str]) -> None:
    text = as_bytes(" ".join(texts))
    stops = np.cumsum([len(token) + 1 for token in texts], dtype=np.int64) - 1
    spans = np.stack([stops - [len(token) for token in texts], stops], axis=1).astype(np.int64).reshape(-1, 2)
    reals, wholes, bad = tokens.values(text, spans)
    assert bad == -1
    np.testing.assert_array_equal(reals, [float(token) for token in texts])
    np.testing.assert_array_equal(np.signbit(reals), np.signbit([float(token) for token in texts]))
    if wholes is not None:
        assert wholes.tolist() == [int(token) for token in texts]


@pytest.mark.parametrize("token", ["1_0", "0x1", "1e", "e5", ".", "-", "1.2.3", "--1", "1e+", "1e5x", "nanx", "é"])
def test_what_is_no_number(token: str) -> None:
    text = as_bytes(f"7 {token}")
    spans = np.array([[0, 1], [2, text.size]])
    assert tokens.values(text, spans)[2] == 2


def test_lines_are_found_and_shown() -> None:
    text = as_bytes("ab\ncd ef\ngh")
    assert [tokens.line_of(text, position) for position in (0, 3, 6, 9)] == [1, 2, 2, 3]
    assert tokens.shown(text, 6) == "'cd ef'"


def test_texts_are_unpacked_and_damaged_ones_named(tmp_path: Path) -> None:
    packed = gzip.compress(b"1 2\n" * 100)
    (tmp_path / "a.gz").write_bytes(packed)
    assert tokens.read_text(tmp_path / "a.gz", "a file").tobytes() == b"1 2\n" * 100
    (tmp_path / "b.gz").write_bytes(packed[:-9])
    for bad in (tmp_path / "b.gz", tmp_path, tmp_path / "gone"):
        with refused(FormatError, bad):
            tokens.read_text(bad, "a file")
