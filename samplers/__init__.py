"""Mini-batches from a graph: keyed random draws, layered blocks, and a threaded loader in strict order."""

from gnnhet.samplers.batch import Block, MiniBatch
from gnnhet.samplers.gathering import CacheStats, Tiers
from gnnhet.samplers.link import LinkBatch, LinkSampler
from gnnhet.samplers.link_loader import LinkLoader
from gnnhet.samplers.loader import NeighborLoader
from gnnhet.samplers.neighbor import NeighborSampler

__all__ = [
    "Block",
    "CacheStats",
    "LinkBatch",
    "LinkLoader",
    "LinkSampler",
    "MiniBatch",
    "NeighborLoader",
    "NeighborSampler",
    "Tiers",
]
