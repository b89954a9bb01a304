"""Embeddings of featureless node types as a table outside the model, of which a step touches a few rows.

The table lies in mapped files, once a host: it may exceed every device's memory, and the host's. A step gathers the rows of
its batch, gives them to the model as the feature `x`, sends their gradients to the rank that owns each row (id modulo the
number of ranks), and goes on when all owners have written.
"""

import shutil
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from gnnhet.config import TrainConfig
from gnnhet.models.embeddings import embedded_types, initial_rows, with_rows
from gnnhet.samplers import MiniBatch
from gnnhet.storage import Graph
from gnnhet.storage.gather import gather_rows
from gnnhet.training import table_files
from gnnhet.training.ranks import Ranks
from gnnhet.training.sparse import LAWS, sum_rows, update_rows


class EmbeddingTable:
    """Rows of all featureless node types, one type after the other, and the optimiser's states of each row.

    Attributes:
        types: the node types.
    """

    def __init__(self, graph: Graph, config: TrainConfig, model: nn.Module, ranks: Ranks) -> None:
        """Lay the rows out; nothing is on disk until `open`.

        Args:
            graph: whose node types are embedded.
            config: of the run: seed, columns, optimiser.
            model: that will get the rows.
            ranks: who share the table.
        """
        self.config, self.ranks = config, ranks
        self.types = embedded_types(graph, config.target or graph.target_type, getattr(model, "uses_graph", True))
        self._numbers = {t: graph.node_types.index(t) for t in self.types}
        self._counts = {t: graph.num_nodes[t] for t in self.types}
        starts = np.cumsum([0, *self._counts.values()])
        self._starts = dict(zip(self.types, starts[:-1].tolist(), strict=True))
        self._total = int(starts[-1])
        self._dtype = next((p.dtype for p in model.parameters() if p.is_floating_point()), torch.float32)
        self._touched = np.empty(0, np.uint8)
        self._arrays: dict[str, npt.NDArray[np.float32]] = {}
        self._saved: tuple[int, str] | None = None

    def open(self, folder: Path, saved: Path | None) -> None:
        """Map the table on every rank, as it was saved or as it is before any step.

        The files are rank 0's, and have no name once all have mapped them: a killed run leaves none.

        Args:
            folder: of the run.
            saved: a table of `save`, or None.

        Raises:
            TrainingError: the disk has no room.
            FormatError: the saved table is damaged or another's.
            RankError: as `Ranks.barrier`.
        """
        wide = (self._total, self.config.hidden)
        states = [f"state{number}" for number in range(LAWS[self.config.optimizer][1])]
        place = folder / ".table"
        if self.ranks.rank == 0:
            shutil.rmtree(place, ignore_errors=True)  # of a run killed while it was opening
            place.mkdir()
            table_files.reserve(place / "touched", self._total)
            for name in ("rows", *states):
                table_files.reserve(place / name, self._total * self.config.hidden * 4)
        self.ranks.barrier()
        self._touched = table_files.map_shared(place / "touched", (self._total,), np.uint8)
        self._arrays = {name: table_files.map_shared(place / name, wide, np.float32) for name in ("rows", *states)}
        if self.ranks.rank == 0 and saved is not None:
            table_files.load_touched(saved, self._touched, self._arrays)
        self.ranks.barrier()
        if self.ranks.rank == 0:
            shutil.rmtree(place)

    def gather(self, node_type: str, ids: Tensor) -> Tensor:
        """Rows of nodes as they are now.

        Args:
            node_type: one of `types`.
            ids: int64 [n], on the CPU.

        Returns:
            [n, columns], of the model's dtype, on the CPU.
        """
        return self._read(node_type, ids.numpy() + self._starts[node_type]).to(self._dtype)

    def attach(self, batch: MiniBatch) -> MiniBatch:
        """The batch, which is on the CPU, with its rows as the feature `x`."""
        return with_rows(batch, {t: self.gather(t, batch.input_of[t]) for t in self.types if t in batch.input_of})

    def update(self, ids_of: Mapping[str, Tensor], grads_of: Mapping[str, Tensor], lr: float, step: int) -> None:
        """Sum gradients over ranks and update the rows; returns when every rank may read them.

        Args:
            ids_of: per node type int64 [n], on the CPU, no id twice.
            grads_of: per node type [n, columns].
            lr: learning rate.
            step: of the run, from 1.

        Raises:
            RankError: as `Ranks.sum_gradients`.
        """
        ids = torch.cat([torch.empty(0, dtype=torch.int64), *(ids_of[t] + self._starts[t] for t in grads_of)])
        grads = torch.cat([torch.empty((0, self.config.hidden), dtype=self._dtype), *(g.cpu() for g in grads_of.values())])
        touched, total = sum_rows(self.ranks.send_rows(ids, grads))
        self._apply(touched.numpy(), total.float(), lr, step)
        self.ranks.barrier()

    def save(self, parent: Path, step: int) -> str:
        """Write the touched rows and their states beside a checkpoint (rank 0); name of the folder.

        Twice at the same step, it is written once.

        Raises:
            OSError: the disk refuses.
        """
        if self._saved is None or self._saved[0] != step:
            self._saved = step, table_files.save_touched(parent, step, self._touched, self._arrays)
        return self._saved[1]

    def _apply(self, ids: npt.NDArray[np.int64], grads: Tensor, lr: float, step: int) -> None:
        """Update rows by their place in the table, sorted."""
        bounds = {t: np.searchsorted(ids, [self._starts[t], self._starts[t] + self._counts[t]]) for t in self.types}
        rows = torch.cat([self._read(t, ids[first:last]) for t, (first, last) in bounds.items()])
        names = list(self._arrays)[1:]
        states = [self._copy(name, ids) for name in names]
        decay = self.config.weight_decay
        update_rows(self.config.optimizer, rows, grads, states, lr=lr, weight_decay=decay, step=step)
        for name, values in zip(("rows", *names), (rows, *states), strict=True):
            self._arrays[name][ids] = values.numpy()
        self._touched[ids] = 1

    def _read(self, node_type: str, places: npt.NDArray[np.int64]) -> Tensor:
        """float32 rows of one node type by their place in the table."""
        rows = self._copy("rows", places)
        fresh = np.flatnonzero(self._touched[places] == 0)
        if fresh.size:
            ids = places[fresh] - self._starts[node_type]
            count, columns = self._counts[node_type], self.config.hidden
            rows[torch.from_numpy(fresh)] = initial_rows(self.config.seed, self._numbers[node_type], count, ids, columns)
        return rows

    def _copy(self, name: str, places: npt.NDArray[np.int64]) -> Tensor:
        """Rows of an array."""
        out = np.empty((places.size, self.config.hidden), np.float32)
        gather_rows(self._arrays[name], places, out)
        return torch.from_numpy(out)
