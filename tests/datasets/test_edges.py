import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.datasets.refusals import refused

from gnnhet.datasets.edges import add_reverse_relations, drop_duplicates, make_undirected
from gnnhet.datasets.raw import Relation
from gnnhet.errors import GraphError

pairs = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=30)


def ends(found: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    array = np.array(found, np.int64).reshape(-1, 2)
    return array[:, 0], array[:, 1]


@given(pairs)
def test_duplicates_go_and_the_order_is_destination_then_source(found: list[tuple[int, int]]) -> None:
    src, dst = drop_duplicates(*ends(found))
    assert list(zip(dst.tolist(), src.tolist(), strict=True)) == sorted({(d, s) for s, d in found})


@given(pairs, st.booleans())
def test_undirected_holds_both_directions_once(found: list[tuple[int, int]], self_loops: bool) -> None:
    src, dst = make_undirected(*ends(found), self_loops=self_loops)
    kept = {(s, d) for s, d in found if self_loops or s != d}
    assert list(zip(dst.tolist(), src.tolist(), strict=True)) == sorted(kept | {(d, s) for s, d in kept})


@pytest.mark.parametrize("dtype", [np.int32, np.uint8])
def test_narrow_ids_are_widened(dtype: type[np.generic]) -> None:
    src, dst = make_undirected(np.array([0, 200], dtype), np.array([200, 0], dtype))
    assert (str(src.dtype), src.tolist(), dst.tolist()) == ("int64", [200, 0], [0, 200])


def test_reverse_relations_swap_the_ends() -> None:
    one, two = np.array([0, 1]), np.array([5, 6])
    both = add_reverse_relations({("a", "to", "b"): (one, two)})
    assert list(both) == [("a", "to", "b"), ("b", "rev_to", "a")]
    assert both[("b", "rev_to", "a")][0] is two
    assert both[("b", "rev_to", "a")][1] is one


def test_a_relation_named_as_a_reverse_is_refused() -> None:
    end = np.array([0])
    edges: dict[Relation, tuple[np.ndarray, np.ndarray]] = {("a", "x", "b"): (end, end), ("b", "rev_x", "a"): (end, end)}
    with refused(GraphError, "rev_x"):
        add_reverse_relations(edges)
