"""Train graph neural networks on unequal devices; placement never changes the result."""

from typing import TYPE_CHECKING, Any

from gnnhet.errors import GnnhetError

if TYPE_CHECKING:
    from gnnhet.devices import discover_devices, parse_devices
    from gnnhet.planning import Plan, plan
    from gnnhet.samplers import MiniBatch, NeighborLoader, NeighborSampler
    from gnnhet.storage import FeatureStore, Graph, load_dataset
    from gnnhet.training import train

__all__ = [
    "FeatureStore",
    "GnnhetError",
    "Graph",
    "MiniBatch",
    "NeighborLoader",
    "NeighborSampler",
    "Plan",
    "discover_devices",
    "load_dataset",
    "parse_devices",
    "plan",
    "train",
]

_LATER = {  # imported on first use: torch and PyG take seconds, which `gnnhet --help` need not wait for
    "FeatureStore": "gnnhet.storage",
    "Graph": "gnnhet.storage",
    "MiniBatch": "gnnhet.samplers",
    "NeighborLoader": "gnnhet.samplers",
    "NeighborSampler": "gnnhet.samplers",
    "Plan": "gnnhet.planning",
    "discover_devices": "gnnhet.devices",
    "load_dataset": "gnnhet.storage",
    "parse_devices": "gnnhet.devices",
    "plan": "gnnhet.planning",
    "train": "gnnhet.training",
}


def __getattr__(name: str) -> Any:
    """Import a public name on first use."""
    if name in _LATER:
        from importlib import import_module

        value = getattr(import_module(_LATER[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'gnnhet' has no attribute {name!r}")
