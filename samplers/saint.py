"""`SaintSampler`: GraphSAINT's subgraphs with the weights that make their sums unbiased."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from gnnhet.datasets.raw import Relation
from gnnhet.errors import FormatError, SeedError, SpecError
from gnnhet.jit import kernel
from gnnhet.samplers.induced import SubgraphSampler
from gnnhet.samplers.inducer import InducedEdges
from gnnhet.samplers.laws import Ints
from gnnhet.samplers.loss_nodes import LossNodes
from gnnhet.samplers.neighbor import Seeds
from gnnhet.samplers.picks import unit
from gnnhet.samplers.rng import PRESAMPLES, ROOTS, WALKS, below, stream
from gnnhet.samplers.subgraph import Subgraph
from gnnhet.samplers.walks import Walks
from gnnhet.storage.graph import Graph

SAINT_LAWS = ("edge", "node", "walk")

Floats = npt.NDArray[np.float64]
Visited = dict[str, npt.NDArray[np.int64]]


class SaintSampler(SubgraphSampler):
    """Subgraphs on the nodes that random walks visit, or on drawn nodes or edges (Zeng et al., 2020, "GraphSAINT").

    The laws, of algorithm 1; all draws of a step are with replacement, and its subgraph is induced by the nodes that were
    met:

    - `walk`: `size` roots, each node as likely, and from each a walk of `walk_length` steps over edges into the node.
    - `node`: `size` nodes u in proportion to the sum over edges from u to v of 1 / degree(v)^2.
    - `edge`: `size` edges from u to v in proportion to 1 / degree(u) + 1 / degree(v).

    A typed graph is read as the one graph of all its relations' edges: degrees count the edges of every relation into a
    node, and a walk takes each of them as likely.

    The weights, of section 3.2: subgraphs drawn beforehand, under keys of their own, count how often each node and each edge
    is met, C(v) and C(u, v) of N. `node_weight` is N / C(v) (1 / lambda): a sum of losses with these weights is, in
    expectation, the sum over the whole graph. `edge_weight` is C(v) / C(u, v) (1 / alpha) of an edge into v: a sum of
    messages with these weights is, in expectation over the subgraphs that v is in, the sum over all edges into v. What was
    never met counts as met once.

    What is drawn is a function of (seed, epoch, step). The nodes of the loss come first, each part by ascending id.

    Attributes:
        steps: of an epoch.
        num_presampled: subgraphs that the weights were counted in.
    """

    def __init__(
        self,
        graph: Graph,
        size: int,
        walk_length: int = 2,
        seed: int = 0,
        *,
        law: str = "walk",
        seeds: Seeds | None = None,
        roots: Seeds | None = None,
        steps: int | None = None,
        coverage: int = 50,
        **options: Any,
    ) -> None:
        """Check the options, and count what the weights need.

        Args:
            graph: what to sample from.
            size: roots, nodes or edges that a step draws.
            walk_length: steps of a walk.
            seed: of all draws.
            law: of `SAINT_LAWS`.
            seeds: whose loss counts, as of `LossNodes`.
            roots: ids, or (node type, ids): where walks may begin; by default at every node of the type of the loss.
            steps: of an epoch; by default so many that as many nodes are drawn as the graph has.
            coverage: subgraphs are drawn beforehand until together they have this many times the graph's nodes, for which
                4 bytes a node and an edge are held; 0 for no weights.
            options: as of `SubgraphSampler`.

        Raises:
            SpecError: an unknown law, a number below its least, or a law that needs edges on a graph without.
            SeedError: ids out of range, an unknown node type, or no roots.
            GraphError: no seeds, and none or several of the node types have labels.
            FormatError: the graph's arrays are damaged.
        """
        super().__init__(graph, seed, **options)
        if law not in SAINT_LAWS:
            raise SpecError(f"law must be one of {', '.join(SAINT_LAWS)}, got {law!r}")
        given = (
            ("size", size, 1),
            ("walk_length", walk_length, 0),
            ("coverage", coverage, 0),
            ("steps", 1 if steps is None else steps, 1),
        )
        for name, value, least in given:
            if value < least:
                raise SpecError(f"{name} must be {least} or more, got {value}")
        self.size, self.walk_length, self.law = size, walk_length, law
        self.loss = LossNodes(graph, seeds)
        self._walks = Walks(graph.node_types, self._edges)
        self._root_type, self._roots = self._resolve_roots(roots)
        self._sums = self._draw_sums()
        drawn = size * {"walk": walk_length + 1, "node": 1, "edge": 2}[law]
        self.steps = steps if steps is not None else -(-sum(graph.num_nodes.values()) // drawn)
        self.num_presampled = 0
        self._node_counts: dict[str, npt.NDArray[np.int32]] = {}
        self._edge_counts: dict[Relation, npt.NDArray[np.int32]] = {}
        if coverage:
            self._count(coverage)

    def sample(self, seed_ids: Seeds | None = None, epoch: int = 0, step: int = 0) -> Subgraph:
        """One subgraph.

        Args:
            seed_ids: roots of the walks, in place of drawn ones: they are then the seeds, and there are no weights, which
                are those of drawn roots. Integers, shape [seeds], or (node type, ids).
            epoch: part of the key.
            step: part of the key.

        Raises:
            SpecError: roots for a law without walks.
            SeedError: an id out of range, or an unknown node type.
            FormatError: the graph's arrays are damaged.
            GraphError: 2^31 edges or more of one relation.
        """
        key = (self.seed, epoch, step)
        if seed_ids is None:
            return self._weighted(*self._induce(self._visit(key), epoch, step))
        if self.law != "walk":
            raise SpecError(f"the law {self.law} draws its nodes itself, got seeds: leave them out, or use the law `walk`")
        seed_type, seeds = self.resolve_seeds(seed_ids)
        visited = self._walk(seed_type, seeds, key)
        rest = np.setdiff1d(visited[seed_type], seeds, assume_unique=False)
        visited[seed_type] = np.concatenate([seeds, rest])
        return self.induce(seed_type, seeds.size, visited, epoch, step)[0]

    def _resolve_roots(self, roots: Seeds | None) -> tuple[str, npt.NDArray[np.int64]]:
        """(node type, ids) of where walks may begin; no ids for all nodes of the type."""
        if roots is None:
            if self.law == "walk" and not self.graph.num_nodes[self.loss.node_type]:
                raise SeedError(f"walks must begin somewhere, got no {self.loss.node_type} nodes: give roots of another type")
            return self.loss.node_type, np.empty(0, np.int64)
        if self.law != "walk":
            raise SpecError(f"roots are where walks begin, got some with the law {self.law}: leave them out")
        root_type, ids = self.resolve_seeds(roots)
        if not ids.size:
            raise SeedError("roots must be at least one node, got none")
        return root_type, ids

    def _draw_sums(self) -> Floats:
        """Running sums of what each node (type by type) or each edge (relation by relation) is drawn in proportion to."""
        if self.law == "walk":
            return np.empty(0)
        if not sum(self.graph.num_edges.values()):
            raise SpecError(f"the law {self.law} must have edges to draw by, got a graph without: use the law `walk`")
        degree_of = {kind: np.zeros(count, np.int64) for kind, count in self.graph.num_nodes.items()}
        for relation, edges in self._edges.items():
            degree_of[relation[2]] += np.diff(edges.indptr)
        parts = [np.zeros(count) for count in self.graph.num_nodes.values()]
        norm_of = dict(zip(degree_of, parts, strict=True))
        if self.law == "edge":
            parts = [np.zeros(edges.indices.size) for edges in self._edges.values()]
        for number, (relation, edges) in enumerate(self._edges.items()):
            graph = (edges.indptr, edges.indices, degree_of[relation[0]], degree_of[relation[2]])
            whole = weigh_edges(*graph, parts[number]) if self.law == "edge" else add_norms(*graph, norm_of[relation[0]])
            if not whole:
                raise FormatError(
                    f"indptr and indices of {relation} must be rows of nodes: the graph's files are damaged; verify it"
                )
        sums: Floats = np.cumsum(np.concatenate(parts))
        return sums

    def _visit(self, key: tuple[int, ...]) -> Visited:
        """The nodes of one subgraph, ascending, by type."""
        base = stream(*key, ROOTS)
        if self.law == "walk":
            picks = np.empty(self.size, np.int64)
            fill_below(base, self._roots.size or self.graph.num_nodes[self._root_type], picks)
            return self._walk(self._root_type, self._roots[picks] if self._roots.size else picks, key)
        units = np.empty(self.size)
        fill_units(base, units)
        picks = np.searchsorted(self._sums, units * self._sums[-1])  # the first whose sum is as much: never one of weight 0
        met: dict[str, list[Ints]] = {kind: [] for kind in self.graph.node_types}
        first = 0
        if self.law == "node":
            for kind, count in self.graph.num_nodes.items():
                met[kind].append(picks[(picks >= first) & (picks < first + count)] - first)
                first += count
        else:
            for relation, edges in self._edges.items():
                own = picks[(picks >= first) & (picks < first + edges.indices.size)] - first
                met[relation[0]].append(edges.indices[own])
                met[relation[2]].append(np.searchsorted(edges.indptr, own, side="right") - 1)
                first += edges.indices.size
        return {kind: np.unique(np.concatenate([np.empty(0, np.int64), *parts])) for kind, parts in met.items()}

    def _walk(self, root_type: str, roots: npt.NDArray[np.int64], key: tuple[int, ...]) -> Visited:
        """The nodes that walks from these roots visit, ascending, by type."""
        kinds, nodes = self._walks.walk(root_type, roots, self.walk_length, stream(*key, WALKS))
        return {kind: np.unique(nodes[kinds == number]) for number, kind in enumerate(self.graph.node_types)}

    def _induce(self, visited: Visited, epoch: int, step: int) -> tuple[Subgraph, dict[Relation, InducedEdges]]:
        """Those of the loss first."""
        visited[self.loss.node_type], num_seeds = self.loss.put_first(visited[self.loss.node_type])
        keep = bool(self._edge_counts)
        return self.induce(self.loss.node_type, num_seeds, visited, epoch, step, with_positions=keep)

    def _count(self, coverage: int) -> None:
        """Draw subgraphs beforehand and count what they hold."""
        self._node_counts = {kind: np.zeros(count, np.int32) for kind, count in self.graph.num_nodes.items()}
        self._edge_counts = {relation: np.zeros(count, np.int32) for relation, count in self.graph.num_edges.items()}
        missing = coverage * sum(self.graph.num_nodes.values())
        while missing > 0:
            subgraph, found = self._induce(self._visit((self.seed, PRESAMPLES, self.num_presampled)), 0, 0)
            for kind, ids in subgraph.ids_of.items():
                self._node_counts[kind][ids.numpy()] += 1  # each stands once
                missing -= ids.numel()
            for relation, part in found.items():
                if part.positions is not None:
                    self._edge_counts[relation][part.positions.numpy()] += 1
            self.num_presampled += 1

    def _weighted(self, subgraph: Subgraph, found: Mapping[Relation, InducedEdges]) -> Subgraph:
        """With its weights, where they were counted."""
        if not self.num_presampled:
            return subgraph
        counts = {
            kind: np.maximum(self._node_counts[kind][ids.numpy()], 1).astype(np.float32) for kind, ids in subgraph.ids_of.items()
        }
        edge_weight_of = {}
        for relation, part in found.items():
            if part.positions is not None:
                met = np.maximum(self._edge_counts[relation][part.positions.numpy()], 1)
                into = np.repeat(counts[relation[2]], np.diff(part.indptr.numpy()))
                edge_weight_of[relation] = torch.from_numpy((into / met).astype(np.float32))
        weights = {kind: torch.from_numpy(np.float32(self.num_presampled) / own) for kind, own in counts.items()}
        return replace(subgraph, node_weight_of=weights, edge_weight_of=edge_weight_of)


@kernel
def fill_below(base: np.uint64, bound: int, out: Ints) -> None:
    """Draws of one key as integers in 0..bound-1, each exactly as likely."""
    for i in range(out.size):
        out[i] = below(base, i, bound)


@kernel
def fill_units(base: np.uint64, out: Floats) -> None:
    """Draws of one key as numbers of (0, 1]."""
    for i in range(out.size):
        out[i] = unit(base, i)


@kernel
def add_norms(indptr: Ints, indices: Ints, source_degrees: Ints, degrees: Ints, norms: Floats) -> bool:
    """Add 1 / degree^2 of its destination for each edge of a source.

    Args:
        indptr: int64 [destinations + 1].
        indices: int32 or int64 [edges], sources.
        source_degrees: int64 [sources].
        degrees: int64 [destinations].
        norms: float64 [sources], raised.

    Returns:
        False where the arrays are damaged.
    """
    for v in range(indptr.size - 1):
        if indptr[v] < 0 or indptr[v + 1] < indptr[v] or indptr[v + 1] > indices.size:
            return False
        for e in range(indptr[v], indptr[v + 1]):
            if indices[e] < 0 or indices[e] >= source_degrees.size:
                return False
            norms[indices[e]] += 1.0 / (degrees[v] * degrees[v])
    return True


@kernel
def weigh_edges(indptr: Ints, indices: Ints, source_degrees: Ints, degrees: Ints, weights: Floats) -> bool:
    """1 / degree of both ends of each edge; an end without edges into it adds nothing.

    Args:
        indptr: as `add_norms`.
        indices: as there.
        source_degrees: as there.
        degrees: as there.
        weights: float64 [edges], filled.

    Returns:
        False where the arrays are damaged.
    """
    for v in range(indptr.size - 1):
        if indptr[v] < 0 or indptr[v + 1] < indptr[v] or indptr[v + 1] > indices.size:
            return False
        for e in range(indptr[v], indptr[v + 1]):
            if indices[e] < 0 or indices[e] >= source_degrees.size:
                return False
            weights[e] = 1.0 / degrees[v]
            if source_degrees[indices[e]] > 0:
                weights[e] += 1.0 / source_degrees[indices[e]]
    return True
