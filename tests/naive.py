"""Plain-Python twins of the kernels: the same numbers by the plainest code, on Python integers."""

from collections.abc import Sequence

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


def picks(key: int, degree: int, fanout: int, replace: bool) -> list[int]:
    """Positions drawn in a row of `degree` edges."""
    if fanout < 0 or degree == 0 or (degree <= fanout and not replace):
        return list(range(degree))
    if replace:
        return [below(key, j, degree) for j in range(fanout)]
    chosen: list[int] = []
    for j in range(fanout):
        top = degree - fanout + j
        pick = below(key, j, top + 1)
        chosen.append(top if pick in chosen else pick)
    return chosen


def sample(
    relations: Sequence[tuple[tuple[str, str, str], Sequence[int], Sequence[int]]],
    node_types: Sequence[str],
    fanouts: Sequence[Sequence[int]],
    seed_type: str,
    seeds: Sequence[int],
    key: tuple[int, int, int],
    replace: bool = False,
) -> list[dict[str, object]]:
    """`NeighborSampler.sample`: blocks, input layer first.

    Args:
        relations: (relation, indptr, indices), sorted by relation.
        node_types: sorted.
        fanouts: of each relation, a list a layer.
        seed_type: of the seeds.
        seeds: ids.
        key: (seed, epoch, step).
        replace: with replacement.
    """
    nodes: dict[str, list[int]] = {node_type: [] for node_type in node_types}
    nodes[seed_type] = list(seeds)
    blocks: list[dict[str, object]] = []
    for layer in range(len(fanouts[0]) if fanouts else 0):
        destinations = {node_type: list(ids) for node_type, ids in nodes.items()}
        edges = {}
        for number, (relation, indptr, indices) in enumerate(relations):
            source, _, destination = relation
            base = stream(*key, layer, number)
            ends, local = [0], []
            for v in destinations[destination]:
                row = indices[indptr[v] : indptr[v + 1]]
                for pick in picks(node_key(base, v), len(row), fanouts[number][layer], replace):
                    u = row[pick]
                    if u not in nodes[source]:
                        nodes[source].append(u)
                    local.append(nodes[source].index(u))
                ends.append(len(local))
            edges[relation] = (ends, local)
        blocks.insert(
            0,
            {"edges": edges, "dst": destinations, "src": {node_type: list(ids) for node_type, ids in nodes.items()}},
        )
    return blocks


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
