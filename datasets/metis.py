"""METIS graph files (Karypis, Kumar, 1998; manual of METIS 5.1, section 4.1.1)."""

from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import numpy as np

from gnnhet.datasets import tokens
from gnnhet.datasets.raw import HOMOGENEOUS, NODE, Array, RawGraph
from gnnhet.errors import FormatError
from gnnhet.jit import kernel

SIZE, WEIGHT = "vertex_size", "vertex_weight"
_MOST_WEIGHTS = 1000


@dataclass(frozen=True)
class _Header:
    """The first line: counts, and what each vertex's line holds besides its neighbours."""

    file: str
    nodes: int
    edges: int
    sizes: int
    weights: int
    edge_weights: bool


def read(file: str | Path) -> RawGraph:
    """Read an undirected graph: each edge stands in the lines of both its ends and is two edges of the graph.

    Edge weights become `weight` (int64), vertex weights the feature `vertex_weight` (int64, [nodes] or [nodes, weights]),
    vertex sizes `vertex_size`. Edges are in the order of the file: the neighbours of vertex 1, of vertex 2, and so on.

    Args:
        file: `.graph` or `.graph.gz`, read into memory.

    Raises:
        FormatError: absent, damaged, other counts than the header says, a neighbour out of range, a self loop, an edge in one
            of its two lines alone or with two weights; the message names the line.
    """
    text = tokens.read_text(file, "a METIS file")
    numbers, ends, bad = tokens.integers(text)
    if bad >= 0:
        raise FormatError(
            f"{file} line {tokens.line_of(text, bad)} must be whole numbers from 0, got {tokens.shown(text, bad)}: correct it"
        )
    header, first = _header(str(file), numbers, ends)
    lines = _Lines(str(file), text, first)
    given = int(np.searchsorted(ends, ends[-1])) + 1 - first  # without empty lines at the end
    if given > header.nodes or ends.size < first + header.nodes:
        raise FormatError(
            f"{file} must have a line for each of {header.nodes:,} vertices, got {max(given, ends.size - first):,}: "
            "it was truncated or changed"
        )
    ends = ends[first - 1 : first + header.nodes]
    skip, stride = header.sizes + header.weights, 1 + header.edge_weights
    counts = np.diff(ends) - skip
    uneven = (counts < 0) | (counts % stride != 0)
    if uneven.any():
        node = int(uneven.argmax())
        lines.refuse(
            node,
            f"hold {skip} weights, then neighbours{' with a weight each' if stride > 1 else ''}",
            f"{counts[node] + skip} numbers",
        )
    counts //= stride
    if int(counts.sum()) != 2 * header.edges:
        raise FormatError(
            f"{file} must list each of {header.edges:,} edges twice, got {int(counts.sum()):,} neighbours: correct its header"
        )
    own = np.empty((header.nodes, skip), np.int64)
    src, dst = np.empty(2 * header.edges, np.int64), np.empty(2 * header.edges, np.int64)
    weight = np.empty(2 * header.edges if stride > 1 else 0, np.int64)
    _split(numbers, ends, own, src, dst, weight)
    _check(header, lines, src, dst, weight)
    features: dict[str, Array] = {}
    if header.sizes:
        features[SIZE] = own[:, 0].copy()
    if header.weights:
        features[WEIGHT] = own[:, header.sizes].copy() if header.weights == 1 else own[:, header.sizes :].copy()
    return RawGraph(
        num_nodes={NODE: header.nodes},
        edges={HOMOGENEOUS: (src, dst)},
        features={NODE: features} if features else {},
        edge_features={HOMOGENEOUS: {"weight": weight}} if header.edge_weights else {},
        name=Path(file).name.removesuffix(".gz").removesuffix(".graph"),
    )


@dataclass(frozen=True)
class _Lines:
    """Finds the line of a vertex, for messages."""

    file: str
    text: Array
    first: int

    def number(self, node: int) -> int:
        """The line of a vertex that counts from 0."""
        numbered = enumerate(self.text.tobytes().split(b"\n"), 1)
        lines = [number for number, line in numbered if not line.startswith(b"%")]
        return lines[self.first + node]

    def refuse(self, node: int, rule: str, got: str) -> NoReturn:
        """Say what the line of a vertex must do and does not."""
        raise FormatError(f"{self.file} line {self.number(node)}, vertex {node + 1}, must {rule}, got {got}: correct it")


