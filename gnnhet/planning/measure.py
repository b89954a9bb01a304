"""What a training step costs on a device, from a few timed steps of the real model on real batches."""

import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional

from gnnhet.devices import Device
from gnnhet.devices.throttle import synchronize
from gnnhet.errors import PlanError
from gnnhet.planning.plan import DeviceCost
from gnnhet.samplers import MiniBatch, NeighborLoader
from gnnhet.samplers.rng import permutation

_TIMED_STEPS = 3
_LEAST_SECONDS = 1e-9


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """Two batches of the run, small and whole, that costs are fitted to."""

    small: MiniBatch
    whole: MiniBatch


@contextmanager
def compute_threads(count: int) -> Iterator[None]:
    """Torch's CPU threads for a while."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def sample_sizes(loader: NeighborLoader) -> Sizes:
    """The run's first batch, whole and an eighth of it."""
    whole = min(loader.batch_size, loader.seeds.size)
    places = permutation(loader.seeds.size, loader.sampler.seed, 0)
    small = max(whole // 8, 1)
    return Sizes(small=loader.make(places[:small], 0, 0), whole=loader.make(places[:whole], 0, 0))


def measure_cost(model: nn.Module, sizes: Sizes, device: Device, threads: int) -> DeviceCost:
    """Fit t(b) = per_seed_s * b + fixed_s to timed steps (transfer, forward, backward) at two sizes, unthrottled.

    Raises:
        PlanError: the device cannot compute the model.
    """
    place = device.torch_device
    try:
        with compute_threads(threads), torch.random.fork_rng(devices=[]):
            model.to(place).train()
            seconds = {batch.seeds.numel(): _step_seconds(model, batch, device) for batch in (sizes.small, sizes.whole)}
            model.zero_grad(set_to_none=True)
    except (RuntimeError, AssertionError) as error:  # torch raises either where a back end is missing or out of memory
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise PlanError(f"{device.spec} must compute a step of the model to be measured, got: {reason}") from error
    small, whole = sizes.small.seeds.numel(), sizes.whole.seeds.numel()
    slope = (seconds[whole] - seconds[small]) / (whole - small) if whole > small else seconds[whole] / whole
    slope = max(slope, 0.1 * seconds[whole] / whole, _LEAST_SECONDS)  # noise must not make a seed free
    fixed = max(seconds[whole] - slope * whole, 0.0)
    return DeviceCost(per_seed_s=slope, fixed_s=fixed, measured_s={str(count): value for count, value in seconds.items()})


def _step_seconds(model: nn.Module, batch: MiniBatch, device: Device) -> float:
    """Median of a few steps after one that warms up."""
    taken = []
    for _ in range(_TIMED_STEPS + 1):
        synchronize(device.torch_device)
        start = time.perf_counter()
        moved = batch.to(device.torch_device)
        scores = model(moved)
        loss = scores.sum() if moved.y is None else functional.cross_entropy(scores, moved.y.clamp(min=0), reduction="sum")
        torch.autograd.backward(loss)
        synchronize(device.torch_device)
        taken.append(time.perf_counter() - start)
    return statistics.median(taken[1:])
