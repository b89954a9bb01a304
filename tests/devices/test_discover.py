import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
import torch

import gnnhet.devices.discover as discover
from gnnhet.devices import Device, discover_devices
from gnnhet.devices.limits import (
    available_threads,
    cgroup_cpus,
    cgroup_memory_bytes,
    free_memory_bytes,
    total_memory_bytes,
)


def test_finds_the_cpu_and_makes_no_context() -> None:
    before = os.environ.get("PYTORCH_NVML_BASED_CUDA_CHECK")
    cpu = discover_devices()[-1]
    assert cpu == Device(kind="cpu")
    assert cpu.name
    assert cpu.total_threads == available_threads()
    assert cpu.total_memory_bytes == total_memory_bytes()
    assert not torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    assert os.environ.get("PYTORCH_NVML_BASED_CUDA_CHECK") == before


def test_facts_are_read_by_a_script_that_runs_everywhere() -> None:
    found = discover._read_facts()
    assert [(device.kind, device.index) for device in found] == [
        (device.kind, device.index) for device in discover_devices() if device.kind in ("cuda", "xpu")
    ]


def test_cards_are_listed_when_their_facts_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(discover, "_count_cuda", lambda: 2)
    monkeypatch.setattr(discover, "_TIMEOUT_SECONDS", 0.01)
    discover._accelerators.cache_clear()
    try:
        cards = discover_devices()[:-1]
    finally:
        discover._accelerators.cache_clear()
    assert cards[:2] == [Device(kind="cuda"), Device(kind="cuda", index=1)]
    assert cards[0].name == ""
    assert cards[0].total_memory_bytes is None


def test_cards_gain_facts(monkeypatch: pytest.MonkeyPatch) -> None:
    script = """print('[{"kind": "cuda", "index": 1, "name": "B", "vendor": "AMD", "total_memory_bytes": 8}]')"""
    monkeypatch.setattr(discover, "_count_cuda", lambda: 2)
    monkeypatch.setattr(discover, "_READ_FACTS", script)
    discover._accelerators.cache_clear()
    try:
        cards = discover_devices()
    finally:
        discover._accelerators.cache_clear()
    assert [(card.name, card.vendor, card.total_memory_bytes) for card in cards[:2]] == [
        ("", "", None),
        ("B", "AMD", 8),
    ]


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="needs Linux")
def test_affinity_is_respected() -> None:
    code = (
        "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n"
        "from gnnhet.devices.limits import available_threads; print(available_threads())"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path)}
    result = subprocess.run([sys.executable, "-P", "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "1"


def test_free_memory_is_within_the_total() -> None:
    assert 0 < free_memory_bytes() <= total_memory_bytes() <= psutil.virtual_memory().total


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_limits_of_control_groups_version_2(tmp_path: Path) -> None:
    own, mount = tmp_path / "cgroup", tmp_path / "mount"
    write(own, "0::/pod/container\n")
    write(mount / "pod/container/cpu.max", "max 100000\n")
    write(mount / "pod/container/memory.max", "8589934592\n")
    write(mount / "pod/cpu.max", "250000 100000\n")  # a parent's limit holds for its children
    write(mount / "pod/memory.max", "max\n")
    assert cgroup_cpus(own, mount) == 2.5
    assert cgroup_memory_bytes(own, mount) == 2**33


def test_limits_of_control_groups_version_1(tmp_path: Path) -> None:
    own, mount = tmp_path / "cgroup", tmp_path / "mount"
    write(own, "4:memory:/job\n3:cpu,cpuacct:/job\n1:name=systemd:/\n0::/\n")
    write(mount / "cpu/job/cpu.cfs_quota_us", "150000\n")
    write(mount / "cpu/job/cpu.cfs_period_us", "100000\n")
    write(mount / "cpu/cpu.cfs_quota_us", "-1\n")
    write(mount / "cpu/cpu.cfs_period_us", "100000\n")
    write(mount / "memory/job/memory.limit_in_bytes", "4294967296\n")
    write(mount / "memory/memory.limit_in_bytes", "9223372036854771712\n")
    assert cgroup_cpus(own, mount) == 1.5
    assert cgroup_memory_bytes(own, mount) == 2**32


def test_no_control_groups(tmp_path: Path) -> None:
    assert cgroup_cpus(tmp_path / "absent", tmp_path) is None
    assert cgroup_memory_bytes(tmp_path / "absent", tmp_path) is None
    write(tmp_path / "cgroup", "0::/\n")
    assert cgroup_cpus(tmp_path / "cgroup", tmp_path / "mount") is None
    assert cgroup_memory_bytes(tmp_path / "cgroup", tmp_path / "mount") is None
