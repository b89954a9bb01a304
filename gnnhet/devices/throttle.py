"""A device held to a share of its speed, a link and a memory limit, to rehearse other machines on this one."""

import contextlib
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from types import ModuleType

import psutil
import torch

from gnnhet.devices.device import Device
from gnnhet.devices.units import format_bytes
from gnnhet.errors import TrainingError

# A sleep shorter than this costs more in scheduling than it waits; smaller debts are kept until they reach it.
_SHORTEST_SLEEP_SECONDS = 1e-3


def synchronize(place: torch.device) -> None:
    """Waits until an accelerator has done all it was given; nothing on a CPU."""
    if place.type == "mps":
        torch.mps.synchronize()
    elif place.type != "cpu":
        _torch_module(place.type).synchronize(place)


class Throttle:
    """Makes a rank compute as a slower, smaller device would.

    Work is real; afterwards the rank sleeps, without using the CPU, until it has taken `1 / speed` times as long.
    What a sleep takes too long or leaves over is carried to the next, so totals hold however short the pieces are.
    A device without limits costs nothing: no clock is read and nothing is synchronised.

    One thread at a time may use an object; two threads of a rank take one each. Put only work of the device inside
    `compute`: time spent waiting for other ranks would be stretched as well.

    On a CPU the memory limit is compared in `check_memory` with what the process has added of its own since this
    object was made; pages mapped from files, which all ranks share, are not counted. On an accelerator torch's
    allocator enforces it.

    Attributes:
        device: the device being held.
        seconds_computed: wall time inside `compute` so far.
        seconds_waited: wall time slept so far, for computing and for transfers.
    """

    def __init__(self, device: Device) -> None:
        """Notes the memory in use, or tells the accelerator's allocator its limit."""
        self.device = device
        self.seconds_computed = 0.0
        self.seconds_waited = 0.0
        self._debt_seconds = 0.0  # still to wait; below zero after a sleep that took too long
        self._baseline_bytes = 0
        if device.memory_bytes is not None:
            if device.kind == "cpu":
                self._baseline_bytes = _own_bytes()
            else:
                _limit_allocator(device, device.memory_bytes)

    def compute(self) -> AbstractContextManager[None]:
        """A context for work of the device: on leaving, waits `elapsed * (1 / speed - 1)` seconds.

        An accelerator's queue is drained first at both ends, so that the work is measured and not its launch. Work
        that raises is not waited for.
        """
        return contextlib.nullcontext() if self.device.speed == 1 else self._stretched()

    def transfer(self, num_bytes: int, seconds_taken: float = 0.0) -> None:
        """Waits for the rest of what moving `num_bytes` over the device's link takes.

        Args:
            num_bytes: bytes moved.
            seconds_taken: wall time that the real transfer took.
        """
        link = self.device.link_bytes_per_second
        if link is not None:
            self._wait(max(0.0, num_bytes / link - seconds_taken))

    def check_memory(self) -> None:
        """Holds the device to its memory limit.

        Raises:
            TrainingError: more is in use than `memory=` grants.
        """
        limit = self.device.memory_bytes
        if limit is None:
            return
        used = self.used_memory_bytes()
        if used > limit:
            raise TrainingError(
                f"{self.device.spec} may use {format_bytes(limit)} of memory: got {used / 2**20:.1f} MiB in use; "
                f"lower --batch-size or --fanouts, or raise memory="
            )

    def used_memory_bytes(self) -> int:
        """Memory the rank uses on the device, in bytes, as `check_memory` counts it."""
        kind, index = self.device.kind, self.device.index
        if kind == "cpu":
            return max(0, _own_bytes() - self._baseline_bytes)
        if kind == "mps":
            return torch.mps.current_allocated_memory()
        return int(_torch_module(kind).memory_reserved(index))

    @contextlib.contextmanager
    def _stretched(self) -> Iterator[None]:
        place = self.device.torch_device
        synchronize(place)
        start = time.perf_counter()
        yield
        synchronize(place)
        elapsed = time.perf_counter() - start
        self.seconds_computed += elapsed
        self._wait(elapsed * (1 / self.device.speed - 1))

    def _wait(self, seconds: float) -> None:
        self._debt_seconds += seconds
        if self._debt_seconds < _SHORTEST_SLEEP_SECONDS:
            return
        start = time.perf_counter()
        time.sleep(self._debt_seconds)
        slept = time.perf_counter() - start
        self.seconds_waited += slept
        self._debt_seconds -= slept


def _own_bytes() -> int:
    """Resident memory of this process without pages mapped from files, where the system tells them apart."""
    info = psutil.Process().memory_info()
    return int(info.rss - getattr(info, "shared", 0))


def _limit_allocator(device: Device, limit_bytes: int) -> None:
    if device.kind == "mps":
        torch.mps.set_per_process_memory_fraction(min(1.0, limit_bytes / torch.mps.recommended_max_memory()))
        return
    module = _torch_module(device.kind)
    if hasattr(module, "set_per_process_memory_fraction"):  # xpu has it from torch 2.9; before, check_memory holds it
        total = module.get_device_properties(device.index).total_memory
        module.set_per_process_memory_fraction(min(1.0, limit_bytes / total), device.index)


def _torch_module(kind: str) -> ModuleType:
    return torch.cuda if kind == "cuda" else torch.xpu
