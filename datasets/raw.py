"""What a reader returns: a graph as plain arrays, before it is checked and indexed.

Readers (`gnnhet.datasets`) know file formats and nothing else; `gnnhet.storage` turns a `RawGraph` into a `Graph`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy.typing as npt

Relation = tuple[str, str, str]
Array = npt.NDArray[Any]

NODE = "node"
HOMOGENEOUS: Relation = (NODE, "to", NODE)
TRAIN, VAL, TEST, NO_SPLIT = 0, 1, 2, -1


@dataclass(frozen=True, kw_only=True)
class RawGraph:
    """A graph as a reader found it.

    Attributes:
        num_nodes: count of each node type.
        edges: per relation (source type, name, destination type) the pair (src, dst) of integer arrays, shape [edges].
        features: per node type named arrays or torch tensors whose first axis is the node. Reserved names: `x` (input
            features, floating), `y` (int64 class, -1 where there is none), `split` (int8: 0 train, 1 validation, 2 test, -1
            none).
        edge_features: per relation named arrays or torch tensors whose first axis is the edge, in the order of `edges`.
        name: what the graph is called in reports.
    """

    num_nodes: Mapping[str, int]
    edges: Mapping[Relation, tuple[Array, Array]]
    features: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    edge_features: Mapping[Relation, Mapping[str, Any]] = field(default_factory=dict)
    name: str = ""
