"""`HGTSubgraphSampler`: all edges among the nodes that HGT's budgets draw."""

from collections.abc import Mapping, Sequence
from typing import Any

from gnnhet.samplers.hgt import BudgetSampler
from gnnhet.samplers.induced import SubgraphSampler
from gnnhet.samplers.neighbor import Seeds
from gnnhet.samplers.subgraph import Subgraph
from gnnhet.storage.graph import Graph


class HGTSubgraphSampler(SubgraphSampler):
    """Typed subgraphs by budget (Hu, Dong, Wang, Sun, 2020, "Heterogeneous Graph Transformer", algorithm 2).

    Nodes are drawn as `BudgetSampler` says; the subgraph is induced by them. The seeds come first, then the nodes hop after
    hop in the order they were drawn. What is drawn depends on all seeds of the batch together.
    """

    def __init__(
        self, graph: Graph, num_samples: Sequence[int] | Mapping[str, Sequence[int]], seed: int = 0, **options: Any
    ) -> None:
        """Check the numbers of samples.

        Args:
            graph: what to sample from.
            num_samples: nodes that each type draws in each hop: one list for every type, or a list a type.
            seed: of all draws.
            options: as of `SubgraphSampler`.

        Raises:
            SpecError: a type that is unknown or has no numbers, or a negative number.
        """
        super().__init__(graph, seed, **options)
        by_type = num_samples if isinstance(num_samples, Mapping) else dict.fromkeys(graph.node_types, num_samples)
        self._budgets = BudgetSampler(graph.num_nodes, self._edges, by_type, budget_bytes=self._map_budget_bytes)

    def sample(self, seed_ids: Seeds, epoch: int = 0, step: int = 0) -> Subgraph:
        """The subgraph around a batch of seeds.

        Args:
            seed_ids: integers, shape [seeds]; for a typed graph (node type, ids), or ids alone of the labelled type.
            epoch: part of the key.
            step: part of the key.

        Raises:
            SeedError: an id out of range, or an unknown node type.
            FormatError: the graph's arrays are damaged.
            GraphError: 2^31 edges or more of one relation.
        """
        seed_type, seeds = self.resolve_seeds(seed_ids)
        nodes = self._budgets.sample({seed_type: seeds}, (self.seed, epoch, step))
        return self.induce(seed_type, seeds.size, nodes, epoch, step)[0]
