"""Plain-Python twins of the kernels: the same numbers by the plainest code, on Python integers."""

import itertools
import math
import re
import struct
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

MASK = (1 << 64) - 1


def mix(z: int) -> int:
    """`rng.mix`."""
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def stream(*parts: int) -> int:
    """`rng.stream`."""
    state = 0
    for part in parts:
        state = mix(((state + 0x9E3779B97F4A7C15) & MASK) ^ (part & MASK))
    return state


def node_key(base: int, node: int) -> int:
    """`rng.node_key`."""
    return mix((base + node * 0x9E3779B97F4A7C15) & MASK)


def draw(key: int, i: int) -> int:
    """`rng.draw`."""
    return mix((key + (i + 1) * 0xD1342543DE82EF95) & MASK)


def below(key: int, i: int, bound: int) -> int:
    """`rng.below`."""
    bits = draw(key, i)
    if bound < 1 << 32:
        while True:
            product = (bits >> 32) * bound
            if product & 0xFFFFFFFF >= (2**32 - bound) % bound:
                return product >> 32
            bits = mix((bits + 0xD1342543DE82EF95) & MASK)
    mask = (1 << (bound - 1).bit_length()) - 1
    while bits & mask >= bound:
        bits = mix((bits + 0xD1342543DE82EF95) & MASK)
    return bits & mask


def permutation(count: int, *parts: int) -> list[int]:
    """`rng.permutation`."""
    base = stream(1 << 32, *parts)
    return sorted(range(count), key=lambda i: node_key(base, i))


def unit(key: int, i: int) -> float:
    """`picks.unit`."""
    return ((draw(key, i) >> 11) + 1) / 2**53


def picks(
    law: str,
    key: int,
    degree: int,
    fanout: int,
    weights: Sequence[float] | None = None,
    sources: Sequence[int] = (),
    base: int = 0,
) -> list[int]:
    """Positions drawn in a row of `degree` edges under a law of `laws.LAWS`."""
    if law == "weighted" and weights is None:
        law = "nested"
    if law == "weighted_with_replacement" and weights is None:
        law = "with_replacement"
    if law.startswith("weighted"):
        assert weights is not None
        heavy = [j for j in range(degree) if weights[j] > 0]
        if fanout >= 0 and heavy and law == "weighted_with_replacement":
            sums = [sum(weights[: j + 1]) for j in range(degree)]
            return [next(j for j in range(degree) if sums[j] >= unit(key, i) * sums[-1]) for i in range(fanout)]
        if 0 <= fanout < len(heavy):
            heavy = sorted(sorted(heavy, key=lambda j: -math.log(unit(key, j)) / weights[j])[:fanout])
        return heavy
    if law == "with_replacement" and fanout >= 0 and degree:
        return [below(key, j, degree) for j in range(fanout)]
    if fanout < 0 or degree <= fanout:
        return list(range(degree))
    chosen: list[int] = []
    if law == "labor":
        return [j for j in range(degree) if unit(node_key(base, sources[j]), 0) * degree <= fanout]
    if law == "nested":
        draws = (below(key, j, degree) for j in itertools.count())
        while len(chosen) < fanout:
            pick = next(draws)
            if pick not in chosen:
                chosen.append(pick)
        return chosen
    for j in range(fanout):
        top = degree - fanout + j
        pick = below(key, j, top + 1)
        chosen.append(top if pick in chosen else pick)
    return chosen


@dataclass(kw_only=True)
class Relation:
    """One relation: rows of (source, edge id), with a weight and a time an edge where there are any; time-sorted."""

    name: tuple[str, str, str]
    rows: list[list[int]]
    weights: list[list[float]] | None = None
    times: list[list[float]] | None = None


