"""`Block` and `MiniBatch`: what a sampler returns and a model receives."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

import torch
from torch import Tensor

from gnnhet.datasets.raw import Relation


@dataclass(frozen=True, kw_only=True)
class Block:
    """One layer's sampled bipartite graph.

    Destinations are the first of the sources, type by type. With homogeneous graphs `indptr`, `indices`, `src_ids`,
    `dst_ids` are tensors; with typed ones dicts keyed by relation or node type. The `*_of` dicts are there for both.

    Attributes:
        indptr_of: per relation int32 [destinations + 1].
        indices_of: per relation int32 [edges], local source numbers.
        src_of: per node type int64 [sources], global ids.
        num_dst: per node type how many of the sources are destinations.
        homogeneous: whether the graph has one node type and one relation.
        degree_of: per node type the graph's edges into each source, int64 [sources]; empty unless asked of the sampler.
        edge_ids_of: per relation int64 [edges], ids of the drawn edges; empty unless asked of the sampler.
    """

    indptr_of: Mapping[Relation, Tensor]
    indices_of: Mapping[Relation, Tensor]
    src_of: Mapping[str, Tensor]
    num_dst: Mapping[str, int]
    homogeneous: bool
    degree_of: Mapping[str, Tensor]
    edge_ids_of: Mapping[Relation, Tensor] = field(default_factory=dict)

    def _plain(self, parts: Mapping[Any, Tensor]) -> Any:
        return next(iter(parts.values())) if self.homogeneous else parts

    @property
    def indptr(self) -> Any:
        """int32 [destinations + 1], or a dict of them by relation."""
        return self._plain(self.indptr_of)

    @property
    def indices(self) -> Any:
        """int32 [edges], local source numbers, or a dict of them by relation."""
        return self._plain(self.indices_of)

    @property
    def edge_ids(self) -> Any:
        """int64 [edges], or a dict of them by relation; None or empty unless asked of the sampler."""
        return self._plain(self.edge_ids_of) if self.edge_ids_of or not self.homogeneous else None

    @property
    def src_ids(self) -> Any:
        """int64 [sources], global ids, or a dict of them by node type."""
        return self._plain(self.src_of)

    @property
    def dst_ids(self) -> Any:
        """int64 [destinations], global ids, or a dict of them by node type."""
        return self._plain(self.dst_of)

    @property
    def dst_of(self) -> dict[str, Tensor]:
        """Per node type the global ids of the destinations."""
        return {node_type: ids[: self.num_dst[node_type]] for node_type, ids in self.src_of.items()}

    @property
    def num_edges(self) -> int:
        """Sampled edges of all relations."""
        return sum(int(part.numel()) for part in self.indices_of.values())

    def edge_index(self, relation: Relation) -> Tensor:
        """The edges of a relation as int64 [2, edges]: local source, local destination (PyG's order)."""
        indptr, indices = self.indptr_of[relation], self.indices_of[relation]
        rows = torch.arange(indptr.numel() - 1, device=indptr.device)
        destinations = torch.repeat_interleave(rows, indptr.diff(), output_size=indices.numel())
        return torch.stack([indices.long(), destinations])

    def to(self, device: torch.device | str, *, nodes: bool = True) -> "Block":
        """The block on another device.

        Args:
            device: where.
            nodes: move the lists of nodes too; else only the edges.
        """
        names = [f.name for f in fields(self) if nodes or f.name not in ("src_of", "degree_of")]
        return replace(self, **{name: _moved(getattr(self, name), torch.device(device)) for name in names})


@dataclass(frozen=True, kw_only=True)
class MiniBatch:
    """One step's computation: seeds, blocks (input layer first), and what was gathered for them.

    Attributes:
        seeds: int64 [seeds], global ids in batch order; a model returns one row for each.
        seed_type: their node type.
        blocks: one a layer; the first one's sources are the inputs, the last one's destinations the seeds.
        input_of: per node type int64 [inputs], global ids of the input layer's nodes.
        tree_of: per node type int64 [inputs], the place among the seeds of the one whose tree each belongs to; empty
            unless trees are disjoint.
        features: per node type and name rows of the inputs.
        y: labels of the seeds, or None.
        num_labelled: labelled seeds of the whole step on all ranks: what a summed loss is divided by.
        seed: the sampler's seed.
        epoch: from 0.
        step: from 0 in each epoch.
        homogeneous: whether the graph has one node type and one relation.
    """

    seeds: Tensor
    seed_type: str
    blocks: tuple[Block, ...]
    input_of: Mapping[str, Tensor]
    features: Mapping[str, Mapping[str, Tensor]]
    y: Tensor | None = None
    num_labelled: int = 0
    tree_of: Mapping[str, Tensor] = field(default_factory=dict)
    seed: int = 0
    epoch: int = 0
    step: int = 0
    homogeneous: bool = True

    @property
    def input_ids(self) -> Any:
        """int64 [inputs], global ids of the input layer's nodes, or a dict of them by node type."""
        return next(iter(self.input_of.values())) if self.homogeneous else self.input_of

    @property
    def x(self) -> Any:
        """The inputs' feature `x` (None where there is none), or a dict of them by the node types that have it."""
        found = {node_type: named["x"] for node_type, named in self.features.items() if "x" in named}
        return next(iter(found.values()), None) if self.homogeneous else found

    @property
    def num_edges(self) -> int:
        """Sampled edges of all blocks."""
        return sum(block.num_edges for block in self.blocks)

    @property
    def feature_bytes(self) -> int:
        """Bytes of the gathered features."""
        return sum(t.numel() * t.element_size() for named in self.features.values() for t in named.values())

    def to(self, device: torch.device | str) -> "MiniBatch":
        """The batch on another device, for a model there. The copies are done when it returns.

        Node lists, which the layers share, are copied once.
        """
        there = torch.device(device)
        names = [f.name for f in fields(self) if f.name != "blocks"]
        rest = {name: _moved(getattr(self, name), there) for name in names}
        wholes: list[tuple[Mapping[str, Tensor], Mapping[str, Tensor]]] = [(self.input_of, rest["input_of"])]
        if self.blocks:
            degrees = self.blocks[0].degree_of
            wholes.append((degrees, _moved(degrees, there)))

        def part(node_type: str, ids: Tensor) -> Tensor:
            """Copied with the list that it is the first part of, if it is one."""
            for here, moved in wholes:
                if node_type in here and _begins(ids, here[node_type]):
                    return moved[node_type][: ids.numel()]
            return ids.to(there)

        blocks = tuple(
            replace(
                block.to(there, nodes=False),
                src_of={node_type: part(node_type, ids) for node_type, ids in block.src_of.items()},
                degree_of={node_type: part(node_type, ids) for node_type, ids in block.degree_of.items()},
            )
            for block in self.blocks
        )
        return replace(self, **rest, blocks=blocks)

    def to_pyg(self) -> Any:
        """The union of the blocks as a PyG `Data` or `HeteroData`, seeds first.

        Edges of all layers are put together, duplicates dropped: a PyG model then reads every drawn edge at every layer,
        which is what PyG's own loaders give, not the layered computation of the blocks.
        """
        from torch_geometric.data import Data, HeteroData

        edges = {}
        for relation in self.blocks[0].indptr_of if self.blocks else ():
            every = torch.cat([block.edge_index(relation) for block in self.blocks], dim=1)
            edges[relation] = torch.unique(every, dim=1)
        if self.homogeneous:
            data = Data(edge_index=next(iter(edges.values())), n_id=self.input_ids, batch_size=self.seeds.numel())
            for name, rows in next(iter(self.features.values()), {}).items():
                data[name] = rows
            if self.y is not None:
                data.y = self.y
            return data
        typed = HeteroData()
        for node_type, ids in self.input_of.items():
            typed[node_type].n_id = ids
            for name, rows in self.features.get(node_type, {}).items():
                typed[node_type][name] = rows
        for relation, edge_index in edges.items():
            typed[relation].edge_index = edge_index
        typed[self.seed_type].batch_size = self.seeds.numel()
        if self.y is not None:
            typed[self.seed_type].y = self.y
        return typed

    def to_dgl(self) -> list[Any]:
        """The blocks as DGL's message-flow graphs, input layer first, for a DGL model.

        Global ids are `srcdata[dgl.NID]` and `dstdata[dgl.NID]` (and `edata[dgl.EID]` where edge ids were asked for);
        features are `srcdata` of the first block, labels `dstdata["y"]` of the last. Relations of a typed graph keep their
        triples; a homogeneous graph has DGL's `_N` and `_E`.

        Raises:
            MissingDependencyError: DGL is not installed.
        """
        from gnnhet.samplers import dgl

        return dgl.blocks_of(self)


def _begins(part: Tensor, whole: Tensor) -> bool:
    """Whether a list of ids is the first part of another, in the same memory."""
    return part.numel() <= whole.numel() and 0 != part.data_ptr() == whole.data_ptr() and part.dtype == whole.dtype


def _moved(value: Any, device: torch.device) -> Any:
    """`value` with every tensor inside moved."""
    if isinstance(value, Tensor):
        return value.to(device)
    if isinstance(value, Mapping):
        return {key: _moved(item, device) for key, item in value.items()}
    return value
