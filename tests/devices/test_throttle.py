import time

import pytest
import torch

from gnnhet.devices import Device, Throttle
from gnnhet.errors import TrainingError

needs_cuda = pytest.mark.skipif(torch.cuda.device_count() == 0, reason="needs an NVIDIA or AMD card")


def spin(seconds: float) -> None:
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


@pytest.mark.parametrize("speed", [0.5, 0.2])
def test_waits_for_the_share_of_its_speed(speed: float) -> None:
    throttle = Throttle(Device(kind="cpu", speed=speed))
    start = time.perf_counter()
    for _ in range(5):
        with throttle.compute():
            spin(0.02)
    elapsed = time.perf_counter() - start
    assert throttle.seconds_computed >= 0.1
    owed = throttle.seconds_computed * (1 / speed - 1)
    # What the last sleep took too long is a credit of the next; a busy machine wakes late.
    assert throttle.seconds_waited >= owed - 1e-3
    assert throttle.seconds_waited <= owed + 0.1
    assert elapsed >= throttle.seconds_computed / speed - 1e-3


def test_short_pieces_add_up() -> None:
    throttle = Throttle(Device(kind="cpu", speed=0.5))
    for _ in range(2000):
        with throttle.compute():
            spin(2e-5)
    assert throttle.seconds_waited >= throttle.seconds_computed - 2e-3
    assert throttle.seconds_waited <= throttle.seconds_computed + 0.1


def test_waiting_takes_no_cpu() -> None:
    throttle = Throttle(Device(kind="cpu", link_bytes_per_second=1e6))
    before = time.process_time()
    throttle.transfer(300_000)
    assert throttle.seconds_waited >= 0.299
    assert time.process_time() - before < 0.15


def test_transfer_waits_for_the_rest_only() -> None:
    throttle = Throttle(Device(kind="cpu", link_bytes_per_second=1e6))
    throttle.transfer(50_000, seconds_taken=0.03)
    assert 0.019 <= throttle.seconds_waited <= 0.12
    waited = throttle.seconds_waited
    throttle.transfer(50_000, seconds_taken=9.0)
    assert throttle.seconds_waited == waited


def test_work_that_raises_is_not_waited_for() -> None:
    throttle = Throttle(Device(kind="cpu", speed=0.01))

    def fail() -> None:
        with throttle.compute():
            spin(0.01)
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert throttle.seconds_waited == 0


def test_an_unthrottled_device_costs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object) -> None:
        raise AssertionError("called")

    throttle = Throttle(Device(kind="cpu", threads=1))
    monkeypatch.setattr(time, "perf_counter", never)
    monkeypatch.setattr(time, "sleep", never)
    with throttle.compute():
        pass
    throttle.transfer(10**12)
    throttle.check_memory()
    assert throttle.seconds_computed == throttle.seconds_waited == 0


def test_memory_limit_counts_what_came_after_it_was_made() -> None:
    before = torch.ones(2**24)  # 64 MiB
    throttle = Throttle(Device(kind="cpu", memory_bytes=32 * 2**20))
    throttle.check_memory()
    after = torch.ones(2**24)
    with pytest.raises(TrainingError, match=r"^cpu,memory=32MiB may use 32MiB of memory: got 6\d\.\d MiB in use; lower"):
        throttle.check_memory()
    del after
    throttle.check_memory()
    del before


@needs_cuda
def test_a_card_is_throttled_and_its_memory_limited() -> None:
    device = Device(kind="cuda", speed=0.5, memory_bytes=2**30)
    throttle = Throttle(device)
    x = torch.ones(4096, 4096, device=device.torch_device)
    for _ in range(3):
        with throttle.compute():
            x @ x
    owed = throttle.seconds_computed
    assert owed - 2e-3 <= throttle.seconds_waited <= owed + 0.1
    throttle.check_memory()
    with pytest.raises(torch.OutOfMemoryError):
        torch.ones(2**29, device=device.torch_device)  # 2 GiB
