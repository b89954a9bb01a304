"""Where a rank computes, and the limits it was asked to keep."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import torch

from gnnhet.devices.units import format_bytes, format_bytes_per_second
from gnnhet.errors import SpecError

KINDS = ("cuda", "xpu", "mps", "cpu")
_SINGLE = ("mps", "cpu")  # one of them a machine, so their spec needs no index


@dataclasses.dataclass(frozen=True, kw_only=True)
class Device:
    """A place to compute, with the limits that were asked for.

    Two devices are equal when place and limits are: `name`, `vendor` and the totals are facts found by
    `discover_devices`, not part of the identity, so `parse_devices(device.spec) == [device]` always holds.

    Attributes:
        kind: `cuda` (NVIDIA, and AMD through ROCm), `xpu`, `mps` or `cpu`.
        index: number among the devices of its kind.
        speed: share of its real speed at which the device runs, in (0, 1].
        memory_bytes: limit on the memory a rank may use there; None for the whole device.
        link_bytes_per_second: limit on transfers to the device; None for none.
        threads: CPU threads of its rank; None to leave the choice to the plan.
        name: what the hardware calls itself, or "" when unknown.
        vendor: `NVIDIA`, `AMD`, `Intel`, `Apple`, or "" when unknown.
        total_memory_bytes: memory that is physically there (for a CPU: that this process may use); None when unknown.
        total_threads: CPU threads this process may use; None for accelerators and when unknown.
    """

    kind: str
    index: int = 0
    speed: float = 1.0
    memory_bytes: int | None = None
    link_bytes_per_second: float | None = None
    threads: int | None = None
    name: str = dataclasses.field(default="", compare=False)
    vendor: str = dataclasses.field(default="", compare=False)
    total_memory_bytes: int | None = dataclasses.field(default=None, compare=False)
    total_threads: int | None = dataclasses.field(default=None, compare=False)

    def __post_init__(self) -> None:
        """Holds the rules, whichever way the device was made."""
        if self.kind not in KINDS:
            raise SpecError(f"a device's kind is one of {', '.join(KINDS)}: got {self.kind!r}; name one of them")
        if not _is_int(self.index) or self.index < 0:
            raise SpecError(f"a device's index is an integer from 0: got {self.index!r}; write {self.kind}:0")
        if not _is_real(self.speed) or not 0 < self.speed <= 1:
            raise SpecError(f"a device's speed is a share in (0, 1]: got {self.speed!r}; write {self.kind}@0.5")
        for field, example in (("memory_bytes", 4 * 2**30), ("threads", 2)):
            value = getattr(self, field)
            if value is not None and (not _is_int(value) or value < 1):
                raise SpecError(f"a device's {field} is an integer from 1: got {value!r}; give {example}, or leave it out")
        link = self.link_bytes_per_second
        if link is not None and (not _is_real(link) or not 0 < link < math.inf):
            raise SpecError(f"a device's link is a finite rate above zero: got {link!r}; give 8e9, or leave it out")

    @property
    def spec(self) -> str:
        """Canonical text that `parse_devices` reads back, such as `cpu@0.5,memory=4GiB,threads=2`."""
        text = self.kind if self.kind in _SINGLE and self.index == 0 else f"{self.kind}:{self.index}"
        if self.speed != 1:
            text += f"@{float(self.speed)!r}"
        if self.memory_bytes is not None:
            text += f",memory={format_bytes(self.memory_bytes)}"
        if self.link_bytes_per_second is not None:
            text += f",link={format_bytes_per_second(float(self.link_bytes_per_second))}"
        if self.threads is not None:
            text += f",threads={self.threads}"
        return text

    @property
    def torch_device(self) -> torch.device:
        """The same place as torch names it; making it touches no driver."""
        # Bare "cpu": torch counts `cpu` and `cpu:0` as different devices, and tensors are made on the former.
        return torch.device("cpu") if self.kind == "cpu" else torch.device(self.kind, self.index)

    @property
    def throttled(self) -> bool:
        """Whether a `Throttle` has anything to hold: a speed, a memory limit or a link."""
        return self.speed < 1 or self.memory_bytes is not None or self.link_bytes_per_second is not None

    def to_dict(self) -> dict[str, Any]:
        """All fields as plain values for JSON."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> "Device":
        """The device that `to_dict` described. Raises `SpecError` for unknown or missing fields and bad values."""
        known = {field.name for field in dataclasses.fields(cls)}
        unknown = sorted(set(fields) - known)
        if unknown or "kind" not in fields:
            got = f"unknown {', '.join(unknown)}" if unknown else "no kind"
            raise SpecError(f"a device's fields are {', '.join(sorted(known))}: got {got}; write it with Device.to_dict")
        return cls(**fields)


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_real(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
