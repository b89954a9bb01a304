"""PyG's loaders and samplers over this library's kernels: a PyG script changes one import.

`docs/pyg.md` says what is kept and what differs.
"""

from gnnhet.samplers.pyg.hgt import HGTSampler
from gnnhet.samplers.pyg.loader import HGTLoader, LinkNeighborLoader, NeighborLoader
from gnnhet.samplers.pyg.remote import PyGFeatureStore, PyGGraphStore, as_pyg
from gnnhet.samplers.pyg.sampler import NeighborSampler

__all__ = [
    "HGTLoader",
    "HGTSampler",
    "LinkNeighborLoader",
    "NeighborLoader",
    "NeighborSampler",
    "PyGFeatureStore",
    "PyGGraphStore",
    "as_pyg",
]
