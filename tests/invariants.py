"""What must always hold of a sampled batch."""

import numpy as np

from gnnhet.samplers import Block, MiniBatch
from gnnhet.samplers.neighbor import NeighborSampler


def check_batch(sampler: NeighborSampler, batch: MiniBatch) -> None:
    """Blocks are subgraphs within the fanouts, destinations come first, and layers fit together."""
    assert len(batch.blocks) == sampler.num_layers
    for number, block in enumerate(batch.blocks):
        hop = sampler.num_layers - 1 - number
        check_block(sampler, block, hop)
        if number:
            below = batch.blocks[number - 1]
            for node_type, ids in block.src_of.items():
                assert np.array_equal(ids.numpy(), below.dst_of[node_type].numpy())
    if batch.blocks:
        last = batch.blocks[-1].dst_of
        assert np.array_equal(last[batch.seed_type].numpy(), batch.seeds.numpy())
        for node_type, ids in batch.blocks[0].src_of.items():
            assert np.array_equal(ids.numpy(), batch.input_of[node_type].numpy())


def check_block(sampler: NeighborSampler, block: Block, hop: int) -> None:
    """One block against the graph."""
    for node_type, ids in block.src_of.items():
        new = ids[block.num_dst[node_type] :].numpy()
        assert np.unique(new).size == new.size
        assert not np.isin(new, ids[: block.num_dst[node_type]].numpy()).any()
    for relation in sampler.graph.relations:
        indptr, indices = sampler.graph.csc(relation)
        fanout = sampler.fanouts[relation][hop]
        ends, local = block.indptr_of[relation].numpy(), block.indices_of[relation].numpy()
        src, dst = block.src_of[relation[0]].numpy(), block.dst_of[relation[2]].numpy()
        assert ends.size == dst.size + 1
        assert ends[0] == 0
        assert ends[-1] == local.size
        for i, v in enumerate(dst):
            pool = indices[indptr[v] : indptr[v + 1]].tolist()
            got = src[local[ends[i] : ends[i + 1]]].tolist()
            if sampler.replace and fanout > 0:
                assert len(got) == (fanout if pool else 0)
                assert set(got) <= set(pool)
            else:
                assert len(got) == (len(pool) if fanout < 0 else min(fanout, len(pool)))
                assert all(got.count(u) <= pool.count(u) for u in set(got))
