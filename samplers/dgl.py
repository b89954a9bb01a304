"""Mini-batches as DGL's message-flow graphs."""

from typing import Any

from gnnhet.errors import MissingDependencyError
from gnnhet.samplers.batch import Block, MiniBatch


def blocks_of(batch: MiniBatch) -> list[Any]:
    """`MiniBatch.to_dgl`."""
    try:
        import dgl
    except ImportError as error:
        raise MissingDependencyError(f"to_dgl needs DGL, got {error}: install dgl, or use the blocks as they are") from error
    blocks = [_block(dgl, block) for block in batch.blocks]
    if blocks:
        for node_type, named in batch.features.items():
            nodes = blocks[0].srcnodes["_N" if batch.homogeneous else node_type]
            for name, rows in named.items():
                nodes.data[name] = rows
        if batch.y is not None:
            blocks[-1].dstnodes["_N" if batch.homogeneous else batch.seed_type].data["y"] = batch.y
    return blocks


def _block(dgl: Any, block: Block) -> Any:
    """One layer."""
    kind = next(iter(block.indptr_of.values())).dtype
    no_ids = next(iter(block.indices_of.values())).new_empty(0)
    parts = {
        ("_N", "_E", "_N") if block.homogeneous else relation: ("csc", (indptr, block.indices_of[relation], no_ids))
        for relation, indptr in block.indptr_of.items()
    }
    num_src = {"_N" if block.homogeneous else node_type: ids.numel() for node_type, ids in block.src_of.items()}
    num_dst = {"_N" if block.homogeneous else node_type: count for node_type, count in block.num_dst.items()}
    made = dgl.create_block(parts, num_src_nodes=num_src, num_dst_nodes=num_dst, idtype=kind)
    for node_type, ids in block.src_of.items():
        own = "_N" if block.homogeneous else node_type
        made.srcnodes[own].data[dgl.NID] = ids
        made.dstnodes[own].data[dgl.NID] = ids[: block.num_dst[node_type]]
    for relation, edge_ids in block.edge_ids_of.items():
        made.edges["_E" if block.homogeneous else relation].data[dgl.EID] = edge_ids
    return made
