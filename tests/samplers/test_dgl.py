"""To and from DGL, with the real one: run where it is installed (see benchmarks/peers/make_env.sh)."""

from typing import Any

import numpy as np
import pytest
import torch
from tests.strategies import labelled_graph, typed_labelled_graph

from gnnhet.samplers import NeighborLoader, NeighborSampler
from gnnhet.storage import Graph

dgl: Any = pytest.importorskip("dgl", reason="DGL is not installed", exc_type=ImportError)


def test_blocks_become_message_flow_graphs() -> None:
    graph = labelled_graph()
    loader = NeighborLoader(graph, [4, 3], batch_size=32, shuffle=False, seed=2)
    for batch in loader:
        blocks = batch.to_dgl()
        assert len(blocks) == 2
        for ours, theirs in zip(batch.blocks, blocks, strict=True):
            assert torch.equal(theirs.srcdata[dgl.NID], ours.src_ids)
            assert torch.equal(theirs.dstdata[dgl.NID], ours.dst_ids)
            src, dst = theirs.edges(order="eid")
            assert torch.equal(torch.stack([src, dst]).long(), ours.edge_index(graph.relations[0]))
        assert torch.equal(blocks[0].srcdata["x"], batch.x)
        assert batch.y is not None
        assert torch.equal(blocks[-1].dstdata["y"], batch.y)
        with blocks[0].local_scope():
            blocks[0].update_all(dgl.function.copy_u("x", "m"), dgl.function.sum("m", "h"))
            wanted = torch.zeros(blocks[0].num_dst_nodes(), batch.x.shape[1])
            pairs = batch.blocks[0].edge_index(graph.relations[0])
            wanted.index_add_(0, pairs[1], batch.x[pairs[0]])
            assert torch.allclose(blocks[0].dstdata["h"], wanted, atol=1e-5)


def test_typed_blocks_keep_their_relations_and_edge_ids() -> None:
    graph = typed_labelled_graph()
    batch = NeighborSampler(graph, [3, 2], with_edge_ids=True).sample(("a", np.arange(20)))
    for ours, theirs in zip(batch.blocks, batch.to_dgl(), strict=True):
        for relation in graph.relations:
            src, dst = theirs.edges(etype=relation, order="eid")
            assert torch.equal(torch.stack([src, dst]).long(), ours.edge_index(relation))
            assert torch.equal(theirs.edges[relation].data[dgl.EID], ours.edge_ids_of[relation])
        for node_type, ids in ours.src_of.items():
            assert torch.equal(theirs.srcnodes[node_type].data[dgl.NID], ids)


def test_a_dgl_graph_becomes_ours() -> None:
    src, dst = torch.tensor([0, 3, 1, 1]), torch.tensor([2, 0, 2, 0])
    theirs = dgl.graph((src, dst), num_nodes=5)
    theirs.ndata["feat"] = torch.rand(5, 3)
    theirs.ndata["label"] = torch.tensor([0, 1, 0, 1, 1])
    theirs.ndata["train_mask"] = torch.tensor([True, False, False, True, False])
    theirs.edata["w"] = torch.tensor([1.0, 2.0, 3.0, 4.0])
    graph = Graph.from_dgl(theirs)
    indptr, indices = graph.csc(graph.relations[0])
    assert indptr.tolist() == [0, 2, 2, 4, 4, 4]
    assert indices.tolist() == [3, 1, 0, 1]
    assert graph.features.array(graph.relations[0], "w").tolist() == [2.0, 4.0, 1.0, 3.0]
    assert np.array_equal(graph.features.array("node", "x"), theirs.ndata["feat"].numpy())
    assert graph.split_ids("node", "train").tolist() == [0, 3]


def test_a_typed_dgl_graph_becomes_ours() -> None:
    theirs = dgl.heterograph({("u", "likes", "i"): ([0, 1], [1, 0]), ("i", "of", "u"): ([2], [1])}, {"u": 2, "i": 3})
    graph = Graph.from_dgl(theirs)
    assert graph.num_nodes == {"i": 3, "u": 2}
    assert graph.relations == [("i", "of", "u"), ("u", "likes", "i")]
    assert graph.csc(("u", "likes", "i"))[1].tolist() == [1, 0]
