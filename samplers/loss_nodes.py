"""`LossNodes`: whose loss counts, where a sampler chooses its nodes itself."""

import numpy as np
import numpy.typing as npt

from gnnhet.samplers.laws import Ints
from gnnhet.samplers.neighbor import NeighborSampler, Seeds
from gnnhet.storage.graph import Graph


class LossNodes:
    """Some nodes of one type.

    Attributes:
        node_type: theirs.
        inside: bool [nodes of the type], read-only.
    """

    def __init__(self, graph: Graph, seeds: Seeds | None = None) -> None:
        """Mark them.

        Args:
            graph: theirs.
            seeds: as of `NeighborSampler.sample`; without, the training split of the labelled type, or all its nodes where
                there is no split. A graph of one node type needs no labels.

        Raises:
            SeedError: an id out of range, or an unknown node type.
            GraphError: no seeds, and none or several of the node types have labels.
        """
        if seeds is None:
            alone = len(graph.node_types) == 1
            self.node_type = graph.node_types[0] if alone else graph.target_type
            self.inside = np.ones(graph.num_nodes[self.node_type], np.bool_)
            if graph.features.has(self.node_type, "split"):
                ids = graph.split_ids(self.node_type, "train")
                self.inside[:] = False
                self.inside[ids] = True
        else:
            self.node_type, given = NeighborSampler(graph, []).resolve_seeds(seeds)
            self.inside = np.zeros(graph.num_nodes[self.node_type], np.bool_)
            self.inside[given] = True
        self.inside.flags.writeable = False

    def put_first(self, ids: Ints) -> tuple[npt.NDArray[np.int64], int]:
        """(ids with those that count first, both parts in the order given; how many count).

        Args:
            ids: int64 [nodes], of the node type.
        """
        counts = self.inside[ids]
        ordered: npt.NDArray[np.int64] = np.concatenate([ids[counts], ids[~counts]])
        return ordered, int(counts.sum())