def sample(
    relations: Sequence[Relation],
    node_types: Sequence[str],
    fanouts: Sequence[Sequence[int]],
    seed_type: str,
    seeds: Sequence[int],
    key: tuple[int, int, int],
    law: str = "uniform",
    *,
    any_layer: bool = False,
    trees: bool = False,
    limits: Sequence[float] | None = None,
    last: bool = False,
    excluded: Mapping[tuple[str, str, str], Collection[tuple[int, int]]] | None = None,
    other_type: str = "",
    others: Sequence[int] = (),
) -> list[dict[str, object]]:
    """`NeighborSampler.sample`: blocks, input layer first; nodes are (tree or 0, id).

    Args:
        relations: sorted by name.
        node_types: sorted.
        fanouts: of each relation, a list a layer.
        seed_type: of the seeds.
        seeds: ids.
        key: (seed, epoch, step).
        law: of `laws.LAWS`.
        any_layer: leave the layer out of the key.
        trees: disjoint.
        limits: the time of each tree, those of `others` last.
        last: the latest edges instead of draws.
        excluded: pairs (source, destination) by relation whose edges are not drawn.
        other_type: a second type of seeds, another one than the first.
        others: ids of that type; their trees follow the first type's.
    """
    nodes: dict[str, list[tuple[int, int]]] = {node_type: [] for node_type in node_types}
    nodes[seed_type] = [(place if trees else 0, v) for place, v in enumerate(seeds)]
    if other_type:
        nodes[other_type] = [(len(seeds) + place if trees else 0, v) for place, v in enumerate(others)]
    every = [(seed_type, v) for v in seeds] + [(other_type, v) for v in others]
    time_bits = [struct.unpack("Q", struct.pack("d" if isinstance(t, float) else "q", t))[0] for t in limits or [0] * len(every)]
    bases = {node_type: stream(key[0], 1 << 36, number) for number, node_type in enumerate(node_types)}
    tree_keys = [node_key(mix(bases[node_type] ^ bits), v) for bits, (node_type, v) in zip(time_bits, every, strict=True)]
    blocks: list[dict[str, object]] = []
    for layer in range(len(fanouts[0]) if fanouts else 0):
        part = 1 << 35 if any_layer else layer
        destinations = {node_type: list(ids) for node_type, ids in nodes.items()}
        edges = {}
        for number, relation in enumerate(relations):
            source, _, destination = relation.name
            base, shared = stream(*key, part, number), stream(*key, part, (1 << 34) + node_types.index(source))
            fanout = fanouts[number][layer]
            ends, local = [0], []
            for tree, v in destinations[destination]:
                row, weights = relation.rows[v], relation.weights[v] if relation.weights else None
                if limits is not None and relation.times is not None:
                    row = [u for u, t in zip(row, relation.times[v], strict=True) if t <= limits[tree]]
                if excluded and relation.name in excluded:
                    kept = [k for k, u in enumerate(row) if (u, v) not in excluded[relation.name]]
                    row, weights = [row[k] for k in kept], weights and [weights[k] for k in kept]
                own = node_key(mix(base ^ tree_keys[tree]) if trees else base, v)
                found = picks(law, own, len(row), fanout, weights, row, shared)
                if last and relation.times is not None and fanout >= 0:
                    found = list(range(max(len(row) - fanout, 0), len(row)))
                for pick in found:
                    u = (tree, row[pick])
                    if u not in nodes[source]:
                        nodes[source].append(u)
                    local.append(nodes[source].index(u))
                ends.append(len(local))
            edges[relation.name] = (ends, local)
        blocks.insert(
            0,
            {"edges": edges, "dst": destinations, "src": {node_type: list(ids) for node_type, ids in nodes.items()}},
        )
    return blocks


