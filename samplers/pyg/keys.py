"""What a batch's draws are keyed by, and negatives that are drawn under such a key."""

from typing import Any

import numpy as np
import torch
import xxhash
from torch import Tensor
from torch_geometric.sampler import NegativeSampling

from gnnhet.errors import SpecError
from gnnhet.samplers.rng import NEGATIVES, stream

_BITS63 = (1 << 63) - 1

Key = tuple[int, int, int]


def seed_of(seed: int | None) -> int:
    """A sampler's seed: as given, or else what `torch.manual_seed` was last called with.

    Raises:
        SpecError: negative, or above 2^63 - 1.
    """
    if seed is None:
        return int(torch.initial_seed()) & _BITS63
    if not 0 <= seed <= _BITS63:
        raise SpecError(f"seed must lie in 0..2^63-1, got {seed}")
    return int(seed)


def step_of(*ids: Tensor | None) -> int:
    """A 63-bit number from the ids that say which batch it is, the first of them that are given.

    Args:
        ids: integers, or None.
    """
    digest = xxhash.xxh3_64()
    for given in ids:
        if given is not None:
            digest.update(np.ascontiguousarray(given.cpu().numpy(), np.int64).tobytes())
            break
    return digest.intdigest() & _BITS63


class KeyedNegatives(NegativeSampling):  # type: ignore[misc]
    """Negatives as another `NegativeSampling` draws them, from a generator that belongs to one batch.

    Args:
        given: what is asked for.
        key: (seed, epoch, step).
    """

    def __init__(self, given: NegativeSampling, key: Key) -> None:
        """Begin the batch's stream."""
        super().__init__(given.mode, given.amount, given.src_weight, given.dst_weight)
        self._generator = torch.Generator().manual_seed(int(stream(*key, NEGATIVES)) & _BITS63)

    def sample(self, num_samples: int, endpoint: Any, num_nodes: int | None = None) -> Tensor:
        """Ids of nodes, int64 [num_samples].

        Args:
            num_samples: how many.
            endpoint: `src` or `dst`.
            num_nodes: of the endpoint's type.

        Raises:
            SpecError: weights that are not one a node, or nodes that nobody counts.
        """
        weight = self.src_weight if endpoint == "src" else self.dst_weight
        if weight is None:
            if not num_nodes:
                raise SpecError(f"negatives need a node type with nodes, got {num_nodes}")
            return torch.randint(num_nodes, (num_samples,), generator=self._generator)
        if num_nodes is not None and weight.numel() != num_nodes:
            raise SpecError(f"{endpoint}_weight must be one number for each of {num_nodes} nodes, got {weight.numel()}")
        return torch.multinomial(weight.cpu(), num_samples, replacement=True, generator=self._generator)
