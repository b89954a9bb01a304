"""What was measured of a device, and where measurements are kept."""

import contextlib
import dataclasses
import hashlib
import json
import os
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_FORMAT = 1  # raise it when a field changes its meaning: profiles of other formats are measured again


@dataclasses.dataclass(frozen=True, kw_only=True)
class Spread:
    """The median of several measurements, and how far they lie apart."""

    median: float
    min: float
    max: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread":
        """The spread of at least one value."""
        return cls(median=statistics.median(values), min=min(values), max=max(values))

    def scaled(self, factor: float) -> "Spread":
        """All three values times a factor."""
        return Spread(median=self.median * factor, min=self.min * factor, max=self.max * factor)

    def capped(self, limit: float) -> "Spread":
        """All three values, at most the limit."""
        return Spread(median=min(self.median, limit), min=min(self.min, limit), max=min(self.max, limit))


@dataclasses.dataclass(frozen=True, kw_only=True)
class DeviceProfile:
    """How fast a device is, with its throttle applied.

    Attributes:
        device: canonical spec of the device it holds for.
        name: what the hardware calls itself.
        driver: version of its driver; of the kernel for a CPU.
        torch_version: torch that ran the measurements.
        threads: CPU threads that computed; 0 for accelerators.
        dense_gflops: float32 matrix product, 10^9 floating-point operations a second.
        sparse_edges_per_second: sum of neighbour rows, sparse CSR times a float32 matrix of `sparse_width` columns.
        sparse_width: columns of that matrix.
        gather_bytes_per_second: rows of 512 B picked at random out of a table in the device's memory; result bytes.
        host_to_device_bytes_per_second: copies out of page-locked memory, or the `link=` of a CPU; None for a CPU
            without one.
        host_to_device_latency_seconds: a copy of 4 B, start to end; None for a CPU.
        free_memory_bytes: memory free when it was measured, at most the device's limit.
    """

    device: str
    name: str
    driver: str
    torch_version: str
    threads: int
    dense_gflops: Spread
    sparse_edges_per_second: Spread
    sparse_width: int
    gather_bytes_per_second: Spread
    host_to_device_bytes_per_second: Spread | None
    host_to_device_latency_seconds: Spread | None
    free_memory_bytes: int

    def to_dict(self) -> dict[str, Any]:
        """All fields as plain values for JSON."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> "DeviceProfile":
        """The profile that `to_dict` described. Raises TypeError for other fields, which is how a stale cache shows."""
        spreads = {key: Spread(**value) for key, value in fields.items() if isinstance(value, dict)}
        return cls(**{**fields, **spreads})


def user_cache_folder() -> Path:
    """Where this person's caches go: `XDG_CACHE_HOME`, or the platform's place; the folder may not exist yet."""
    given = os.environ.get("XDG_CACHE_HOME")
    if given and Path(given).is_absolute():  # the XDG rule: relative ones are ignored
        return Path(given) / "gnnhet"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "gnnhet"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "gnnhet" / "Cache"
    return Path.home() / ".cache" / "gnnhet"


def load_profile(key: str) -> DeviceProfile | None:
    """The profile kept under a key; None when there is none, or its file is damaged or of another format."""
    try:
        return DeviceProfile.from_dict(json.loads(_path(key).read_bytes())[key])
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


def save_profile(key: str, profile: DeviceProfile) -> None:
    """Keeps a profile, atomically. A folder that cannot be written is no error: it is measured again next time."""
    path = _path(key)
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(prefix=".profile.", dir=path.parent)
        try:
            with os.fdopen(handle, "w") as file:
                json.dump({key: profile.to_dict()}, file, indent=2)
            os.replace(temporary, path)
        finally:
            Path(temporary).unlink(missing_ok=True)


def _path(key: str) -> Path:
    # A file a key: two processes that measure different devices at once would lose one of them in a shared file.
    digest = hashlib.blake2b(f"{_FORMAT} {key}".encode(), digest_size=8).hexdigest()
    return user_cache_folder() / "devices" / f"{digest}.json"