def negatives(
    law: str,
    key: tuple[int, int, int, int],
    edges: Sequence[tuple[int, int]],
    amount: Fraction,
    sides: tuple[Sequence[int], Sequence[int]],
    *,
    corrupt: str = "both",
    offset: int = 0,
    strict: Collection[tuple[int, int]] = (),
) -> list[tuple[int, int, int]]:
    """`NegativeSampler.draw`: (owner, source, destination) of each negative.

    Args:
        law: of `negatives.NEGATIVE_LAWS`.
        key: (seed, epoch, step, relation index).
        edges: (source, destination) of the positives.
        amount: negatives an edge.
        sides: the whole-number weight of each source and of each destination; all 1 but for the law `degree`.
        corrupt: `both`, `src` or `dst`.
        offset: the place of the first edge in the step.
        strict: pairs that may not come out.
    """
    seed, epoch, step, relation = key
    parts = (seed, epoch, step, 1 << 37, relation)
    found = []
    for owner, edge in enumerate(edges):
        place = offset + owner
        own = node_key(node_key(node_key(stream(*parts), edge[0]), edge[1]), place)
        for number in range(math.ceil((place + 1) * amount) - math.ceil(place * amount)):
            drawn = node_key(stream(*parts, 1), number) if law == "shared" else node_key(own, number)
            for attempt in itertools.count():
                pair = list(edge)
                for side, end in enumerate(("src", "dst")):
                    if corrupt in ("both", end):
                        mark = below(drawn, 2 * attempt + side, sum(sides[side]))
                        pair[side] = next(v for v, total in enumerate(itertools.accumulate(sides[side])) if total > mark)
                if (pair[0], pair[1]) not in strict:
                    break
            found.append((owner, pair[0], pair[1]))
    return found


def gather(rows: Sequence[object], ids: Sequence[int]) -> list[object]:
    """`gather_rows`."""
    return [rows[i] for i in ids]


def csc(src: Sequence[int], dst: Sequence[int], num_dst: int) -> tuple[list[int], list[int], list[int]]:
    """`csc.from_coo`: (indptr, indices, edge ids)."""
    indptr, indices, edge_ids = [0], [], []
    for v in range(num_dst):
        for edge, destination in enumerate(dst):
            if destination == v:
                indices.append(src[edge])
                edge_ids.append(edge)
        indptr.append(len(indices))
    return indptr, indices, edge_ids


def integer_shares(total: int, weights: Sequence[float]) -> list[int]:
    """`shares.integer_shares`."""
    exact = [weight / sum(weights) * total for weight in weights]
    whole = [int(part) for part in exact]
    for k in sorted(range(len(weights)), key=lambda k: (-(exact[k] - whole[k]), k))[: total - sum(whole)]:
        whole[k] += 1
    return whole


def dropout_mask(base: int, ids: Sequence[int], columns: int, p: float) -> list[list[bool]]:
    """`dropout._fill_factors`, as what is kept."""
    return [[draw(node_key(base, i), j) >> 32 >= round(p * 2**32) for j in range(columns)] for i in ids]


def induced(
    rows: Sequence[Sequence[int]], sources: Sequence[tuple[int, int]], destinations: Sequence[tuple[int, int]]
) -> tuple[list[int], list[int], list[int]]:
    """`Inducer.find` of one relation: (indptr, indices, positions).

    Args:
        rows: of the graph's destinations, sources in stored order.
        sources: (tree, id) of each known node of the source type; tree 0 where there are none.
        destinations: likewise of the destination type.
    """
    ends, local, positions = [0], [], []
    starts = [0, *itertools.accumulate(len(row) for row in rows)]
    for tree, v in destinations:
        for place, u in enumerate(rows[v]):
            if (tree, u) in sources:
                local.append(sources.index((tree, u)))
                positions.append(starts[v] + place)
        ends.append(len(local))
    return ends, local, positions


def walk(relations: Sequence[Relation], start: tuple[str, int], length: int, base: int, number: int) -> list[tuple[str, int]]:
    """`Walks.walk`: the (node type, id) that one walk visits, the start included.

    Args:
        relations: sorted by name.
        start: node type and id.
        length: steps.
        base: the stream of all walks.
        number: of this one among them.
    """
    visited = [start]
    for step in range(length):
        kind, node = visited[-1]
        ways = [(r.name[0], u) for r in relations if r.name[2] == kind for u in r.rows[node]]
        visited.append(ways[below(node_key(base, number), step, len(ways))] if ways else (kind, node))
    return visited


