"""How much of this machine's CPU and memory the process may use: its affinity and its control groups.

A container sees every core and all the memory of its host, but gets what its control group grants.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import psutil

_OWN_GROUPS = Path("/proc/self/cgroup")
_MOUNT = Path("/sys/fs/cgroup")
_UNLIMITED_BYTES = 2**62  # version 1 writes "none" as the largest multiple of a page, near 2^63


def available_threads() -> int:
    """CPU threads that run at once for this process: affinity, and the whole CPUs of its control group's quota."""
    if hasattr(os, "sched_getaffinity"):
        count = len(os.sched_getaffinity(0))
    else:
        count = psutil.cpu_count() or 1
    return max(1, min(count, int(cgroup_cpus(_OWN_GROUPS, _MOUNT) or count)))


def total_memory_bytes() -> int:
    """Memory this process may use at most, in bytes: the machine's, or its control group's limit."""
    total = psutil.virtual_memory().total
    return min(total, cgroup_memory_bytes(_OWN_GROUPS, _MOUNT) or total)


def free_memory_bytes() -> int:
    """Memory this process can still take without swapping, in bytes."""
    free = psutil.virtual_memory().available
    limit = cgroup_memory_bytes(_OWN_GROUPS, _MOUNT)
    return free if limit is None else max(0, min(free, limit - psutil.Process().memory_info().rss))


def cgroup_cpus(own_groups: Path, mount: Path) -> float | None:
    """The CPU quota of a process's control groups, in CPUs; None when there is none.

    Args:
        own_groups: file such as /proc/self/cgroup, of either version.
        mount: where the groups are mounted.
    """
    quotas = []
    for folder in _folders(own_groups, mount, "cpu"):
        both = _words(folder / "cpu.max")  # version 2: "quota period", where quota may be "max"
        first, second = both if len(both) == 2 else (_first(folder, "cpu.cfs_quota_us"), _first(folder, "cpu.cfs_period_us"))
        if first.isdigit() and second.isdigit() and int(first) and int(second):  # version 1 writes no quota as -1
            quotas.append(int(first) / int(second))
    return min(quotas, default=None)


def cgroup_memory_bytes(own_groups: Path, mount: Path) -> int | None:
    """The memory limit of a process's control groups, in bytes; None when there is none. Arguments as `cgroup_cpus`."""
    limits = []
    for folder in _folders(own_groups, mount, "memory"):
        for name in ("memory.max", "memory.limit_in_bytes"):
            text = _first(folder, name)
            if text.isdigit() and 0 < int(text) < _UNLIMITED_BYTES:
                limits.append(int(text))
    return min(limits, default=None)


def _folders(own_groups: Path, mount: Path, controller: str) -> Iterator[Path]:
    """Folders of the process's groups for a controller and of all their ancestors, whose limits hold too."""
    try:
        lines = own_groups.read_text().splitlines()
    except OSError:  # not Linux
        return
    for line in lines:
        _, _, rest = line.partition(":")
        controllers, _, group = rest.partition(":")
        if not controllers:
            root = mount  # version 2 has one tree
        elif controller in controllers.split(","):
            root = mount / controller
        else:
            continue
        folder = root / group.lstrip("/")
        yield folder
        while folder != root and folder != folder.parent:
            folder = folder.parent
            yield folder


def _words(path: Path) -> list[str]:
    try:
        return path.read_text().split()
    except OSError:
        return []


def _first(folder: Path, name: str) -> str:
    return next(iter(_words(folder / name)), "")
