"""What ranks say to each other: summed gradients, and rows each has computed a part of."""

import datetime
from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import Tensor, nn

from gnnhet.errors import RankError
from gnnhet.samplers.shares import share_bounds


class Ranks:
    """The ranks of a run; with one rank every method is the identity and torch.distributed is not touched.

    Attributes:
        rank: this one, from 0.
        shares: of every step's seeds, one a rank.
    """

    def __init__(self, rank: int, shares: Sequence[float], timeout_s: float) -> None:
        """Join the group that the launcher's environment names.

        Args:
            rank: this one.
            shares: of all ranks.
            timeout_s: seconds a collective may wait for the slowest rank.
        """
        self.rank, self.shares, self._timeout_s = rank, tuple(shares), timeout_s
        if self.size > 1:
            dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=timeout_s))

    @property
    def size(self) -> int:
        """How many ranks there are."""
        return len(self.shares)

    def close(self) -> None:
        """Leave the group."""
        if self.size > 1:
            dist.destroy_process_group()

    def sum_gradients(self, parameters: Sequence[nn.Parameter], extras: Sequence[float]) -> list[float]:
        """Replace every gradient by its sum over ranks; return the sums of `extras`.

        A parameter without a gradient counts as one of zeros, on one rank as on many: whether a relation was drawn must
        not decide whether an optimiser's moments decay.

        Raises:
            RankError: another rank is gone, or did not come within the time-out.
        """
        for parameter in parameters:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        if self.size == 1:
            return list(extras)
        gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
        wide = torch.float64 if any(g.dtype == torch.float64 for g in gradients) else torch.float32
        flat = torch.cat([g.reshape(-1).to("cpu", wide) for g in gradients] + [torch.tensor(list(extras), dtype=wide)])
        self._reduce(flat)
        sums = flat[-len(extras) :].tolist() if extras else []
        start = 0
        for gradient in gradients:
            gradient.copy_(flat[start : start + gradient.numel()].view_as(gradient))
            start += gradient.numel()
        return sums

    def send_rows(self, ids: Tensor, rows: Tensor) -> list[tuple[Tensor, Tensor]]:
        """Send every row to the rank that owns its id: id modulo the number of ranks.

        Args:
            ids: int64 [n], on the CPU.
            rows: [n, columns], on the CPU; as many columns and the same dtype on every rank.

        Returns:
            (ids, rows) that each rank, from 0, has sent to this one.

        Raises:
            RankError: as `sum_gradients`.
        """
        if self.size == 1:
            return [(ids, rows)]
        owner = ids % self.size
        order = owner.argsort(stable=True)
        sent = owner.bincount(minlength=self.size)
        try:
            counts = torch.empty_like(sent)
            dist.all_to_all_single(counts, sent)
            came = counts.tolist()
            their_ids, their_rows = ids.new_empty(sum(came)), rows.new_empty((sum(came), rows.shape[1]))
            dist.all_to_all_single(their_ids, ids[order], came, sent.tolist())
            dist.all_to_all_single(their_rows, rows[order], came, sent.tolist())
        except RuntimeError as error:
            raise self._lost(error) from error
        return list(zip(torch.split(their_ids, came), torch.split(their_rows, came), strict=True))

    def barrier(self) -> None:
        """Wait until every rank is here.

        Raises:
            RankError: as `sum_gradients`.
        """
        if self.size > 1:
            try:
                dist.barrier()
            except RuntimeError as error:
                raise self._lost(error) from error

    def own_part(self, count: int) -> tuple[int, int]:
        """(first, last + 1) of the consecutive part of `count` things that is this rank's, by the shares."""
        return share_bounds(count, self.shares, self.rank)

    def complete_rows(self, rows: Tensor) -> None:
        """Fill a CPU tensor whose `own_part` each rank has filled, on every rank.

        Raises:
            RankError: as `sum_gradients`.
        """
        for rank in range(self.size if self.size > 1 else 0):
            first, last = share_bounds(rows.shape[0], self.shares, rank)
            if first < last:
                try:
                    dist.broadcast(rows[first:last], src=rank)
                except RuntimeError as error:
                    raise self._lost(error) from error

    def same_state(self, model: nn.Module) -> None:
        """Give every rank the parameters and buffers of rank 0.

        Raises:
            RankError: as `sum_gradients`.
        """
        for tensor in model.state_dict().values() if self.size > 1 else ():
            shared = tensor.detach().to("cpu").contiguous()
            try:
                dist.broadcast(shared, src=0)
            except RuntimeError as error:
                raise self._lost(error) from error
            tensor.copy_(shared)

    def _reduce(self, flat: Tensor) -> None:
        try:
            dist.all_reduce(flat)
        except RuntimeError as error:
            raise self._lost(error) from error

    def _lost(self, error: RuntimeError) -> RankError:
        reason = str(error).strip().splitlines()[0][:200]
        return RankError(
            f"rank {self.rank} must hear of every other rank within {self._timeout_s:.0f} s of a step, and lost contact: {reason}"
        )