def saint(
    law: str,
    relations: Sequence[Relation],
    num_nodes: Mapping[str, int],
    size: int,
    length: int,
    root_type: str,
    key: Sequence[int],
) -> dict[str, list[int]]:
    """`SaintSampler._visit`: the nodes of one subgraph, ascending, by type.

    Args:
        law: of `saint.SAINT_LAWS`.
        relations: sorted by name.
        num_nodes: of each node type, sorted.
        size: roots, nodes or edges.
        length: steps of a walk.
        root_type: where walks begin, at any node.
        key: (seed, epoch, step).
    """
    base = stream(*key, 1 << 41)
    edges = [(r.name[0], u, r.name[2], v) for r in relations for v, row in enumerate(r.rows) for u in row]
    into = [(d, v) for _, _, d, v in edges]
    degree = {(kind, v): into.count((kind, v)) for kind, count in num_nodes.items() for v in range(count)}
    met: list[tuple[str, int]] = []
    if law == "walk":
        for number in range(size):
            start = (root_type, below(base, number, num_nodes[root_type]))
            met += walk(relations, start, length, stream(*key, 1 << 40), number)
    else:
        ends = [[(s, u), (d, v)] for s, u, d, v in edges]
        weights = [1 / degree[d, v] + (1 / degree[s, u] if degree[s, u] else 0) for s, u, d, v in edges]
        if law == "node":
            norms = {(kind, v): 0.0 for kind, count in num_nodes.items() for v in range(count)}
            for s, u, d, v in edges:
                norms[s, u] += 1 / degree[d, v] ** 2
            ends, weights = [[node] for node in norms], list(norms.values())
        sums = list(itertools.accumulate(weights))
        for number in range(size):
            met += next(end for end, total in zip(ends, sums, strict=True) if total >= unit(base, number) * sums[-1])
    return {kind: sorted({v for other, v in met if other == kind}) for kind in num_nodes}


def ingested(
    edges: Sequence[tuple[int, int, float]],
    num_dst: int,
    *,
    distinct: bool = False,
    self_loops: bool = True,
    undirected: bool = False,
    sort: str | None = None,
) -> tuple[list[int], list[int], list[float], list[int]]:
    """(indptr, sources, values, positions in the input) of edges (source, destination, value) by the options of an ingest."""
    both = []
    for place, (u, v, value) in enumerate(edges):
        if u != v or self_loops:
            both.append((v, u, value, place))
            if undirected:
                both.append((u, v, value, place))
    both.sort(key=lambda edge: edge[0])
    if distinct or undirected or sort == "source":
        both.sort(key=lambda edge: edge[:2])
    if distinct or undirected:
        both = [edge for i, edge in enumerate(both) if i == 0 or edge[:2] != both[i - 1][:2]]
    if sort == "time":
        both.sort(key=lambda edge: (edge[0], edge[2]))
    indptr = [sum(1 for edge in both if edge[0] < v) for v in range(num_dst + 1)]
    return indptr, [edge[1] for edge in both], [edge[2] for edge in both], [edge[3] for edge in both]


def text_integers(text: bytes) -> tuple[list[int], list[int], int]:
    """`tokens.integers`: the numbers, how many there are up to each line's end, and where the first bad one begins."""
    numbers: list[int] = []
    ends: list[int] = []
    position = 0
    for line in text.splitlines(keepends=True) if text else []:
        if not line.startswith(b"%"):
            for token in re.finditer(rb"[^ \t\r\n]+", line):
                if not re.fullmatch(rb"[0-9]{1,18}", token[0]):
                    return numbers, ends, position + token.start()
                numbers.append(int(token[0]))
            ends.append(len(numbers))
        position += len(line)
    return numbers, ends, -1


