"""`Grower`: its plain twin."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import naive
from tests.strategies import typed_graphs

from gnnhet.datasets.raw import Relation
from gnnhet.samplers.edges import edges_of
from gnnhet.samplers.expand import Hop
from gnnhet.samplers.laws import LAWS
from gnnhet.samplers.pyg.subgraph import Grower, Subgraph, keep_known, unfold
from gnnhet.samplers.rng import stream
from gnnhet.storage import Graph

Found = tuple[dict[str, list[int]], dict[Relation, list[tuple[int, int, int]]]]


def twin(
    graph: Graph, law: str, fanouts: dict[Relation, list[int]], kind: str, seeds: list[int], key: tuple[int, ...], induced: bool
) -> Found:
    """Hop by hop, in lists: (nodes by type, (row, col, stored position) by relation)."""
    nodes: dict[str, list[int]] = {other: [] for other in graph.node_types}
    nodes[kind] = list(seeds)
    edges: dict[Relation, list[tuple[int, int, int]]] = {relation: [] for relation in graph.relations}
    first = dict.fromkeys(nodes, 0)
    for hop in range(len(next(iter(fanouts.values())))):
        ends = {other: len(ids) for other, ids in nodes.items()}
        for index, relation in enumerate(graph.relations):
            indptr, indices = graph.csc(relation)
            base = int(stream(*key, hop, index))
            for col in range(first[relation[2]], ends[relation[2]]):
                start, end = indptr[nodes[relation[2]][col] : nodes[relation[2]][col] + 2].tolist()
                draw = naive.node_key(base, nodes[relation[2]][col])
                for pick in naive.picks(law, draw, end - start, fanouts[relation][hop]):
                    source = int(indices[start + pick])
                    if source not in nodes[relation[0]]:
                        nodes[relation[0]].append(source)
                    edges[relation].append((nodes[relation[0]].index(source), col, start + pick))
        first = ends
    if induced:
        for relation in graph.relations:
            indptr, indices = graph.csc(relation)
            edges[relation] = [
                (nodes[relation[0]].index(int(indices[e])), col, e)
                for col, node in enumerate(nodes[relation[2]])
                for e in range(indptr[node], indptr[node + 1])
                if int(indices[e]) in nodes[relation[0]]
            ]
    return nodes, edges


def as_lists(found: Subgraph) -> Found:
    edges = {
        relation: list(zip(found.row[relation].tolist(), found.col[relation].tolist(), ids.tolist(), strict=True))
        for relation, ids in found.edge.items()
    }
    return {kind: ids.tolist() for kind, ids in found.nodes.items()}, edges


@settings(max_examples=200)
@given(typed_graphs, st.integers(1, 3), st.sampled_from(["uniform", "with_replacement"]), st.booleans(), st.booleans(), st.data())
def test_equals_its_twin(graph: Graph, hops: int, law: str, induced: bool, hashed: bool, data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(graph.node_types))
    seeds = data.draw(st.lists(st.integers(0, graph.num_nodes[kind] - 1), max_size=5))
    fanout = st.one_of(st.just(-1), st.integers(0, 4))
    fanouts = {relation: data.draw(st.lists(fanout, min_size=hops, max_size=hops)) for relation in graph.relations}
    grower = Grower(graph.num_nodes, edges_of(graph), budget_bytes=0 if hashed else 1 << 20)
    for step in range(2):  # nothing is kept of the batch before
        drawn = [
            Hop(
                law=LAWS[law],
                fanouts={relation: counts[hop] for relation, counts in fanouts.items()},
                key=(3, 1, step, hop),
                with_edge_ids=True,
            )
            for hop in range(hops)
        ]
        found = grower.grow({kind: np.array(seeds, np.int64)}, drawn, induced=induced)
        assert as_lists(found) == twin(graph, law, fanouts, kind, seeds, (3, 1, step), induced)
        for other in graph.node_types:
            assert sum(found.nodes_by_hop[other]) == found.nodes[other].numel()


def test_kernels_by_hand() -> None:
    indptr, indices = np.array([0, 2, 2, 5], np.int32), np.array([4, 0, 1, 4, 2], np.int32)
    row, col, edge = np.zeros((3, 5), np.int64)
    unfold(indptr, indices, 7, row, col)
    assert row.tolist() == [4, 0, 1, 4, 2]
    assert col.tolist() == [7, 7, 9, 9, 9]
    assert keep_known(indptr, indices, np.arange(10, 15), 3, row, col, edge) == 3
    assert (row[:3].tolist(), col[:3].tolist(), edge[:3].tolist()) == ([0, 1, 2], [0, 2, 2], [11, 12, 14])
