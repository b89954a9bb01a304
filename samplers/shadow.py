"""`ShadowSampler`: a small induced subgraph around each seed, kept apart from the others'."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from gnnhet.samplers.buffers import Spares
from gnnhet.samplers.expand import Expansion, Hop
from gnnhet.samplers.induced import SubgraphSampler
from gnnhet.samplers.laws import uniform
from gnnhet.samplers.neighbor import Fanouts, Seeds, check_fanouts, grow_trees
from gnnhet.samplers.subgraph import Subgraph
from gnnhet.storage.graph import Graph


class ShadowSampler(SubgraphSampler):
    """Ego subgraphs (Zeng et al., 2021, "Decoupling the depth and scope of graph neural networks", k-hop extractor).

    Each seed is the root of a tree: in every hop each node first met in the hop before draws min(degree, fanout) of its
    neighbours in each relation, every subset as likely. The root's subgraph is all edges of the graph among the tree's own
    nodes; a model of any depth reads this and nothing beyond. Trees are kept apart: a node that several roots reach stands
    once a tree, and no edge joins two trees.

    What a root's tree holds is a function of (seed, epoch, step) and the root alone: the same whatever other roots stand in
    the batch. The nodes of a type are the roots, in their order, then hop after hop; so the root is its tree's first node.
    """

    divisible = True

    def __init__(self, graph: Graph, fanouts: Fanouts, seed: int = 0, **options: Any) -> None:
        """Check the fanouts.

        Args:
            graph: what to sample from.
            fanouts: the budget: neighbours a node draws in each hop, the roots' own first; -1 takes all. One list for every
                relation, or a list a relation.
            seed: of all draws.
            options: as of `SubgraphSampler`.

        Raises:
            SpecError: fanouts that do not fit, as of `NeighborSampler`.
        """
        super().__init__(graph, seed, **options)
        self.fanouts = check_fanouts(fanouts, graph.relations)
        self.num_hops = len(next(iter(self.fanouts.values()), ()))
        self._expansions = Spares(self._new_expansion)

    def sample(self, seed_ids: Seeds, epoch: int = 0, step: int = 0) -> Subgraph:
        """The subgraphs of a batch of roots, side by side.

        Args:
            seed_ids: integers, shape [seeds]; for a typed graph (node type, ids), or ids alone of the labelled type.
            epoch: part of the key.
            step: part of the key.

        Returns:
            a Subgraph whose `tree_of` is each node's place of its root among the seeds.

        Raises:
            SeedError: an id out of range, or an unknown node type.
            FormatError: the graph's arrays are damaged.
            GraphError: 2^31 edges or more of one relation.
        """
        seed_type, seeds = self.resolve_seeds(seed_ids)
        nodes, trees = self._grow(seed_type, seeds, epoch, step)
        return self.induce(seed_type, seeds.size, nodes, epoch, step, trees=trees, num_trees=seeds.size)[0]

    def _new_expansion(self) -> Expansion:
        return Expansion(self.graph.num_nodes, self._edges, disjoint=True, budget_bytes=self._map_budget_bytes)

    def _grow(
        self, seed_type: str, seeds: npt.NDArray[np.int64], epoch: int, step: int
    ) -> tuple[Mapping[str, npt.NDArray[Any]], Mapping[str, npt.NDArray[Any]]]:
        """(ids, trees) of the nodes of each type."""
        with self._expansions.use() as expansion:
            start = {seed_type: seeds}
            expansion.begin(start, grow_trees(self.seed, start, self.graph.node_types, None))
            first = dict.fromkeys(self.graph.node_types, 0)
            for hop in range(self.num_hops):
                fanouts = {relation: counts[hop] for relation, counts in self.fanouts.items()}
                before = expansion.counts()
                expansion.expand(Hop(law=uniform, fanouts=fanouts, key=(self.seed, epoch, step, hop)), first, self._pool)
                first = before
            nodes, trees = {}, {}
            for node_type in self.graph.node_types:
                ids, tree = expansion.nodes(node_type)
                nodes[node_type], trees[node_type] = ids, np.empty(0, np.int64) if tree is None else tree
            return nodes, trees  # copies: trees are told apart by division
