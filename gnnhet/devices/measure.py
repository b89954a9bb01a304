"""Measures how fast a device is, in seconds.

An accelerator is measured in a process of its own, which takes its context with it when it ends.
"""

import dataclasses
import json
import os
import platform
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import torch

from gnnhet.devices.device import Device
from gnnhet.devices.discover import cpu_name
from gnnhet.devices.limits import available_threads, free_memory_bytes
from gnnhet.devices.profile import DeviceProfile, Spread, load_profile, save_profile
from gnnhet.devices.spec import parse_devices, require_present
from gnnhet.devices.throttle import synchronize
from gnnhet.errors import TrainingError

_SECONDS_EACH = 0.8  # a quantity's repeats end after this long ...
_FEWEST, _MOST = 3, 25  # ... within these bounds
_TIMEOUT_SECONDS = 120.0
_SPARSE_WIDTH = 64
_ROW_FLOATS = 128  # 512 B, a usual feature row


class _Sizes(NamedTuple):
    """Problem sizes: large enough to fill the device, small enough for seconds."""

    matrix: int
    nodes: int
    edges: int
    table_rows: int
    picked_rows: int


_CPU_SIZES = _Sizes(matrix=1024, nodes=2**16, edges=2**20, table_rows=2**18, picked_rows=2**16)
_ACCELERATOR_SIZES = _Sizes(matrix=4096, nodes=2**19, edges=2**23, table_rows=2**20, picked_rows=2**19)


def measure_device(device: Device, *, cached: bool = True) -> DeviceProfile:
    """Measures a device, or recalls what was measured of it on this machine with this driver and torch.

    What is kept is the device at full speed; its throttle is applied to what is returned. The free memory of a CPU is
    always read afresh; an accelerator's is that of the measurement.

    Args:
        device: a device of this machine.
        cached: False to measure again and replace what is kept.

    Returns:
        Its profile; rates are scaled by `device.speed`, transfers and memory bounded by its limits.

    Raises:
        SpecError: the device is not here.
        TrainingError: the measuring process failed.
    """
    (device,) = require_present([device])
    # Threads change what is measured; the other limits only scale it.
    full = dataclasses.replace(device, speed=1.0, memory_bytes=None, link_bytes_per_second=None)
    threads = (full.threads or available_threads()) if full.kind == "cpu" else 0
    key = " | ".join((full.spec, full.name, f"{threads} threads", driver_version(full.kind), torch.__version__))
    profile = load_profile(key) if cached else None
    if profile is None:
        profile = measure_here(full) if full.kind == "cpu" else measure_apart(full)
        save_profile(key, profile)
    return _throttled(profile, device)


def driver_version(kind: str) -> str:
    """Version of the driver of a kind of device; of the kernel for CPUs and where it cannot be read."""
    if kind == "cuda":
        for place in ("/proc/driver/nvidia/version", "/sys/module/amdgpu/version"):
            try:
                return Path(place).read_text().partition("\n")[0].strip()
            except OSError:
                continue
    return f"{platform.system()} {platform.release()}"


def measure_apart(device: Device) -> DeviceProfile:
    """Measures a device at full speed in a process of its own. Raises `TrainingError` when that fails."""
    # The child imports gnnhet from where this process did, installed or not.
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path)}
    command = [sys.executable, "-P", "-c", "from gnnhet.devices.measure import _print; _print()", device.spec]
    try:
        result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=_TIMEOUT_SECONDS, check=True)
        profile = DeviceProfile.from_dict(json.loads(result.stdout))
    except subprocess.CalledProcessError as error:
        reason = (error.stderr.strip() or "no message").splitlines()[-1]
        raise _failed(device, reason) from error
    except (OSError, ValueError, TypeError, subprocess.TimeoutExpired) as error:
        raise _failed(device, str(error)) from error
    return dataclasses.replace(profile, name=device.name)


def measure_here(device: Device) -> DeviceProfile:
    """Measures a device at full speed in this process; torch's thread count is put back afterwards."""
    is_cpu = device.kind == "cpu"
    threads_before = torch.get_num_threads()
    threads = device.threads or available_threads()
    try:
        torch.set_num_threads(threads)
        sizes = _CPU_SIZES if is_cpu else _ACCELERATOR_SIZES
        place = device.torch_device
        return DeviceProfile(
            device=device.spec,
            name=device.name or cpu_name(),
            driver=driver_version(device.kind),
            torch_version=torch.__version__,
            threads=threads if is_cpu else 0,
            dense_gflops=_dense(place, sizes),
            sparse_edges_per_second=_sparse(place, sizes),
            sparse_width=_SPARSE_WIDTH,
            gather_bytes_per_second=_gather(place, sizes),
            host_to_device_bytes_per_second=None if is_cpu else _copies(place, 2**26),
            host_to_device_latency_seconds=None if is_cpu else _latency(place),
            free_memory_bytes=_free(device),
        )
    finally:
        torch.set_num_threads(threads_before)


