"""`Subgraph`: one sampled graph that serves every layer of a model."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

import torch
from torch import Tensor

from gnnhet.datasets.raw import Relation
from gnnhet.samplers.batch import Block, MiniBatch


@dataclass(frozen=True, kw_only=True, eq=False)
class Subgraph:
    """Nodes and edges of a sampled graph, by local numbers; a node's number is its place among the nodes of its type.

    The seeds, whose representations a loss reads, are the first nodes of their type. With homogeneous graphs `ids`, `indptr`,
    `indices`, `edge_ids` and `edge_weight` are tensors; with typed ones dicts keyed by node type or relation. The `*_of`
    dicts are there for both.

    Attributes:
        ids_of: per node type int64 [nodes], global ids.
        indptr_of: per relation int32 [destinations + 1].
        indices_of: per relation int32 [edges], local numbers of the sources.
        seed_type: node type of the seeds.
        num_seeds: how many of its nodes are seeds.
        edge_ids_of: per relation int64 [edges]; empty unless asked of the sampler.
        tree_of: per node type int64 [nodes], the place among the seeds of the root that each node belongs to; empty unless
            the sampler keeps trees apart.
        node_weight_of: per node type float32 [nodes], what a node's loss is multiplied by so that sums over subgraphs are
            unbiased; empty where the sampler knows none.
        edge_weight_of: per relation float32 [edges], what a message is multiplied by, likewise.
        features: per node type and name rows of the nodes.
        y: labels of the seeds, or None.
        num_labelled: labelled seeds of the whole step on all ranks: what a summed loss is divided by.
        seed: the sampler's seed.
        epoch: from 0.
        step: from 0 in each epoch.
        homogeneous: whether the graph has one node type and one relation.
    """

    ids_of: Mapping[str, Tensor]
    indptr_of: Mapping[Relation, Tensor]
    indices_of: Mapping[Relation, Tensor]
    seed_type: str
    num_seeds: int
    edge_ids_of: Mapping[Relation, Tensor] = field(default_factory=dict)
    tree_of: Mapping[str, Tensor] = field(default_factory=dict)
    node_weight_of: Mapping[str, Tensor] = field(default_factory=dict)
    edge_weight_of: Mapping[Relation, Tensor] = field(default_factory=dict)
    features: Mapping[str, Mapping[str, Tensor]] = field(default_factory=dict)
    y: Tensor | None = None
    num_labelled: int = 0
    seed: int = 0
    epoch: int = 0
    step: int = 0
    homogeneous: bool = True

    def _plain(self, parts: Mapping[Any, Tensor]) -> Any:
        return next(iter(parts.values()), None) if self.homogeneous else parts

    @property
    def ids(self) -> Any:
        """int64 [nodes], global ids, or a dict of them by node type."""
        return self._plain(self.ids_of)

    @property
    def indptr(self) -> Any:
        """int32 [destinations + 1], or a dict of them by relation."""
        return self._plain(self.indptr_of)

    @property
    def indices(self) -> Any:
        """int32 [edges], local numbers of the sources, or a dict of them by relation."""
        return self._plain(self.indices_of)

    @property
    def edge_ids(self) -> Any:
        """int64 [edges], or a dict of them by relation; None or empty unless asked of the sampler."""
        return self._plain(self.edge_ids_of)

    @property
    def node_weight(self) -> Any:
        """float32 [nodes], or a dict of them by node type; None or empty where the sampler knows none."""
        return self._plain(self.node_weight_of)

    @property
    def edge_weight(self) -> Any:
        """float32 [edges], or a dict of them by relation; None or empty where the sampler knows none."""
        return self._plain(self.edge_weight_of)

    @property
    def x(self) -> Any:
        """The nodes' feature `x` (None where there is none), or a dict of them by the node types that have it."""
        return self._plain({node_type: named["x"] for node_type, named in self.features.items() if "x" in named})

    @property
    def seeds(self) -> Tensor:
        """int64 [seeds], global ids."""
        return self.ids_of[self.seed_type][: self.num_seeds]

    @property
    def num_edges(self) -> int:
        """Edges of all relations."""
        return sum(int(part.numel()) for part in self.indices_of.values())

    def edge_index(self, relation: Relation) -> Tensor:
        """The edges of a relation as int64 [2, edges]: local source, local destination; by destination."""
        indptr, indices = self.indptr_of[relation], self.indices_of[relation]
        rows = torch.arange(indptr.numel() - 1, device=indptr.device)
        destinations = torch.repeat_interleave(rows, indptr.diff(), output_size=indices.numel())
        return torch.stack([indices.long(), destinations])

    def to(self, device: torch.device | str) -> "Subgraph":
        """The subgraph on another device. The copies are done when it returns."""
        there = {f.name: _moved(getattr(self, f.name), torch.device(device)) for f in fields(self)}
        return replace(self, **there)

    def to_batch(self, num_layers: int) -> MiniBatch:
        """The same edges as blocks, for a model of that many layers.

        Every layer reads the whole subgraph; the last one's destinations are the seeds alone. The blocks' degrees are those
        of the subgraph. Weights of nodes and edges have no place in a MiniBatch: read them here.

        Args:
            num_layers: 0 or more; with 0 the inputs are the seeds alone.
        """
        most = {kind: self.num_seeds if kind == self.seed_type else 0 for kind in self.ids_of}
        count = most if num_layers == 0 else {kind: ids.numel() for kind, ids in self.ids_of.items()}
        blocks: tuple[Block, ...] = ()
        if num_layers:
            blocks = (*[self._block(count)] * (num_layers - 1), self._block(most))
        return MiniBatch(
            seeds=self.seeds,
            seed_type=self.seed_type,
            blocks=blocks,
            input_of={kind: ids[: count[kind]] for kind, ids in self.ids_of.items()},
            features={kind: {name: rows[: count[kind]] for name, rows in named.items()} for kind, named in self.features.items()},
            y=self.y,
            num_labelled=self.num_labelled,
            tree_of={kind: trees[: count[kind]] for kind, trees in self.tree_of.items()},
            seed=self.seed,
            epoch=self.epoch,
            step=self.step,
            homogeneous=self.homogeneous,
        )

    def _block(self, num_dst: Mapping[str, int]) -> Block:
        """The edges into the first nodes of each type."""
        indptr_of = {relation: indptr[: num_dst[relation[2]] + 1] for relation, indptr in self.indptr_of.items()}
        ends = {relation: int(indptr[-1]) for relation, indptr in indptr_of.items()}
        degree_of = {kind: ids.new_zeros(ids.numel()) for kind, ids in self.ids_of.items()}
        for relation, indptr in self.indptr_of.items():
            degree_of[relation[2]] += indptr.diff()
        return Block(
            indptr_of=indptr_of,
            indices_of={relation: self.indices_of[relation][:end] for relation, end in ends.items()},
            edge_ids_of={relation: ids[: ends[relation]] for relation, ids in self.edge_ids_of.items()},
            src_of=self.ids_of,
            num_dst=num_dst,
            homogeneous=self.homogeneous,
            degree_of=degree_of,
        )

    def to_pyg(self) -> Any:
        """The subgraph as a PyG `Data` or `HeteroData`.

        `n_id` and `e_id` are global ids, `batch` the tree of each node where trees are kept apart, `batch_size` the count of
        seeds, `node_weight` and `edge_weight` the weights where there are any; `y` has a label a seed.
        """
        from torch_geometric.data import Data, HeteroData

        if self.homogeneous:
            (relation,), (kind,) = self.indptr_of, self.ids_of
            data = Data(edge_index=self.edge_index(relation))
            self._fill(data, data, kind, relation)
            return data
        typed = HeteroData()
        for kind in self.ids_of:
            self._fill(typed[kind], None, kind, None)
        for relation in self.indptr_of:
            typed[relation].edge_index = self.edge_index(relation)
            self._fill(None, typed[relation], None, relation)
        return typed

    def _fill(self, nodes: Any, edges: Any, kind: str | None, relation: Relation | None) -> None:
        """Put what there is of a node type and of a relation into PyG's stores."""
        if kind is not None:
            nodes.n_id, nodes.num_nodes = self.ids_of[kind], self.ids_of[kind].numel()
            for name, parts in (("batch", self.tree_of), ("node_weight", self.node_weight_of)):
                if kind in parts:
                    nodes[name] = parts[kind]
            for name, rows in self.features.get(kind, {}).items():
                nodes[name] = rows
            if kind == self.seed_type:
                nodes.batch_size = self.num_seeds
                if self.y is not None:
                    nodes.y = self.y
        if relation is not None:
            for name, values in (("e_id", self.edge_ids_of), ("edge_weight", self.edge_weight_of)):
                if relation in values:
                    edges[name] = values[relation]


def _moved(value: Any, device: torch.device) -> Any:
    """`value` with every tensor inside moved."""
    if isinstance(value, Tensor):
        return value.to(device)
    if isinstance(value, Mapping):
        return {key: _moved(item, device) for key, item in value.items()}
    return value
