import dataclasses
import json
import math
import time
from pathlib import Path

import pytest
import torch

from gnnhet.devices import Device, DeviceProfile, Spread, measure, measure_device
from gnnhet.devices.measure import measure_apart, measure_here
from gnnhet.devices.profile import load_profile, save_profile, user_cache_folder
from gnnhet.errors import SpecError, TrainingError


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(measure, "_SECONDS_EACH", 0.01)
    monkeypatch.setattr(measure, "_CPU_SIZES", measure._Sizes(128, 2**10, 2**13, 2**10, 2**9))
    return tmp_path / "gnnhet"


def kept(cache: Path) -> list[Path]:
    return [path for path in cache.rglob("*") if path.is_file()]


def check(profile: DeviceProfile) -> None:
    for spread in (profile.dense_gflops, profile.sparse_edges_per_second, profile.gather_bytes_per_second):
        assert 0 < spread.min <= spread.median <= spread.max < math.inf
    assert profile.free_memory_bytes > 0
    assert DeviceProfile.from_dict(json.loads(json.dumps(profile.to_dict()))) == profile


def test_a_profile_is_measured_once(cache: Path) -> None:
    first = measure_device(Device(kind="cpu"))
    check(first)
    assert first.torch_version == torch.__version__
    assert len(kept(cache)) == 1
    again = measure_device(Device(kind="cpu"))
    assert dataclasses.replace(again, free_memory_bytes=first.free_memory_bytes) == first
    assert measure_device(Device(kind="cpu"), cached=False).dense_gflops != first.dense_gflops


def test_a_throttle_scales_what_was_measured(cache: Path) -> None:
    full = measure_device(Device(kind="cpu"))
    slow = measure_device(Device(kind="cpu", speed=0.25, memory_bytes=2**20, link_bytes_per_second=8e9))
    assert slow.device == "cpu@0.25,memory=1MiB,link=8GB/s"
    assert slow.dense_gflops == full.dense_gflops.scaled(0.25)
    assert slow.sparse_edges_per_second == full.sparse_edges_per_second.scaled(0.25)
    assert slow.free_memory_bytes == 2**20
    assert slow.host_to_device_bytes_per_second == Spread(median=8e9, min=8e9, max=8e9)
    assert len(kept(cache)) == 1


def test_threads_are_measured_apart_and_put_back(cache: Path) -> None:
    before = torch.get_num_threads()
    assert measure_device(Device(kind="cpu", threads=1)).threads == 1
    measure_device(Device(kind="cpu"))
    assert torch.get_num_threads() == before
    assert len(kept(cache)) == 2


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"a": 1}', "\xff"])
def test_a_damaged_cache_is_measured_again(cache: Path, text: str) -> None:
    measure_device(Device(kind="cpu"))
    (file,) = kept(cache)
    file.write_text(text, encoding="latin-1")
    check(measure_device(Device(kind="cpu")))
    assert json.loads(file.read_text())


def test_a_cache_that_cannot_be_written_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    check(measure_device(Device(kind="cpu")))


def test_stale_fields_are_ignored(cache: Path) -> None:
    profile = measure_device(Device(kind="cpu"))
    save_profile("key", profile)
    assert load_profile("key") == profile
    file = next(path for path in kept(cache) if "key" in json.loads(path.read_text()))
    fields = profile.to_dict()
    del fields["dense_gflops"]
    file.write_text(json.dumps({"key": fields}))
    assert load_profile("key") is None


def test_the_cache_folder_ignores_relative_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert user_cache_folder().is_absolute()
    assert Path.home() in user_cache_folder().parents


def test_absent_devices_are_refused() -> None:
    with pytest.raises(SpecError, match="no xpu device 77 here"):
        measure_device(Device(kind="xpu", index=77))


def test_measuring_in_another_process() -> None:
    check(measure_apart(Device(kind="cpu", threads=1, name="some processor")))


def test_a_failure_in_the_other_process_is_one_line() -> None:
    with pytest.raises(TrainingError, match=r"^measuring cuda:77 needs the device to work: got [^\n]+; check") as caught:
        measure_apart(Device(kind="cuda", index=77))
    assert "\n" not in str(caught.value)


@pytest.mark.slow
def test_full_sizes_stay_under_ten_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    start = time.perf_counter()
    check(measure_here(Device(kind="cpu")))
    assert time.perf_counter() - start < 10
