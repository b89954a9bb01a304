"""A graph's relations as samplers read them: weights checked, rows sorted by time."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

from gnnhet.datasets.raw import Relation
from gnnhet.errors import FormatError, SpecError
from gnnhet.jit import frozen
from gnnhet.samplers import picks, rows
from gnnhet.samplers.laws import Edges, Ints
from gnnhet.storage.graph import Graph

Values = str | npt.ArrayLike | Tensor | Mapping[Relation, Any]


def edges_of(
    graph: Graph, weight: Values | None = None, time: Values | None = None, *, sums: bool = False
) -> dict[Relation, Edges]:
    """Every relation's arrays.

    Args:
        graph: what is sampled from.
        weight: a relation feature's name, or one array for a homogeneous graph, or arrays by relation: 0 or more an edge,
            in stored order. Relations without it weigh all edges the same.
        time: likewise a number an edge; a name may also be a node feature: an edge then has its source's time. Relations
            without it are taken as always there.
        sums: also each row's running sums of the weights, for draws with replacement.

    Raises:
        SpecError: nothing has such a feature, a length differs, or a weight is negative or not finite.
    """
    weights, times = _values(graph, weight, "weight"), _values(graph, time, "time")
    found = {}
    for relation in graph.relations:
        part = graph.part(relation)
        indices, edge_ids = part.indices, part.edge_ids
        given = weights.get(relation)
        own_weights = None if given is None else np.ascontiguousarray(given, np.float64)
        own_times = _as_times(times.get(relation), relation)
        if own_weights is not None or own_times is not None:
            _check_rows(part.indptr, indices.size, relation)
        if own_times is not None and not rows.rows_ascend(part.indptr, frozen(own_times)):
            order = np.empty(indices.size, np.int64)
            rows.order_rows(part.indptr, frozen(own_times), order)
            indices, own_times = frozen(indices[order]), own_times[order]
            own_weights = own_weights if own_weights is None else own_weights[order]
            edge_ids = order if edge_ids is None else edge_ids[order]
        running = None if own_weights is None else _checked_sums(part.indptr, own_weights, relation)
        found[relation] = Edges(
            indptr=part.indptr,
            indices=indices,
            num_src=graph.num_nodes[relation[0]],
            weights=None if own_weights is None else frozen(own_weights),
            sums=running if sums else None,
            times=None if own_times is None else frozen(own_times),
            edge_ids=edge_ids,
        )
    return found


def _values(graph: Graph, given: Values | None, what: str) -> dict[Relation, npt.NDArray[Any]]:
    """Arrays by relation of an option that may be a name, an array, or arrays by relation."""
    if given is None:
        return {}
    if isinstance(given, str):
        found = {
            relation: graph.features.array(relation, given) for relation in graph.relations if graph.features.has(relation, given)
        }
        if what == "time":
            for relation in graph.relations:
                if relation not in found and graph.features.has(relation[0], given):
                    found[relation] = graph.features.array(relation[0], given)[graph.csc(relation)[1]]
        if not found:
            raise SpecError(f"{what} must name a feature of a relation of the graph, got {given!r}: no relation has it")
    elif isinstance(given, Mapping):
        unknown = set(given) - set(graph.relations)
        if unknown:
            raise SpecError(f"{what} must be given for relations of the graph, {graph.relations}, got {sorted(unknown)}")
        found = {relation: np.asarray(values) for relation, values in given.items()}
    elif len(graph.relations) == 1:
        found = {graph.relations[0]: np.asarray(given)}
    else:
        raise SpecError(
            f"{what} must be a feature's name or arrays by relation, since the graph has {len(graph.relations)} relations"
        )
    for relation, values in found.items():
        if values.shape != (graph.num_edges[relation],) or values.dtype.kind not in "biuf":
            raise SpecError(
                f"{what} of {relation} must be one number for each of its {graph.num_edges[relation]} edges, "
                f"got {values.dtype} of shape {values.shape}"
            )
    return found


def _check_rows(indptr: Ints, num_edges: int, relation: Relation) -> None:
    """Files are mapped without being read: refuse damaged rows before whole rows are read."""
    if indptr.size and (int(indptr[0]) != 0 or int(indptr[-1]) != num_edges or bool((indptr[1:] < indptr[:-1]).any())):
        raise FormatError(f"indptr of {relation} must never fall nor pass the edges: the graph's files are damaged; verify it")


def _checked_sums(indptr: Ints, weights: npt.NDArray[np.float64], relation: Relation) -> npt.NDArray[np.float64]:
    """Running sums of each row; the weights are checked on the way."""
    sums = np.empty(weights.size, np.float64)
    bad = picks.add_up_rows(indptr, frozen(weights), sums)
    if bad >= 0:
        raise SpecError(f"weights of {relation} must be finite and 0 or more, got another in the row of node {bad}")
    return frozen(sums)


def _as_times(values: npt.NDArray[Any] | None, relation: Relation) -> npt.NDArray[Any] | None:
    """int64 or float64, without gaps."""
    if values is None:
        return None
    times = np.ascontiguousarray(values, np.float64 if values.dtype.kind == "f" else np.int64)
    if times.dtype.kind == "f" and np.isnan(times).any():
        raise SpecError(f"times of {relation} must be numbers, got NaN: give such edges -inf (always there) or inf (never)")
    return times