def _throttled(profile: DeviceProfile, device: Device) -> DeviceProfile:
    free = free_memory_bytes() if device.kind == "cpu" else profile.free_memory_bytes
    copies = profile.host_to_device_bytes_per_second
    link = device.link_bytes_per_second
    if link is not None:
        copies = copies.capped(link) if copies else Spread.of([link])
    return dataclasses.replace(
        profile,
        device=device.spec,
        dense_gflops=profile.dense_gflops.scaled(device.speed),
        sparse_edges_per_second=profile.sparse_edges_per_second.scaled(device.speed),
        gather_bytes_per_second=profile.gather_bytes_per_second.scaled(device.speed),
        host_to_device_bytes_per_second=copies,
        free_memory_bytes=min(free, device.memory_bytes or free),
    )


def _dense(place: torch.device, sizes: _Sizes) -> Spread:
    a = torch.rand(sizes.matrix, sizes.matrix, device=place)
    b = torch.rand(sizes.matrix, sizes.matrix, device=place)
    return _rate(lambda: a @ b, 2 * sizes.matrix**3 / 1e9, place)


def _sparse(place: torch.device, sizes: _Sizes) -> Spread:
    generator = torch.Generator().manual_seed(0)
    dst = torch.randint(sizes.nodes, (sizes.edges,), generator=generator)
    src = torch.randint(sizes.nodes, (sizes.edges,), generator=generator).to(place)
    x = torch.rand(sizes.nodes, _SPARSE_WIDTH, device=place)
    if place.type == "mps":  # has no sparse CSR
        dst = dst.to(place)
        return _rate(lambda: torch.zeros_like(x).index_add_(0, dst, x[src]), sizes.edges, place)
    indptr = torch.zeros(sizes.nodes + 1, dtype=torch.int64)
    torch.cumsum(torch.bincount(dst, minlength=sizes.nodes), 0, out=indptr[1:])
    with warnings.catch_warnings():  # torch says once a process that sparse CSR is in beta
        warnings.simplefilter("ignore", UserWarning)
        matrix = torch.sparse_csr_tensor(indptr.to(place), src, torch.ones(sizes.edges, device=place), (sizes.nodes, sizes.nodes))
        return _rate(lambda: matrix @ x, sizes.edges, place)


def _gather(place: torch.device, sizes: _Sizes) -> Spread:
    table = torch.rand(sizes.table_rows, _ROW_FLOATS, device=place)
    ids = torch.randint(sizes.table_rows, (sizes.picked_rows,), generator=torch.Generator().manual_seed(0)).to(place)
    out = torch.empty(sizes.picked_rows, _ROW_FLOATS, device=place)
    return _rate(lambda: torch.index_select(table, 0, ids, out=out), out.numel() * 4, place)


def _copies(place: torch.device, num_bytes: int) -> Spread:
    host = torch.zeros(num_bytes, dtype=torch.uint8)
    if place.type != "mps":  # its memory is the host's
        host = host.pin_memory()
    return _rate(lambda: host.to(place, non_blocking=True), num_bytes, place)


def _latency(place: torch.device) -> Spread:
    host = torch.zeros(1)
    return Spread.of(_seconds(lambda: host.to(place), place))


def _free(device: Device) -> int:
    if device.kind == "cpu":
        return free_memory_bytes()
    if device.kind == "mps":
        return int(torch.mps.recommended_max_memory() - torch.mps.driver_allocated_memory())
    module = torch.cuda if device.kind == "cuda" else torch.xpu
    return int(module.mem_get_info(device.index)[0])


def _rate(work: Callable[[], object], amount: float, place: torch.device) -> Spread:
    return Spread.of([amount / seconds for seconds in _seconds(work, place)])


def _seconds(work: Callable[[], object], place: torch.device) -> list[float]:
    """Wall times of several runs of `work`, after one that warms up and is not counted."""
    work()
    synchronize(place)
    taken: list[float] = []
    while len(taken) < _FEWEST or (sum(taken) < _SECONDS_EACH and len(taken) < _MOST):
        start = time.perf_counter()
        work()
        synchronize(place)
        taken.append(time.perf_counter() - start)
    return taken


def _failed(device: Device, reason: str) -> TrainingError:
    return TrainingError(f"measuring {device.spec} needs the device to work: got {reason}; check its driver and torch")


def _print() -> None:
    """What the process of `measure_apart` runs."""
    (device,) = parse_devices(sys.argv[1])
    print(json.dumps(measure_here(device).to_dict()))
