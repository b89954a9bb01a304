import io
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from gnnhet.datasets.pickles import ArrayUnpickler

numbers = st.one_of(
    hnp.boolean_dtypes(),
    hnp.integer_dtypes(endianness="="),
    hnp.unsigned_integer_dtypes(endianness=">"),
    hnp.floating_dtypes(endianness="<", sizes=(16, 32, 64)),
    hnp.complex_number_dtypes(sizes=(64, 128)),
)
arrays = hnp.arrays(numbers, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))
MATRIX = sp.csr_matrix(np.array([[0, 1, 0], [2, 0, 3]], np.float32))


def loaded(data: bytes) -> Any:
    return ArrayUnpickler(io.BytesIO(data), encoding="latin1").load()


@given(arrays, st.sampled_from("CF"), st.integers(0, 4))
def test_arrays_come_back(array: np.ndarray, order: Any, protocol: int) -> None:
    found = loaded(pickle.dumps(np.asarray(array, order=order), protocol))
    assert (found.dtype, found.shape) == (array.dtype, array.shape)
    assert np.array_equal(found, array, equal_nan=array.dtype.kind in "fc")


@given(numbers.flatmap(lambda dtype: hnp.arrays(dtype, ())), st.integers(0, 4))
def test_scalars_come_back(array: np.ndarray, protocol: int) -> None:
    found = loaded(pickle.dumps(array[()], protocol))
    assert np.array_equal(found, array, equal_nan=array.dtype.kind in "fc")


@pytest.mark.parametrize("protocol", [2, 3, 4])
def test_matrices_and_containers_come_back(protocol: int) -> None:
    array = np.arange(3)
    given = {"m": MATRIX, "list": [array, (array, None)], "text": "a", "dtype": np.dtype("<i4")}
    found = loaded(pickle.dumps(given, protocol))
    assert np.array_equal(found["m"].toarray(), MATRIX.toarray())
    assert (found["m"].dtype, found["text"], found["dtype"]) == (np.float32, "a", np.dtype("<i4"))
    assert found["list"][0] is found["list"][1][0]
    assert found["list"][0].tolist() == [0, 1, 2]


def test_a_list_in_itself_ends() -> None:
    ring: list[Any] = [np.arange(2)]
    ring.append(ring)
    found = loaded(pickle.dumps(ring, 2))
    assert found[1] is found
    assert found[0].tolist() == [0, 1]


@pytest.mark.parametrize(
    "thing",
    [
        np.array([{}], object),
        np.array(["a"]),
        np.array(["2001-01-01"], "datetime64[D]"),
        np.zeros(2, [("a", "i4")]),
        np.ma.masked_array([1]),
        Path("x"),
        print,
    ],
    ids=lambda thing: type(thing).__name__,
)
def test_other_things_are_refused(thing: object) -> None:
    with pytest.raises(pickle.UnpicklingError):
        loaded(pickle.dumps(thing, 2))


def test_a_dtype_with_a_damaged_state_does_not_end_the_process() -> None:
    whole = pickle.dumps(np.arange(4, dtype="<i4"), 2)
    at = whole.index(b"NNNJ")
    with pytest.raises(pickle.UnpicklingError, match="damaged"):  # numpy itself dies of a state that is too short
        loaded(whole[:at] + b"0" + whole[at + 1 :])


def test_sizes_that_a_state_claims_are_not_believed() -> None:
    whole = pickle.dumps(np.arange(4, dtype="<i4"), 2)
    huge = whole.replace(b"J\xff\xff\xff\xffJ\xff\xff\xff\xff", b"J\x00\x00\x00\x40J\x01\x00\x00\x00")  # item size, alignment
    assert huge != whole
    assert loaded(huge).tolist() == [0, 1, 2, 3]
    with pytest.raises(ValueError, match="reshape"):
        loaded(whole.replace(b"K\x04\x85", b"K\x40\x85"))  # 64 numbers in 16 bytes


@pytest.mark.parametrize(("part", "value"), [("indices", [0, 7, 2]), ("indptr", [0, 1, 9]), ("indptr", [0.0, 1.0, 3.0])])
def test_matrices_whose_indices_lead_outside_are_refused(part: str, value: list[float]) -> None:
    matrix = MATRIX.copy()
    setattr(matrix, part, np.array(value, np.int32 if isinstance(value[1], int) else np.float64))
    with pytest.raises((ValueError, pickle.UnpicklingError)):
        loaded(pickle.dumps(matrix, 2))


def test_an_array_without_content_is_refused() -> None:
    with pytest.raises(pickle.UnpicklingError, match="content"):
        loaded(b"cnumpy._core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(I0\ntS'b'\ntR.")


@given(st.data())
def test_any_damage_ends_in_an_ordinary_error(data: st.DataObject) -> None:
    whole = bytearray(pickle.dumps([MATRIX, np.arange(3), np.float32(1)], 2))
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    try:
        loaded(bytes(whole))
    except Exception as error:  # what it is the readers do not ask
        assert not isinstance(error, SystemError)  # noqa: PT017