def text_entries(text: bytes, most: int, valued: bool) -> tuple[list[tuple[int, int, bytes]], int]:
    """`tokens.entries`: (row, column, value) of each line, and where the first line begins that is none or too many."""
    found: list[tuple[int, int, bytes]] = []
    position = 0
    for line in text.split(b"\n"):
        begin, position = position + len(line) - len(line.lstrip(b" \t\r")), position + len(line) + 1
        parts = re.split(rb"[ \t\r]+", line.strip(b" \t\r"))
        if parts == [b""] or parts[0].startswith(b"%"):
            continue
        if len(found) == most or len(parts) != 2 + valued or not all(re.fullmatch(rb"[0-9]{1,18}", p) for p in parts[:2]):
            return found, begin
        found.append((int(parts[0]), int(parts[1]), parts[2] if valued else b""))
    return found, -1


def split(held: Sequence[int], ids: Sequence[int]) -> tuple[list[int], list[int], list[int], list[int]]:
    """`cache._split`: (slots, positions of hits, missing ids, their positions)."""
    hits = [i for i, row in enumerate(ids) if row in held]
    misses = [i for i, row in enumerate(ids) if row not in held]
    return [held.index(ids[i]) for i in hits], hits, [ids[i] for i in misses], misses


def narrowed(value: float, dtype: str) -> float:
    """A float32 as `jit.write_float` stores it: to nearest, ties to even."""
    if dtype == "float16":
        try:
            return float(struct.unpack("<e", struct.pack("<e", value))[0])
        except OverflowError:
            return math.copysign(math.inf, value)
    if dtype == "bfloat16" and math.isfinite(value):
        bits = struct.unpack("<I", struct.pack("<f", value))[0]
        bits = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16 << 16
        return float(struct.unpack("<f", struct.pack("<I", bits))[0])
    return value


def clairvoyant(steps: Sequence[Sequence[int]], capacity: int) -> list[int]:
    """`caching.clairvoyant`: hits of each step, by asking each row's next use anew."""

    def next_use(row: int, step: int) -> int:
        return next((later for later in range(step + 1, len(steps)) if row in steps[later]), len(steps))

    held: set[int] = set()
    hits = []
    for step, ids in enumerate(steps):
        hits.append(sum(row in held for row in ids))
        every = sorted(held | set(ids), key=lambda row: next_use(row, step))
        held = {row for row in every[:capacity] if next_use(row, step) < len(steps)}
    return hits


def inclusion(
    rows: Mapping[tuple[str, str, str], Sequence[Sequence[int]]],
    fanouts: Mapping[tuple[str, str, str], Sequence[int]],
    first: Mapping[str, Sequence[float]],
) -> dict[str, list[float]]:
    """`caching.inclusion`, from the probabilities of being a seed and each destination's sources."""
    p = {node_type: list(found) for node_type, found in first.items()}
    for layer in range(len(next(iter(fanouts.values())))):
        stays = {node_type: [1 - one for one in found] for node_type, found in p.items()}
        for relation, counts in fanouts.items():
            for v, row in enumerate(rows[relation]):
                for u in row:
                    part = 1 if counts[layer] < 0 else min(1, counts[layer] / len(row))
                    stays[relation[0]][u] *= 1 - p[relation[2]][v] * part
        p = {node_type: [1 - one for one in found] for node_type, found in stays.items()}
    return p


def presampled(expected: Sequence[float], steps: Sequence[Sequence[int]]) -> list[float]:
    """`caching.presampled`: counts drawn towards what is expected, in the scale of nodes of which about as much is expected."""
    counts = [sum(node in ids for ids in steps) for node in range(len(expected))]
    rates = [max(one, 2.0**-30) for one in expected]
    groups: dict[int, list[int]] = {}
    for node, rate in enumerate(rates):
        groups.setdefault(int(8 * (math.log2(rate) + 30)), []).append(node)
    scores = [0.0] * len(expected)
    for nodes in groups.values():
        total = sum(counts[node] for node in nodes)
        middle = {node: rates[node] * total / sum(rates[other] for other in nodes) for node in nodes}
        mean = total / len(nodes)
        variance = sum((counts[node] - middle[node]) ** 2 for node in nodes) / len(nodes)
        beyond = max(variance - mean, 0)  # than of counts that differ by chance
        for node in nodes:
            scores[node] = middle[node] + beyond / max(beyond + mean, 1e-30) * (counts[node] - middle[node])
    return scores
