"""`ClusterSampler`: subgraphs on groups of a graph's parts."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

from gnnhet.errors import SpecError
from gnnhet.samplers.induced import SubgraphSampler
from gnnhet.samplers.loss_nodes import LossNodes
from gnnhet.samplers.neighbor import Seeds
from gnnhet.samplers.partition import partition
from gnnhet.samplers.rng import PARTS, permutation
from gnnhet.samplers.subgraph import Subgraph
from gnnhet.storage.graph import Graph

Parts = npt.ArrayLike | Tensor | Mapping[str, Any]


class ClusterSampler(SubgraphSampler):
    """Random groups of parts (Chiang et al., 2019, "Cluster-GCN", algorithm 1, stochastic multiple partitions).

    The nodes are cut into parts once. Each epoch permutes the parts, and every step takes the next `parts_per_step` of
    them: its subgraph is induced by all their nodes, edges between the group's parts included. So an epoch holds each node
    once, and any two parts are as likely as any other two to stand in one step.

    The group of a step is a function of (seed, epoch, step). The nodes of the loss come first; both halves go part by part,
    by ascending id.

    Attributes:
        part_of: per node type int64 [nodes], the part of each.
        num_parts: how many there are.
        steps: of an epoch.
    """

    def __init__(
        self,
        graph: Graph,
        parts: Parts | None = None,
        num_parts: int | None = None,
        parts_per_step: int = 1,
        seed: int = 0,
        *,
        seeds: Seeds | None = None,
        **options: Any,
    ) -> None:
        """Check the parts, or cut the graph.

        Args:
            graph: what to sample from.
            parts: integers of 0 or more, shape [nodes], the part of each node; for a typed graph a mapping of them by node
                type. Without, the graph is cut by METIS, which needs pymetis.
            num_parts: how many; by default one more than the largest of `parts`.
            parts_per_step: parts in a group.
            seed: of all draws, and of METIS.
            seeds: whose loss counts, as of `LossNodes`.
            options: as of `SubgraphSampler`.

        Raises:
            SpecError: neither parts nor their number, parts that do not fit the nodes, or a number below 1.
            MissingDependencyError: no parts, and pymetis is not installed.
            SeedError: ids out of range, or an unknown node type.
            GraphError: no seeds, and none or several of the node types have labels.
        """
        super().__init__(graph, seed, **options)
        if parts is None and num_parts is None:
            raise SpecError("either parts or num_parts must be given, got neither: say how many parts METIS is to cut")
        for name, value in (("num_parts", num_parts), ("parts_per_step", parts_per_step)):
            if value is not None and value < 1:
                raise SpecError(f"{name} must be 1 or more, got {value}")
        self.loss = LossNodes(graph, seeds)
        self.part_of = partition(graph, num_parts or 1, seed) if parts is None else _checked(graph, parts)
        most = max((int(own.max()) for own in self.part_of.values() if own.size), default=0)
        self.num_parts = most + 1 if num_parts is None else num_parts
        if most >= self.num_parts:
            raise SpecError(f"parts must be 0..{self.num_parts - 1}, got {most}: leave num_parts out, or raise it")
        self.parts_per_step = parts_per_step
        self.steps = -(-self.num_parts // parts_per_step)
        self._members, self._ends = {}, {}  # nodes part by part, and where each part ends
        for kind, own in self.part_of.items():
            self._members[kind] = np.argsort(own, kind="stable")
            self._ends[kind] = np.concatenate([[0], np.cumsum(np.bincount(own, minlength=self.num_parts))])

    def group(self, epoch: int, step: int) -> npt.NDArray[np.int64]:
        """The parts of one step, ascending.

        Args:
            epoch: part of the key.
            step: part of the key, 0..steps-1.

        Raises:
            SpecError: no such step.
        """
        if not 0 <= step < self.steps:
            raise SpecError(f"a step must be one of an epoch's {self.steps}, 0..{self.steps - 1}, got {step}")
        order = permutation(self.num_parts, self.seed, epoch, PARTS)
        chosen: npt.NDArray[np.int64] = np.sort(order[step * self.parts_per_step : (step + 1) * self.parts_per_step])
        return chosen

    def sample(self, seed_ids: Seeds | None = None, epoch: int = 0, step: int = 0) -> Subgraph:
        """The subgraph of one group of parts.

        Args:
            seed_ids: in place of a drawn group, nodes whose parts are the group, and which are then the seeds. Integers,
                shape [seeds], or (node type, ids).
            epoch: part of the key.
            step: part of the key, 0..steps-1.

        Raises:
            SpecError: no such step.
            SeedError: an id out of range, or an unknown node type.
            FormatError: the graph's arrays are damaged.
            GraphError: 2^31 edges or more of one relation.
        """
        if seed_ids is None:
            kind = self.loss.node_type
            nodes = self._nodes(self.group(epoch, step))
            nodes[kind], num_seeds = self.loss.put_first(nodes[kind])
        else:
            kind, seeds = self.resolve_seeds(seed_ids)
            nodes = self._nodes(np.unique(self.part_of[kind][seeds]))
            rest = nodes[kind][~np.isin(nodes[kind], seeds)]
            nodes[kind], num_seeds = np.concatenate([seeds, rest]), seeds.size
        return self.induce(kind, num_seeds, nodes, epoch, step)[0]

    def _nodes(self, parts: npt.NDArray[np.int64]) -> dict[str, npt.NDArray[np.int64]]:
        """The nodes of some parts, part by part, by type."""
        found = {}
        for kind, members in self._members.items():
            ends = self._ends[kind]
            pieces = [members[ends[part] : ends[part + 1]] for part in parts.tolist()]
            found[kind] = np.concatenate([np.empty(0, np.int64), *pieces])
        return found


def _checked(graph: Graph, parts: Parts) -> dict[str, npt.NDArray[np.int64]]:
    """Parts by node type."""
    if isinstance(parts, Mapping):
        given = {kind: np.asarray(own) for kind, own in parts.items()}
    elif len(graph.node_types) == 1:
        given = {graph.node_types[0]: np.asarray(parts)}
    else:
        raise SpecError(f"parts of a graph of several node types must be arrays by type, {graph.node_types}, got one array")
    if set(given) != set(graph.node_types):
        raise SpecError(f"parts must be given for each node type, {graph.node_types}, got {sorted(given)}")
    found = {}
    for kind, count in graph.num_nodes.items():
        own = given[kind]
        if own.shape != (count,) or (count and own.dtype.kind not in "iu"):
            raise SpecError(f"parts of {kind} must be an integer a node, {count}, got {own.dtype} of shape {own.shape}")
        found[kind] = own.astype(np.int64)
        if count and int(found[kind].min()) < 0:
            raise SpecError(f"parts of {kind} must be 0 or more, got {int(found[kind].min())}: every node must have a part")
    return found
