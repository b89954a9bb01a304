"""`Tiers` and `Gatherer`: where the features of batches are read from, and the reading."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from gnnhet.errors import SpecError
from gnnhet.samplers.buffers import BufferPool
from gnnhet.storage.graph import Graph
from gnnhet.storage.ingest.options import parse_bytes
from gnnhet.storage.tiers import READS, Cache, DeviceCache, Reader, open_reader

POLICIES = ("presampled", "degree", "inclusion", "belady")


@dataclass(frozen=True, kw_only=True)
class Tiers:
    """Where a loader reads features from. No choice changes a number of a batch, but for the rounding of `dtype`.

    Attributes:
        reads: of features in files: map, buffered, direct or auto, as of `gnnhet.storage.tiers.open_reader`.
        cache: bytes, or like `4GiB`, of rows held in front of features in files, with the table of where they are (4 bytes a
            node of a type); of all types together. 0 for none.
        policy: which rows: `presampled` counts in the batches to come, drawn towards what is expected of a node; `belady` those
            that the best possible cache would hit in them; `inclusion` probabilities from the fanouts, for seeds that are
            nodes; or in-`degree`.
        presample: batches to come that are counted.
        dtype: of floating features in batches; by default as stored, float32 where they have a scale.
        device: whose memory the cache lies in; of an accelerator batches' features are then there already.
    """

    reads: str = "auto"
    cache: int | str = 0
    policy: str = "presampled"
    presample: int = 16
    dtype: torch.dtype | None = None
    device: str = "cpu"

    def __post_init__(self) -> None:
        """Hold every field to its rule.

        Raises:
            SpecError: naming the rule and what was got.
        """
        for name, known in (("reads", READS), ("policy", POLICIES)):
            if getattr(self, name) not in known:
                raise SpecError(f"{name} must be one of {', '.join(known)}, got {getattr(self, name)!r}")
        if self.presample < 1:
            raise SpecError(f"presample must be 1 batch or more, got {self.presample}")
        if self.dtype is not None and not self.dtype.is_floating_point:
            raise SpecError(f"batches' features are floating, got dtype {self.dtype}: leave it out")
        if self.cache_bytes < 0:
            raise SpecError(f"a cache must have 0 bytes or more, got {self.cache}")

    @property
    def cache_bytes(self) -> int:
        """Bytes of the cache."""
        return parse_bytes(self.cache)


@dataclass(frozen=True, kw_only=True)
class CacheStats:
    """What a loader's cache did.

    Attributes:
        rows: held, per node type.
        bytes: of rows held, without the table of where they are.
        looked: rows that batches asked for, per node type.
        found: those of them that were held, per node type.
    """

    rows: Mapping[str, int]
    bytes: int
    looked: Mapping[str, int]
    found: Mapping[str, int]

    @property
    def hit_rate(self) -> float | None:
        """Part of the rows asked for that were held; None before any was asked for."""
        looked = sum(self.looked.values())
        return sum(self.found.values()) / looked if looked else None

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {"rows": dict(self.rows), "bytes": self.bytes, "looked": sum(self.looked.values()), "hit_rate": self.hit_rate}


class Gatherer:
    """Rows of every node type of a batch, each from its tier. Several threads may gather at once."""

    def __init__(self, graph: Graph, features: Sequence[str], tiers: Tiers, pool: Callable[[int], BufferPool]) -> None:
        """Open the features.

        Args:
            graph: what they are of.
            features: names, gathered for every node type that has them.
            tiers: where from.
            pool: makes the memory of batches, given how many features there are.

        Raises:
            FormatError: a file is gone or was changed.
        """
        self.tiers = tiers
        owned = [(t, name) for t in graph.node_types for name in features if graph.features.has(t, name)]
        self._readers: dict[tuple[str, str], Reader] = {
            (t, name): open_reader(graph.features.rows(t, name), tiers.reads) for t, name in owned
        }
        self._devices: dict[tuple[str, str], DeviceCache] = {}
        self._caches: dict[tuple[str, str], Cache | DeviceCache] = {}
        self._pool = pool(max(len(owned), 1))

    @property
    def slow(self) -> dict[str, tuple[int, int]]:
        """(rows, bytes of a row of all of its features) of each node type whose features lie in files."""
        sizes: dict[str, tuple[int, int]] = {}
        for (node_type, _), reader in self._readers.items():
            if reader.rows.path is not None and reader.rows.array.nbytes:
                count, size = reader.rows.array.shape[0], self._row_bytes(reader)
                sizes[node_type] = count, sizes.get(node_type, (0, 0))[1] + size
        return sizes

    def hold(self, ids_of: Mapping[str, npt.NDArray[np.int64]]) -> None:
        """Put caches in front of features in files.

        Args:
            ids_of: per node type the rows to hold, ascending, none twice.

        Raises:
            FormatError: a file is gone or was changed.
            torch.OutOfMemoryError: the device is too small.
        """
        device = torch.device(self.tiers.device)
        for (node_type, name), reader in self._readers.items():
            if node_type not in ids_of or reader.rows.path is None or not reader.rows.array.nbytes:
                continue
            if device.type == "cpu":
                held = self._readers[node_type, name] = Cache(reader, ids_of[node_type])
                self._caches[node_type, name] = held
            else:
                there = DeviceCache(reader, ids_of[node_type], device, self._dtype(reader))
                self._caches[node_type, name] = self._devices[node_type, name] = there

    def stats(self) -> CacheStats | None:
        """What the caches did so far; None where there are none."""
        if not self._caches:
            return None
        first = {node_type: cache.slots for (node_type, _), cache in reversed(self._caches.items())}
        return CacheStats(
            rows={node_type: slots.size for node_type, slots in first.items()},
            bytes=sum(cache.size for cache in self._caches.values()),
            looked={node_type: slots.looked for node_type, slots in first.items()},
            found={node_type: slots.found for node_type, slots in first.items()},
        )

    def __call__(self, ids_of: Mapping[str, Tensor]) -> dict[str, dict[str, Tensor]]:
        """Rows of the node types that have features.

        Args:
            ids_of: per node type int64 [n].

        Returns:
            per node type and name [n, ...], in reused memory.

        Raises:
            FormatError: a file was cut or cannot be read.
        """
        features: dict[str, dict[str, Tensor]] = {}
        for (node_type, name), reader in self._readers.items():
            ids = ids_of[node_type].numpy()
            if (node_type, name) in self._devices:
                rows = self._devices[node_type, name].take(ids)
            else:
                rows = self._pool.take((ids.size, *reader.rows.array.shape[1:]), self._dtype(reader))
                reader.read(ids, rows)
            features.setdefault(node_type, {})[name] = rows
        return features

    def _dtype(self, reader: Reader) -> torch.dtype:
        """Of a feature's rows in batches."""
        own = reader.rows.gathered
        return self.tiers.dtype if self.tiers.dtype is not None and own.is_floating_point else own

    def _row_bytes(self, reader: Reader) -> int:
        """Of a row that is held: as stored, or as in batches on an accelerator."""
        array = reader.rows.array
        size = int(np.prod(array.shape[1:], dtype=np.int64))
        return size * (array.itemsize if torch.device(self.tiers.device).type == "cpu" else self._dtype(reader).itemsize)
