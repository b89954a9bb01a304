"""`NeighborLoader`, `LinkNeighborLoader` and `HGTLoader` with PyG's parameters and batches."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric import loader as pyg
from torch_geometric.loader import NodeLoader
from torch_geometric.sampler import NegativeSampling
from torch_geometric.sampler.base import SubgraphType

from gnnhet.datasets.raw import HOMOGENEOUS
from gnnhet.errors import SpecError
from gnnhet.samplers.pyg.hgt import HGTSampler
from gnnhet.samplers.pyg.iteration import KeyedLoader
from gnnhet.samplers.pyg.remote import as_pyg, is_typed
from gnnhet.samplers.pyg.sampler import KeyedSampler, NeighborSampler
from gnnhet.storage.graph import Graph


class _KeyedNodeLoader(KeyedLoader):
    """Of nodes."""

    node_sampler: Any

    def _sample(self, index: Any, epoch: int) -> Any:
        sampler, nodes = self.node_sampler, self.input_data[index]
        if isinstance(sampler, KeyedSampler):
            return sampler.sample_from_nodes(nodes, epoch=epoch)
        return sampler.sample_from_nodes(nodes)


class NeighborLoader(_KeyedNodeLoader, pyg.NeighborLoader):  # type: ignore[misc]
    """PyG's loader of this name, over this library's sampler.

    Parameters, their order and defaults are PyG's; `data` may be a `Graph` too, and `seed` (by keyword) sets what all
    draws are keyed by: by default what `torch.manual_seed` was last called with when the loader is made.
    """

    def __init__(
        self,
        data: Any,
        num_neighbors: Any,
        input_nodes: Any = None,
        input_time: Tensor | None = None,
        replace: bool = False,
        subgraph_type: SubgraphType | str = "directional",
        disjoint: bool = False,
        temporal_strategy: str = "uniform",
        time_attr: str | None = None,
        weight_attr: str | None = None,
        transform: Callable[[Any], Any] | None = None,
        transform_sampler_output: Callable[[Any], Any] | None = None,
        is_sorted: bool = False,
        filter_per_worker: bool | None = None,
        neighbor_sampler: Any = None,
        directed: bool = True,
        *,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        """Index the edges, unless a sampler is given that has done so.

        Args:
            data: a Data, HeteroData, Graph, or (FeatureStore, GraphStore).
            num_neighbors: as of `NeighborSampler`.
            input_nodes: ids, a mask, or (node type, either); None for all nodes.
            input_time: a time for each input node, in place of its own.
            replace: as of `NeighborSampler`, as the next six.
            subgraph_type: `directional`, `bidirectional` or `induced`.
            disjoint: every seed grows a subgraph of its own.
            temporal_strategy: `uniform` or `last`.
            time_attr: name of the times.
            weight_attr: name of the weights.
            transform: called on each batch.
            transform_sampler_output: called on what the sampler returned.
            is_sorted: edge_index is sorted by destination.
            filter_per_worker: join features on the workers; with True, the two functions run there too.
            neighbor_sampler: a `BaseSampler` of PyG's or this package's, in place of one made here.
            directed: deprecated in PyG; False means `induced`.
            seed: of all draws.
            kwargs: as of torch's `DataLoader`.

        Raises:
            SpecError: options that exclude each other, or that nobody knows.
            GraphError: edges out of range.
        """
        if input_time is not None and time_attr is None:
            raise SpecError("input_time needs time_attr, the name of the times it is compared with: got none")
        if neighbor_sampler is None:
            neighbor_sampler = NeighborSampler(
                data,
                num_neighbors,
                subgraph_type,
                replace,
                disjoint,
                temporal_strategy,
                time_attr,
                weight_attr,
                is_sorted,
                directed=directed,
                seed=seed,
            )
        elif seed is not None:
            raise SpecError("seed belongs to the sampler: give it to neighbor_sampler, or leave that out")
        self._functions_in_threads = filter_per_worker is True
        data, input_nodes = _as_pyg(data, input_nodes)
        super().__init__(
            data,
            num_neighbors,
            input_nodes=input_nodes,
            input_time=input_time,
            time_attr=time_attr,
            neighbor_sampler=neighbor_sampler,
            transform=transform,
            transform_sampler_output=transform_sampler_output,
            filter_per_worker=filter_per_worker,
            **kwargs,
        )


class HGTLoader(_KeyedNodeLoader, pyg.HGTLoader):  # type: ignore[misc]
    """PyG's loader of this name, over this library's sampler; `data` and `seed` as of `NeighborLoader`."""

    def __init__(
        self,
        data: Any,
        num_samples: Sequence[int] | Mapping[str, Sequence[int]],
        input_nodes: Any,
        is_sorted: bool = False,
        transform: Callable[[Any], Any] | None = None,
        transform_sampler_output: Callable[[Any], Any] | None = None,
        filter_per_worker: bool | None = None,
        *,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        """Index the edges.

        Args:
            data: typed: a HeteroData, Graph, or (FeatureStore, GraphStore).
            num_samples: as of `HGTSampler`.
            input_nodes: a node type, or (node type, ids or a mask).
            is_sorted: edge_index is sorted by destination.
            transform: called on each batch.
            transform_sampler_output: called on what the sampler returned.
            filter_per_worker: as of `NeighborLoader`.
            seed: of all draws.
            kwargs: as of torch's `DataLoader`.

        Raises:
            SpecError: a graph without types, or numbers that do not fit its types.
            GraphError: edges out of range.
        """
        sampler = HGTSampler(data, num_samples, is_sorted, seed=seed)
        self._functions_in_threads = filter_per_worker is True
        data, input_nodes = _as_pyg(data, input_nodes)
        NodeLoader.__init__(  # PyG's HGTLoader would make a sampler of its own
            self,
            data=data,
            node_sampler=sampler,
            input_nodes=input_nodes,
            transform=transform,
            transform_sampler_output=transform_sampler_output,
            filter_per_worker=filter_per_worker,
            **kwargs,
        )


class LinkNeighborLoader(KeyedLoader, pyg.LinkNeighborLoader):  # type: ignore[misc]
    """PyG's loader of this name, over this library's sampler; `data` and `seed` as of `NeighborLoader`."""

    def __init__(
        self,
        data: Any,
        num_neighbors: Any,
        edge_label_index: Any = None,
        edge_label: Tensor | None = None,
        edge_label_time: Tensor | None = None,
        replace: bool = False,
        subgraph_type: SubgraphType | str = "directional",
        disjoint: bool = False,
        temporal_strategy: str = "uniform",
        neg_sampling: NegativeSampling | str | Mapping[str, Any] | None = None,
        neg_sampling_ratio: float | None = None,
        time_attr: str | None = None,
        weight_attr: str | None = None,
        transform: Callable[[Any], Any] | None = None,
        transform_sampler_output: Callable[[Any], Any] | None = None,
        is_sorted: bool = False,
        filter_per_worker: bool | None = None,
        neighbor_sampler: Any = None,
        directed: bool = True,
        *,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        """Index the edges, unless a sampler is given that has done so.

        Args:
            data: a Data, HeteroData, Graph, or (FeatureStore, GraphStore).
            num_neighbors: as of `NeighborSampler`.
            edge_label_index: int [2, links], an edge type, or (edge type, links); None for all edges.
            edge_label: a label for each link.
            edge_label_time: a time for each link.
            replace: as of `NeighborSampler`, as the next three, the times and the weights.
            subgraph_type: `directional`, `bidirectional` or `induced`.
            disjoint: every link grows a subgraph of its own.
            temporal_strategy: `uniform` or `last`.
            neg_sampling: PyG's `NegativeSampling`, or its mode, or its parameters.
            neg_sampling_ratio: deprecated in PyG: that many binary negatives a link.
            time_attr: name of the times.
            weight_attr: name of the weights.
            transform: called on each batch.
            transform_sampler_output: called on what the sampler returned.
            is_sorted: edge_index is sorted by destination.
            filter_per_worker: as of `NeighborLoader`.
            neighbor_sampler: a `BaseSampler` of PyG's or this package's, in place of one made here.
            directed: deprecated in PyG; False means `induced`.
            seed: of all draws, negatives among them.
            kwargs: as of torch's `DataLoader`.

        Raises:
            SpecError: options that exclude each other, or that nobody knows.
            GraphError: edges out of range.
        """
        if (edge_label_time is not None) != (time_attr is not None):
            given = "'edge_label_time' is not set" if edge_label_time is None else "'time_attr' is not set"
            raise SpecError(f"temporal sampling needs both edge_label_time and time_attr, got one: {given}")
        if neighbor_sampler is None:
            neighbor_sampler = NeighborSampler(
                data,
                num_neighbors,
                subgraph_type,
                replace,
                disjoint,
                temporal_strategy,
                time_attr,
                weight_attr,
                is_sorted,
                directed=directed,
                seed=seed,
            )
        elif seed is not None:
            raise SpecError("seed belongs to the sampler: give it to neighbor_sampler, or leave that out")
        self._functions_in_threads = filter_per_worker is True
        data, edge_label_index = _with_links(data, edge_label_index)
        super().__init__(
            data,
            num_neighbors,
            edge_label_index=edge_label_index,
            edge_label=edge_label,
            edge_label_time=edge_label_time,
            time_attr=time_attr,
            neighbor_sampler=neighbor_sampler,
            neg_sampling=neg_sampling,
            neg_sampling_ratio=neg_sampling_ratio,
            transform=transform,
            transform_sampler_output=transform_sampler_output,
            filter_per_worker=filter_per_worker,
            **kwargs,
        )

    def _sample(self, index: Any, epoch: int) -> Any:
        sampler, links = self.link_sampler, self.input_data[index]
        if isinstance(sampler, KeyedSampler):
            return sampler.sample_from_edges(links, neg_sampling=self.neg_sampling, epoch=epoch)
        return sampler.sample_from_edges(links, neg_sampling=self.neg_sampling)


def _as_pyg(data: Any, input_nodes: Any) -> tuple[Any, Any]:
    """A graph as PyG's remote back end, whose loaders want to be told that all nodes are meant."""
    if not isinstance(data, Graph):
        return data, input_nodes
    if input_nodes is None and len(data.node_types) == 1:
        input_nodes = torch.arange(data.num_nodes[data.node_types[0]])
    return as_pyg(data), input_nodes


def _with_links(data: Any, links: Any) -> tuple[Any, Any]:
    """A graph as PyG's remote back end, whose loaders want links with their type, None where there are no types."""
    if isinstance(data, Graph):
        if links is None and not is_typed(data):
            indptr, indices = data.csc(HOMOGENEOUS)
            ends = np.repeat(np.arange(indptr.size - 1), np.diff(indptr))
            links = torch.from_numpy(np.stack([indices.astype(np.int64), ends]))
        data = as_pyg(data)
    if isinstance(data, list | tuple) and isinstance(links, Tensor):
        links = (None, links)
    return data, links
