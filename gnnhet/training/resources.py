"""`Resources`: what a rank may use beside its device; nothing in it changes a number."""

from dataclasses import dataclass, field

import psutil

from gnnhet.errors import SpecError
from gnnhet.samplers import Tiers
from gnnhet.storage import Graph


@dataclass(frozen=True, kw_only=True)
class Resources:
    """Of one rank.

    Attributes:
        threads: that sample and gather.
        timeout_s: seconds to wait for the other ranks, or for a batch.
        tiers: where features are read from, and the cache in front.
        preload: read the topology into memory first; None where it fits into half of what is free.
        quiet: no progress on stderr.
    """

    threads: int = 1
    timeout_s: float = 300.0
    tiers: Tiers = field(default_factory=Tiers)
    preload: bool | None = None
    quiet: bool = False

    def __post_init__(self) -> None:
        """Hold every field to its rule.

        Raises:
            SpecError: naming the rule and what was got.
        """
        if self.threads < 1 or not self.timeout_s > 0:
            raise SpecError(f"threads must be 1 or more and timeout_s above 0, got {self.threads} and {self.timeout_s}")

    def loaded(self, graph: Graph, ranks: int, threads: int) -> Graph:
        """The graph with its topology where this rank is to read it.

        Args:
            graph: as it was opened.
            ranks: of this host, each with a copy of its own.
            threads: that read at once.
        """
        need = sum(sum(array.nbytes for array in graph.csc(relation)) for relation in graph.relations)
        fits = need * ranks <= psutil.virtual_memory().available // 2
        return graph.preload(threads) if (fits if self.preload is None else self.preload) else graph
