"""What of a graph may change: its features, in its folder where it is saved."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

from gnnhet.datasets.raw import Relation
from gnnhet.errors import GraphError
from gnnhet.storage import disk, index, update
from gnnhet.storage.features import ArrayLike, FeatureStore, Owner


class Changes:
    """The changing methods of `Graph`, which has these attributes."""

    num_nodes: dict[str, int]
    num_edges: dict[Relation, int]
    features: FeatureStore
    path: Path | None
    _index: dict[str, Any] | None

    @property
    def revision(self) -> int:
        """How often the folder's graph had been written when it was opened; 0 of a graph in memory."""
        return 0 if self._index is None else index.revision(self._index)

    def is_stale(self) -> bool:
        """Whether the folder's graph was written since it was opened; this one keeps what it had. Never of one in memory.

        Raises:
            FormatError: the folder holds no graph any more.
        """
        return self.path is not None and index.read_index(self.path) != self._index

    def set_feature(self, owner: Owner, name: str, values: ArrayLike | Iterable[ArrayLike], *, dtype: str | None = None) -> None:
        """Add a feature or replace it; of a saved graph in its folder, as one change (FORMAT.md), and here.

        Args:
            owner: a node type or relation.
            name: the feature's name; `x`, `y` and `split` are reserved for what they are.
            values: array or tensor, shape [count, ...]; of a saved graph also pieces of one, in order.
            dtype: what floating values of a saved graph are stored as: float32, float16, bfloat16, or int8 with a scale a
                column (no number is then off by more than 1/254 of its column's largest magnitude).

        Raises:
            GraphError: rows do not match the owner's count, or the folder holds other nodes or edges by now.
            WaitError: another process was writing the folder for ten minutes.
            OSError: the disk refuses; everything is as it was.
        """
        if self.path is not None:
            self._take_up(owner, name, update.put_feature(self.path, owner, name, values, dtype=dtype, known=self._index))
        elif owner not in self.num_nodes and owner not in self.num_edges:
            raise GraphError(f"a feature belongs to a node type or relation of the graph, got {owner!r}")
        elif dtype is not None:
            raise GraphError(
                f"`{name}` of a graph in memory is held as it is given, got dtype {dtype}: convert it, or save the graph"
            )
        elif not isinstance(values, np.ndarray | Tensor):
            raise GraphError(f"`{name}` of a graph in memory must be an array or tensor, got {type(values).__name__}")
        else:
            count = self.num_nodes[owner] if isinstance(owner, str) else self.num_edges[owner]
            self.features.add(owner, name, values, count)

    def set_rows(self, owner: Owner, name: str, ids: npt.ArrayLike, values: ArrayLike) -> None:
        """Replace some rows of a saved graph's feature, as `set_feature` does, by a copy of its file.

        Args:
            owner: a node type or relation.
            name: the feature's name.
            ids: integers, shape [n].
            values: of the feature's dtype, shape [n, ...].

        Raises:
            GraphError: the graph lies in memory, there is no such feature, or an id, shape or dtype does not fit.
            WaitError, OSError: as `set_feature`.
        """
        self._take_up(owner, name, update.put_rows(self._saved(), owner, name, ids, values, known=self._index))

    def remove_feature(self, owner: Owner, name: str) -> None:
        """Take a feature out of a saved graph.

        Raises:
            GraphError: the graph lies in memory, or there is no such feature.
            WaitError, OSError: as `set_feature`.
        """
        self._take_up(owner, name, update.remove_feature(self._saved(), owner, name, known=self._index))

    def _saved(self) -> Path:
        """The folder."""
        if self.path is None:
            raise GraphError("a graph in memory has no file to change: save it, and open it from there")
        return self.path

    def _take_up(self, owner: Owner, name: str, revision: int) -> None:
        """See a change of this graph's own; what others changed in between is left to a new `open`: `is_stale` says so."""
        stored = disk.read(self._saved())
        if stored.features.has(owner, name):
            self.features.hold(owner, name, stored.features.rows(owner, name))
        else:
            self.features.drop(owner, name)
        if stored.index is not None and index.revision(stored.index) == revision == self.revision + 1:
            self._index = stored.index
