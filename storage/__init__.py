"""Graphs and their features: in memory, and as a folder of checked, memory-mapped arrays."""

from gnnhet.storage.features import FeatureStore
from gnnhet.storage.graph import Graph
from gnnhet.storage.load import load_dataset
from gnnhet.storage.verify import verify

__all__ = ["FeatureStore", "Graph", "load_dataset", "verify"]
