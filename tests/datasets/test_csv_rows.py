"""Numbers parted by commas, held against the plainest reading."""

import gzip
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.datasets.refusals import refused

from gnnhet.datasets import csv_rows
from gnnhet.errors import FormatError


@given(
    rows=st.integers(1, 3).flatmap(
        lambda columns: st.lists(st.lists(st.floats(width=32), min_size=columns, max_size=columns), min_size=1)
    ),
    most=st.integers(1, 5),
    piece=st.integers(1, 40),
    packed=st.booleans(),
    end=st.sampled_from(["", "\n", "\r\n", "\n\n"]),
)
@settings(deadline=None, max_examples=60)
def test_any_table_in_any_pieces(
    tmp_path_factory: pytest.TempPathFactory, rows: list[list[float]], most: int, piece: int, packed: bool, end: str
) -> None:
    text = "\n".join(" ,".join(map(repr, row)) for row in rows) + end
    path = tmp_path_factory.mktemp("csv") / ("t.csv.gz" if packed else "t.csv")
    path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(csv_rows, "_PIECE_BYTES", max(piece, len(text) // 4))
        table = csv_rows.CsvRows(path, len(rows[0]), len(rows), integer=False)
        found = list(table.read(most))
    assert [len(part) for part in found] == [min(most, len(rows) - start) for start in range(0, len(rows), most)]
    np.testing.assert_array_equal(np.concatenate(found), rows)


def test_integers_and_gaps(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("1,2\n\n3.0, 4e2\n1234567890123456,-5\n")
    table = csv_rows.open_csv(path)
    assert table.integer
    (piece,) = table.read(10)
    assert piece.tolist() == [[1, 2], [3, 400], [1234567890123456, -5]]
    path.write_text("1.5,\n,nan\n")
    (piece,) = csv_rows.open_csv(path).read(10)
    np.testing.assert_array_equal(piece, [[1.5, np.nan], [np.nan, np.nan]])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("1,2\n1\n", "line 2 must be 2 integers"),
        ("1,2\n1,2,3\n", "line 2"),
        ("1,2\n\n1,2.5\n", "line 3"),
        ("1,2\n1,\n", "line 2"),
        ("1,2\n1,9999999999999999999999\n", "line 2"),
        ("1,2\n3,4\n5,6\n", "must have 2 lines"),
        ("1,2\n", "must have 2 lines, as the counts beside it say, got 1"),
        ("1\n", "must have 2 numbers in a line, got 1"),
    ],
)
def test_slips_are_refused(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text(text)
    with refused(FormatError, path, said):
        list(csv_rows.open_csv(path, 2, integer=True, columns=2).read(10))
