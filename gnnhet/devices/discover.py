"""What this machine has to compute with."""

import functools
import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch

from gnnhet.devices.device import Device
from gnnhet.devices.limits import available_threads, total_memory_bytes

_TIMEOUT_SECONDS = 60.0  # importing torch and opening a driver takes seconds on a busy machine
_CPU_VENDORS = {"GenuineIntel": "Intel", "AuthenticAMD": "AMD"}

# Runs in a process of its own: reading a card's properties makes a context, which takes hundreds of MB of its memory
# and forbids forking afterwards.
_READ_FACTS = """
import json, torch
found = []
if torch.cuda.is_available():
    vendor = "AMD" if torch.version.hip else "NVIDIA"
    for index in range(torch.cuda.device_count()):
        facts = torch.cuda.get_device_properties(index)
        found.append({"kind": "cuda", "index": index, "name": facts.name, "vendor": vendor,
                      "total_memory_bytes": facts.total_memory})
if torch.xpu.is_available():
    for index in range(torch.xpu.device_count()):
        facts = torch.xpu.get_device_properties(index)
        found.append({"kind": "xpu", "index": index, "name": facts.name, "vendor": "Intel",
                      "total_memory_bytes": facts.total_memory})
print(json.dumps(found))
"""


def discover_devices() -> list[Device]:
    """Lists the devices of this machine: accelerators first, then the CPU.

    No CUDA context is made in this process: cards are counted through NVML, and their properties are read once, by a
    process of its own. Where that fails, cards are listed without a name and memory.

    Returns:
        Devices without limits, with name, vendor and totals where they are known. The CPU is always the last.
    """
    return [*_accelerators(), _cpu()]


def cpu_name() -> str:
    """What the processor calls itself."""
    return _cpu_facts().get("model name") or platform.processor() or platform.machine()


@functools.cache  # hardware does not change under a process, and asking takes seconds
def _accelerators() -> tuple[Device, ...]:
    counted = [Device(kind="cuda", index=index) for index in range(_count_cuda())]
    counted += [Device(kind="xpu", index=index) for index in range(torch.xpu.device_count())]
    if counted:
        facts = {(device.kind, device.index): device for device in _read_facts()}
        counted = [facts.get((device.kind, device.index), device) for device in counted]
    if torch.backends.mps.is_available():
        # Apple's GPU shares the machine's memory.
        counted.append(Device(kind="mps", name=cpu_name(), vendor="Apple", total_memory_bytes=total_memory_bytes()))
    return tuple(counted)


def _count_cuda() -> int:
    key = "PYTORCH_NVML_BASED_CUDA_CHECK"
    before = os.environ.get(key)
    os.environ[key] = "1"
    try:
        return torch.cuda.device_count() if torch.cuda.is_available() else 0
    finally:
        if before is None:
            del os.environ[key]
        else:
            os.environ[key] = before


def _read_facts() -> list[Device]:
    try:
        result = subprocess.run(
            [sys.executable, "-P", "-c", _READ_FACTS],
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_SECONDS,
            check=True,
        )
        facts: list[dict[str, Any]] = json.loads(result.stdout)
    except (OSError, ValueError, subprocess.SubprocessError):
        return []
    return [Device.from_dict(fields) for fields in facts]


def _cpu() -> Device:
    return Device(
        kind="cpu",
        name=cpu_name(),
        vendor="Apple" if sys.platform == "darwin" and platform.machine() == "arm64" else _cpu_vendor(),
        total_memory_bytes=total_memory_bytes(),
        total_threads=available_threads(),
    )


def _cpu_vendor() -> str:
    return _CPU_VENDORS.get(_cpu_facts().get("vendor_id", ""), "")


@functools.cache
def _cpu_facts() -> dict[str, str]:
    """The first processor's entry in Linux's /proc/cpuinfo; empty elsewhere."""
    try:
        entry = Path("/proc/cpuinfo").read_text().partition("\n\n")[0]
    except OSError:
        return {}
    pairs = (line.partition(":") for line in entry.splitlines())
    return {key.strip(): value.strip() for key, _, value in pairs}
