"""`HGTSampler`: PyG's `BaseSampler` over `BudgetSampler`."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from torch_geometric.sampler import EdgeSamplerInput, HeteroSamplerOutput, NegativeSampling, NodeSamplerInput

from gnnhet.errors import SpecError
from gnnhet.samplers.edges import edges_of
from gnnhet.samplers.hgt import BudgetSampler
from gnnhet.samplers.pyg.keys import seed_of
from gnnhet.samplers.pyg.sampler import KeyedSampler, as_output, check_seeds
from gnnhet.samplers.pyg.subgraph import Grower
from gnnhet.samplers.pyg.topology import read


class HGTSampler(KeyedSampler):
    """Draws nodes of every type by budget, then takes all edges among them.

    Takes the place of PyG's class of this name. May be used by several threads at once.
    """

    def __init__(
        self,
        data: Any,
        num_samples: Sequence[int] | Mapping[str, Sequence[int]],
        is_sorted: bool = False,
        share_memory: bool = False,
        *,
        seed: int | None = None,
    ) -> None:
        """Index the edges and check the numbers of samples.

        Args:
            data: typed: a HeteroData, gnnhet Graph, or (FeatureStore, GraphStore).
            num_samples: nodes that each type draws in each hop: a list, or lists by node type.
            is_sorted: edge_index is sorted by destination: it is then not sorted again.
            share_memory: not needed: worker processes inherit the arrays.
            seed: of all draws; by default what `torch.manual_seed` was last called with.

        Raises:
            SpecError: a graph without types, or numbers that do not fit its types.
            GraphError: edges out of range.
        """
        self.seed = seed_of(seed)
        self._topology = read(data, is_sorted=is_sorted)
        if not self._topology.typed:
            raise SpecError("HGT sampling needs a typed graph, got one without types: use NeighborLoader")
        graph = self._topology.graph
        found = edges_of(graph)
        edges = {relation: found[relation] for relation in self._topology.relations}
        by_type = num_samples if isinstance(num_samples, Mapping) else dict.fromkeys(graph.num_nodes, num_samples)
        self._budgets = BudgetSampler(graph.num_nodes, edges, by_type)
        self._grower = Grower(graph.num_nodes, edges)
        self.num_samples = {node_type: list(counts) for node_type, counts in by_type.items()}
        self.num_hops = self._budgets.num_hops

    def sample_from_nodes(self, index: NodeSamplerInput, *, epoch: int | None = None, **_: Any) -> HeteroSamplerOutput:
        """The subgraph around a batch of nodes.

        Args:
            index: the nodes and their places in the loader's input.
            epoch: part of the key; by default the sampler's own.

        Raises:
            SeedError: a node out of range, or an unknown node type.
        """
        key = self.key_of(epoch, index.input_id, index.node)
        seeds = check_seeds(index.input_type, index.node, self._topology.graph.num_nodes)
        nodes = self._budgets.sample({index.input_type: seeds}, key)
        found = self._grower.grow(nodes, [], induced=True)
        output = as_output(found, self._topology, np.empty(0, np.int64), counted=False)
        output.metadata = (index.input_id, index.time)
        return output

    def sample_from_edges(
        self, index: EdgeSamplerInput, neg_sampling: NegativeSampling | None = None, **_: Any
    ) -> HeteroSamplerOutput:
        """Not defined by the method.

        Raises:
            SpecError: always.
        """
        raise SpecError("HGT sampling starts from nodes, got edges: use LinkNeighborLoader")
