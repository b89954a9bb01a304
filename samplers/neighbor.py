"""`NeighborSampler`: uniform neighbour sampling into layered blocks."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from gnnhet.datasets.raw import Relation
from gnnhet.errors import FormatError, GraphError, SeedError, SpecError
from gnnhet.jit import frozen
from gnnhet.samplers import kernels
from gnnhet.samplers.batch import Block, MiniBatch
from gnnhet.samplers.rng import stream
from gnnhet.storage.graph import Graph

Fanouts = Sequence[int] | Mapping[Relation, Sequence[int]]
Seeds = npt.ArrayLike | Tensor | tuple[str, Any]
Ints = npt.NDArray[Any]

_MOST_EDGES = 2**31 - 1  # a block's local ids are int32


class NeighborSampler:
    """Draws each node's neighbours uniformly, layer by layer (Hamilton, Ying, Leskovec, 2017, algorithm 2).

    Every layer samples a block of its own for all its destinations, seeds included. What is drawn for a node is a
    function of (seed, epoch, step, layer, relation, node) alone: the same for any batch it stands in, any thread, any
    device. Without replacement a node with no more neighbours than the fanout keeps all, in stored order.

    A seed given twice keeps both places among the destinations, with the same draws.

    `sample` may be called from several threads at once; each needs a map of 4 bytes a node.
    """

    def __init__(
        self, graph: Graph, fanouts: Fanouts, replace: bool = False, *, seed: int = 0, with_degrees: bool = False
    ) -> None:
        """Check the fanouts.

        Args:
            graph: what to sample from.
            fanouts: neighbours a node draws, the seeds' own first; -1 takes all. One list for every relation, or a list
                a relation.
            replace: draw with replacement: exactly the fanout of each node that has neighbours.
            seed: of all draws.
            with_degrees: put the graph's degrees of all sources into the blocks.

        Raises:
            SpecError: a fanout that is neither -1 nor positive, lists of different lengths, or a relation without one.
        """
        self.graph = graph
        self.fanouts = check_fanouts(fanouts, graph.relations)
        self.num_layers = len(next(iter(self.fanouts.values()), ()))
        self.replace = replace
        self.seed = seed
        self.with_degrees = with_degrees
        self._parts = {relation: graph.csc(relation) for relation in graph.relations}
        self._maps: list[dict[str, Ints]] = []  # those not in use, all zeros: one a concurrent call

    def sample(self, seed_ids: Seeds, epoch: int = 0, step: int = 0) -> MiniBatch:
        """The blocks of a batch of seeds.

        Args:
            seed_ids: integers, shape [seeds]; for a typed graph (node type, ids), or ids alone of the labelled type.
            epoch: part of the key.
            step: part of the key.

        Returns:
            a MiniBatch without features.

        Raises:
            SeedError: an id out of range, or an unknown node type.
            FormatError: the graph's arrays are damaged.
        """
        seed_type, seeds = self.resolve_seeds(seed_ids)
        maps = self._maps.pop() if self._maps else self._new_maps()
        nodes = {node_type: np.empty(0, np.int64) for node_type in self.graph.node_types}
        nodes[seed_type] = seeds
        kernels.number_seeds(frozen(seeds), maps[seed_type])
        layers = []
        for layer in range(self.num_layers):
            num_dst = {node_type: ids.size for node_type, ids in nodes.items()}
            edges, nodes = self._expand(layer, nodes, maps, epoch, step)
            layers.append((edges, num_dst, {node_type: ids.size for node_type, ids in nodes.items()}))
        for node_type, ids in nodes.items():
            kernels.forget(frozen(ids), maps[node_type])
        self._maps.append(maps)  # a map that met an error is dropped, not reused
        return self._batch(seed_type, seeds, layers, nodes, epoch, step)

    def resolve_seeds(self, seed_ids: Seeds) -> tuple[str, npt.NDArray[np.int64]]:
        """(node type, ids as int64), checked; a mask of all nodes of the type is taken as the ids it marks.

        Raises:
            SeedError: as `sample`.
        """
        if isinstance(seed_ids, tuple):
            seed_type, given = seed_ids
        else:
            given = seed_ids
            types = self.graph.node_types
            seed_type = types[0] if len(types) == 1 else self.graph.target_type
        if seed_type not in self.graph.num_nodes:
            raise SeedError(f"seeds must be of a node type of the graph ({', '.join(self.graph.node_types)}), got {seed_type!r}")
        ids = np.asarray(given)
        count = self.graph.num_nodes[seed_type]
        if ids.dtype == np.bool_ and ids.shape == (count,):
            ids = np.flatnonzero(ids)
        if ids.ndim != 1 or (ids.size and ids.dtype.kind not in "iu"):
            raise SeedError(f"seeds must be integers on one axis, got {ids.dtype} of shape {ids.shape}")
        if ids.size and (int(ids.min()) < 0 or int(ids.max()) >= count):
            bad = int(ids.min()) if int(ids.min()) < 0 else int(ids.max())
            raise SeedError(f"seeds must be ids of {seed_type} nodes, 0..{count - 1}, got {bad}")
        return seed_type, np.ascontiguousarray(ids, dtype=np.int64)

    def _new_maps(self) -> dict[str, Ints]:
        # zeros cost no memory until a node is seen
        return {node_type: np.zeros(count, np.int32) for node_type, count in self.graph.num_nodes.items()}

    def _expand(
        self, layer: int, nodes: dict[str, Ints], maps: dict[str, Ints], epoch: int, step: int
    ) -> tuple[dict[Relation, tuple[Ints, Ints]], dict[str, Ints]]:
        """One layer: draw for all of `nodes`; the edges of each relation, and `nodes` with the new sources behind."""
        graph = self.graph
        row_ends: dict[Relation, Ints] = {}
        room = {node_type: ids.size for node_type, ids in nodes.items()}
        for relation, (indptr, indices) in self._parts.items():
            ends = np.empty(nodes[relation[2]].size + 1, np.int64)
            fanout = self.fanouts[relation][layer]
            total = kernels.count_draws(indptr, frozen(nodes[relation[2]]), fanout, self.replace, indices.size, ends)
            if total < 0:
                raise FormatError(
                    f"indptr of {relation} must never fall nor pass the edges: the graph's files are damaged; verify it"
                )
            if total > _MOST_EDGES:
                raise GraphError(
                    f"a block holds at most {_MOST_EDGES} edges of a relation, got {total}: use fewer seeds or fanouts"
                )
            row_ends[relation] = ends
            room[relation[0]] += total
        grown, filled = {}, {}
        for node_type, ids in nodes.items():
            grown[node_type] = np.empty(min(room[node_type], ids.size + graph.num_nodes[node_type]), np.int64)
            grown[node_type][: ids.size] = ids
            filled[node_type] = ids.size
        edges = {}
        for number, (relation, (indptr, indices)) in enumerate(self._parts.items()):
            source, _, destination = relation
            ends = row_ends[relation]
            local = np.empty(int(ends[-1]), np.int32)
            base = stream(self.seed, epoch, step, layer, number)
            found = kernels.draw_sources(
                indptr,
                indices,
                frozen(nodes[destination]),
                frozen(ends),
                self.fanouts[relation][layer],
                self.replace,
                base,
                maps[source],
                grown[source],
                filled[source],
                local,
            )
            if found < 0:
                raise FormatError(f"indices of {relation} must be nodes of {source}: the graph's files are damaged; verify it")
            filled[source] = found
            edges[relation] = (ends.astype(np.int32), local)
        return edges, {node_type: ids[: filled[node_type]] for node_type, ids in grown.items()}

    def _batch(
        self,
        seed_type: str,
        seeds: npt.NDArray[np.int64],
        layers: list[tuple[dict[Relation, tuple[Ints, Ints]], dict[str, int], dict[str, int]]],
        nodes: dict[str, Ints],
        epoch: int,
        step: int,
    ) -> MiniBatch:
        """The batch as tensors; node lists of all layers are the first parts of one list."""
        inputs = {node_type: torch.from_numpy(ids) for node_type, ids in nodes.items()}
        degrees = self._degrees(nodes) if self.with_degrees else {}
        blocks = [
            Block(
                indptr_of={relation: torch.from_numpy(ends) for relation, (ends, _) in edges.items()},
                indices_of={relation: torch.from_numpy(local) for relation, (_, local) in edges.items()},
                src_of={node_type: ids[: num_src[node_type]] for node_type, ids in inputs.items()},
                num_dst=num_dst,
                homogeneous=self.graph.homogeneous,
                degree_of={node_type: ids[: num_src[node_type]] for node_type, ids in degrees.items()},
            )
            for edges, num_dst, num_src in reversed(layers)
        ]
        return MiniBatch(
            seeds=torch.from_numpy(seeds),
            seed_type=seed_type,
            blocks=tuple(blocks),
            input_of=inputs,
            features={},
            seed=self.seed,
            epoch=epoch,
            step=step,
            homogeneous=self.graph.homogeneous,
        )

    def _degrees(self, nodes: dict[str, Ints]) -> dict[str, Tensor]:
        """Edges of the graph into each node, summed over relations."""
        found = {node_type: np.zeros(ids.size, np.int64) for node_type, ids in nodes.items()}
        for relation, (indptr, _) in self._parts.items():
            kernels.degrees(indptr, frozen(nodes[relation[2]]), found[relation[2]])
        return {node_type: torch.from_numpy(counts) for node_type, counts in found.items()}


def check_fanouts(fanouts: Fanouts, relations: Sequence[Relation]) -> dict[Relation, tuple[int, ...]]:
    """One tuple of fanouts a relation.

    Raises:
        SpecError: a fanout that is neither -1 nor positive, lists of different lengths, or a relation without one.
    """
    if isinstance(fanouts, Mapping):
        if set(fanouts) != set(relations):
            raise SpecError(f"fanouts by relation must name each of {list(relations)}, got {list(fanouts)}")
        given = {relation: tuple(int(k) for k in fanouts[relation]) for relation in relations}
    else:
        given = dict.fromkeys(relations, tuple(int(k) for k in fanouts))
    if len({len(counts) for counts in given.values()}) > 1:
        raise SpecError("fanouts of all relations must have as many layers, got " + str({len(c) for c in given.values()}))
    for counts in given.values():
        for fanout in counts:
            if fanout < 1 and fanout != -1:
                raise SpecError(f"a fanout must be 1 or more, or -1 for all neighbours, got {fanout}")
    return given