def _header(file: str, numbers: Array, ends: Array) -> tuple[_Header, int]:
    """Read the first line that is not empty; also which line follows it."""
    if not numbers.size:
        raise FormatError(f"{file} must begin with VERTICES EDGES, got nothing: restore it")
    first = int(np.searchsorted(ends, 1))
    found = numbers[: ends[first]].tolist()
    rule = f"{file} must begin with VERTICES EDGES [FORMAT [WEIGHTS]]"
    if not 2 <= len(found) <= 4:
        raise FormatError(f"{rule}, got {len(found)} numbers: correct its header")
    code = found[2] if len(found) > 2 else 0
    sizes, vertex_weights, edge_weights = code // 100, code // 10 % 10, code % 10
    if max(sizes, vertex_weights, edge_weights) > 1:
        raise FormatError(f"{rule} with a FORMAT of digits 0 and 1, got {code}: correct its header")
    weights = found[3] if len(found) > 3 else vertex_weights
    if (vertex_weights and not 1 <= weights <= _MOST_WEIGHTS) or (weights > 1 and not vertex_weights):
        raise FormatError(
            f"{rule}, with 1 to {_MOST_WEIGHTS} WEIGHTS where FORMAT says so and none elsewhere, got {code:03} and {weights}: "
            "correct its header"
        )
    weights = weights if vertex_weights else 0
    return _Header(file, found[0], found[1], sizes, weights, bool(edge_weights)), first + 1


def _check(header: _Header, lines: _Lines, src: Array, dst: Array, weight: Array) -> None:
    """Neighbours are other vertices, and each edge stands at both its ends."""
    outside = (dst < 0) | (dst >= header.nodes) | (dst == src)
    if outside.any():
        edge = int(outside.argmax())
        lines.refuse(int(src[edge]), f"name other vertices of 1 to {header.nodes}", str(dst[edge] + 1))
    if weight.size and weight.min() < 1:
        edge = int(weight.argmin())
        lines.refuse(int(src[edge]), "give its edges weights from 1", str(weight[edge]))
    indptr, across, across_weight = _turned(dst, src, weight, header.nodes)
    listed = np.repeat(np.arange(header.nodes), np.diff(indptr))
    degrees, along, along_weight = _turned(across, listed, across_weight, header.nodes)
    # `across` are those who list a vertex, `along` those whom it lists, both in order: the same if all is well
    if not np.array_equal(degrees, indptr) or not np.array_equal(across, along):
        node, other = _lonely(src, dst)
        lines.refuse(other, f"name vertex {node + 1}, since line {lines.number(node)} names {other + 1}", "no such neighbour")
    unlike = across_weight != along_weight
    if unlike.any():  # edges between the same two may stand in another order at the other end
        across_weight, along_weight = (w[np.lexsort((w, across, listed))] for w in (across_weight, along_weight))
        unlike = across_weight != along_weight
    if unlike.any():
        edge = int(unlike.argmax())
        node = int(np.searchsorted(indptr, edge, "right")) - 1
        lines.refuse(
            node,
            f"give its edge to {across[edge] + 1} the weight {across_weight[edge]}, as line "
            f"{lines.number(int(across[edge]))} does",
            str(along_weight[edge]),
        )


def _lonely(src: Array, dst: Array) -> tuple[int, int]:
    """The first (source, destination) that stands more often than its reverse."""
    nodes = int(max(src.max(), dst.max())) + 1
    key, reverse = np.unique(src * nodes + dst, return_counts=True), np.unique(dst * nodes + src, return_counts=True)
    counts = dict(zip(*(part.tolist() for part in reverse), strict=True))
    edge = next(edge for edge, count in zip(*(part.tolist() for part in key), strict=True) if count > counts.get(edge, 0))
    return edge // nodes, edge % nodes


def _turned(src: Array, dst: Array, weight: Array, nodes: int) -> tuple[Array, Array, Array]:
    """Edges by source: where each source's begin, destinations and weights, in the order they were in."""
    indptr = np.zeros(nodes + 1, np.int64)
    np.cumsum(np.bincount(src, minlength=nodes), out=indptr[1:])
    ordered, ordered_weight = np.empty_like(dst), np.empty_like(weight)
    _place(src, dst, weight, indptr[:-1].copy(), ordered, ordered_weight)
    return indptr, ordered, ordered_weight


@kernel
def _place(src: Array, dst: Array, weight: Array, cursor: Array, ordered: Array, ordered_weight: Array) -> None:
    """Put each edge behind those of its source that came before."""
    for edge in range(src.size):
        position = cursor[src[edge]]
        cursor[src[edge]] += 1
        ordered[position] = dst[edge]
        if weight.size:
            ordered_weight[position] = weight[edge]


@kernel
def _split(numbers: Array, ends: Array, own: Array, src: Array, dst: Array, weight: Array) -> None:
    """Part the numbers of each vertex into its own and its neighbours (from 0) with their weights."""
    edge, stride = 0, 2 if weight.size else 1
    for node in range(own.shape[0]):
        begin = ends[node]
        for index in range(own.shape[1]):
            own[node, index] = numbers[begin + index]
        for position in range(begin + own.shape[1], ends[node + 1], stride):
            src[edge] = node
            dst[edge] = numbers[position] - 1
            if weight.size:
                weight[edge] = numbers[position + 1]
            edge += 1
