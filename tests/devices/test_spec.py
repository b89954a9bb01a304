import json
import re

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import gnnhet.devices.discover as discover
from gnnhet.devices import Device, discover_devices, parse_devices, require_present
from gnnhet.devices.device import KINDS
from gnnhet.errors import SpecError

devices = st.builds(
    Device,
    kind=st.sampled_from(KINDS),
    index=st.integers(0, 99),
    speed=st.floats(0, 1, exclude_min=True) | st.sampled_from([1.0, 0.5, 0.25]),
    memory_bytes=st.none() | st.integers(1, 2**50) | st.integers(1, 64).map(lambda n: n * 2**30),
    link_bytes_per_second=st.none() | st.floats(1e-3, 1e15) | st.sampled_from([8e9, 1e6, 1.5e9]),
    threads=st.none() | st.integers(1, 512),
)


@given(st.lists(devices, min_size=1, max_size=4), st.sampled_from([";", "; ", ",", ", "]))
def test_specs_read_back(given_devices: list[Device], separator: str) -> None:
    assert parse_devices(separator.join(device.spec for device in given_devices)) == given_devices
    assert parse_devices([device.spec for device in given_devices]) == given_devices
    assert parse_devices(list(given_devices)) == given_devices


@given(devices)
def test_json_reads_back(device: Device) -> None:
    assert Device.from_dict(json.loads(json.dumps(device.to_dict()))) == device


@given(st.text(alphabet="cpudaxms:@,;=.0159 memorylinkthGiB/s\n", max_size=30))
def test_any_text_is_devices_or_one_line(text: str) -> None:
    error = None
    try:
        parsed = parse_devices(text)
    except SpecError as caught:
        error = str(caught)
    if error is None:
        assert parsed
    else:
        assert "\n" not in error
        assert "got" in error
        assert ";" in error


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("cpu", "cpu"),
        ("cuda", "cuda:0"),
        ("cpu@1", "cpu"),
        (" cuda:1@0.25 , link = 8GB/s, memory=4096MiB", "cuda:1@0.25,memory=4GiB,link=8GB/s"),
        ("cpu@.5,threads=2", "cpu@0.5,threads=2"),
        ("cpu,memory=1.5GB", "cpu,memory=1500MB"),
        ("mps,memory=1024B", "mps,memory=1KiB"),
    ],
)
def test_canonical_text(text: str, canonical: str) -> None:
    assert [device.spec for device in parse_devices(text)] == [canonical]


def test_commas_separate_devices_and_options() -> None:
    found = parse_devices("cuda:0, cpu@0.5, threads=2, cpu;xpu:1")
    assert found == [
        Device(kind="cuda"),
        Device(kind="cpu", speed=0.5, threads=2),
        Device(kind="cpu"),
        Device(kind="xpu", index=1),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("warp:9", r"one of cuda, xpu, mps, cpu: got 'warp:9'"),
        ("gpu:1", r"did you mean cuda\?"),
        ("cqu", r"did you mean cpu\?"),
        ("cpu@0", r"\(0, 1\]: got 'cpu@0'; write cpu@0.5"),
        ("cpu@1.01", r"\(0, 1\]"),
        ("cpu@-1", r"\(0, 1\]"),
        ("cpu@nan", r"\(0, 1\]"),
        ("cpu@fast", r"\(0, 1\]"),
        ("cpu@", r"\(0, 1\]"),
        ("cpu:x", r"index is an integer"),
        ("cuda:-1", r"index is an integer"),
        ("cpu,memory=4", r"a number and a unit: got '4'"),
        ("cpu,memory=4gib", r"did you mean 4GiB\?"),
        ("cpu,memory=4XB", r"units are B, KB"),
        ("cpu,memory=0B", r"from 1 B"),
        ("cpu,memory=1e400GiB", r"from 1 B"),
        ("cpu,memory=-4GiB", r"a number and a unit"),
        ("cpu,link=8GB", r"did you mean 8GB/s\?"),
        ("cpu,link=0GB/s", r"above zero"),
        ("cpu,link=1e999GB/s", r"finite"),
        ("cpu,thread=2", r"did you mean threads=2\?"),
        ("cpu,colour=red", r"options are memory, link, threads"),
        ("cpu,threads=0", r"threads is an integer from 1"),
        ("cpu,threads=two", r"threads is an integer from 1"),
        ("cpu,threads=2,threads=3", r"given once"),
        ("cpu,memory", r"needs a value"),
        ("memory=4GiB", r"starts with its kind"),
        ("auto,threads=2", r"auto takes no options"),
        ("", r"empty"),
        ("cpu;", r"empty"),
        ("cpu,,cpu", r"empty"),
    ],
)
def test_bad_specs(text: str, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        parse_devices(text)


def test_bad_lists() -> None:
    with pytest.raises(SpecError, match="empty list"):
        parse_devices([])
    with pytest.raises(SpecError, match="a spec or a Device: got 3"):
        parse_devices([3])  # type: ignore[list-item]


@pytest.mark.parametrize(
    "fields",
    [
        {"kind": "gpu"},
        {"kind": "cpu", "index": -1},
        {"kind": "cpu", "index": 0.0},
        {"kind": "cpu", "speed": 0},
        {"kind": "cpu", "speed": float("nan")},
        {"kind": "cpu", "speed": "1"},
        {"kind": "cpu", "memory_bytes": 0},
        {"kind": "cpu", "threads": True},
        {"kind": "cpu", "link_bytes_per_second": float("inf")},
        {"kind": "cpu", "colour": "red"},
        {},
    ],
)
def test_bad_fields(fields: dict[str, object]) -> None:
    with pytest.raises(SpecError):
        Device.from_dict(fields)


def test_torch_devices() -> None:
    assert Device(kind="cpu").torch_device == torch.zeros(1).device
    assert Device(kind="cuda", index=3).torch_device == torch.device("cuda:3")
    assert Device(kind="mps").torch_device == torch.device("mps:0")


@pytest.mark.parametrize(
    ("text", "throttled"),
    [("cpu", False), ("cpu,threads=2", False), ("cpu@0.9", True), ("cpu,memory=1GiB", True), ("cpu,link=1GB/s", True)],
)
def test_throttled(text: str, throttled: bool) -> None:
    assert parse_devices(text)[0].throttled is throttled


def test_absent_devices_parse_but_are_not_present() -> None:
    absent = parse_devices("cpu;cuda:77")
    found = ", ".join(device.spec for device in discover_devices())
    with pytest.raises(SpecError, match=re.escape(f"no cuda device 77 here: found {found}; ")):
        require_present(absent)


def test_present_devices_gain_facts_and_keep_limits() -> None:
    asked = parse_devices("cpu@0.5,threads=1")
    present = require_present(asked)
    assert present == asked
    assert present[0].name
    assert present[0].total_memory_bytes
    assert present[0].total_threads


def test_auto_takes_accelerators_or_else_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(discover, "_accelerators", tuple)
    assert [device.spec for device in parse_devices("auto")] == ["cpu"]
    monkeypatch.setattr(discover, "_accelerators", lambda: (Device(kind="cuda"), Device(kind="cuda", index=1)))
    assert [device.spec for device in parse_devices("auto; cpu@0.5")] == ["cuda:0", "cuda:1", "cpu@0.5"]
