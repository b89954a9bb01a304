"""Device specs: `KIND[:INDEX][@SPEED][,memory=4GiB][,link=8GB/s][,threads=2]`.

Devices are separated by `;`, or by `,` where what follows is not `key=value`: `cuda:0, cpu@0.5` is two devices.
"""

import difflib
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from gnnhet.devices.device import KINDS, Device
from gnnhet.devices.discover import discover_devices
from gnnhet.devices.units import parse_bytes, parse_bytes_per_second
from gnnhet.errors import SpecError

AUTO = "auto"
_OPTIONS = {"memory": "memory_bytes", "link": "link_bytes_per_second", "threads": "threads"}
_EXAMPLES = {"memory": "memory=4GiB", "link": "link=8GB/s", "threads": "threads=2"}
_PLACE = re.compile(r"(?P<kind>[^:@]*)(?::(?P<index>[^@]*))?(?:@(?P<speed>.*))?")
_OTHER_NAMES = {
    "gpu": "cuda",
    "nvidia": "cuda",
    "rocm": "cuda",
    "hip": "cuda",
    "amd": "cuda",
    "intel": "xpu",
    "metal": "mps",
}


def parse_devices(devices: str | Device | Sequence[str | Device]) -> list[Device]:
    """Reads device specs. Nothing is asked of the hardware, save for `auto`: see `require_present`.

    Args:
        devices: a spec, several separated by `;` or `,`, or a list of specs and `Device`s. `auto` stands for the
            accelerators of this machine, or its CPU where there are none.

    Returns:
        Devices in the order given; the same one may come more than once.

    Raises:
        SpecError: an unknown kind, option or unit, a value out of range, or no device at all.
    """
    items = [devices] if isinstance(devices, str | Device) else list(devices)
    found: list[Device] = []
    for item in items:
        if isinstance(item, Device):
            found.append(item)
        elif isinstance(item, str):
            found.extend(_parse_text(item))
        else:
            raise SpecError(f"a device is a spec or a Device: got {item!r}; write it as cpu@0.5")
    if not found:
        raise SpecError("at least one device is needed: got an empty list; write auto, cpu, or cuda:0;cpu@0.5")
    return found


def require_present(devices: Iterable[Device]) -> list[Device]:
    """Checks that this machine has the devices, and says what they are.

    Returns:
        The same devices in order, with name, vendor and totals filled in.

    Raises:
        SpecError: a device that is not here.
    """
    here = {(device.kind, device.index): device for device in discover_devices()}
    present = []
    for device in devices:
        facts = here.get((device.kind, device.index))
        if facts is None:
            found = ", ".join(device.spec for device in here.values())
            raise SpecError(f"no {device.kind} device {device.index} here: found {found}; name one of them, or auto")
        present.append(
            replace(
                device,
                name=facts.name,
                vendor=facts.vendor,
                total_memory_bytes=facts.total_memory_bytes,
                total_threads=facts.total_threads,
            )
        )
    return present


def _parse_text(text: str) -> list[Device]:
    text = " ".join(text.split())  # a message that quotes it stays on one line
    return [device for group in text.split(";") for device in _parse_group(group, text)]


def _parse_group(group: str, text: str) -> list[Device]:
    """Devices separated by commas, each followed by its own options."""
    places: list[tuple[str, list[str]]] = []
    for piece in (piece.strip() for piece in group.split(",")):
        if not piece:
            raise SpecError(f"a device spec is empty: got {text!r}; write it as cuda:0;cpu@0.5")
        if piece in _OPTIONS:
            raise SpecError(f"device option {piece} needs a value: got {text!r}; write {_EXAMPLES[piece]}")
        if "=" not in piece:
            places.append((piece, []))
        elif places:
            places[-1][1].append(piece)
        else:
            raise SpecError(f"a device spec starts with its kind: got {group.strip()!r}; write cpu,{piece}")
    found: list[Device] = []
    for place, options in places:
        if place == AUTO:
            if options:
                raise SpecError(f"auto takes no options: got {group.strip()!r}; name the devices to limit them")
            found.extend(_auto())
        else:
            found.append(Device(**_place(place), **_options(options)))
    return found


def _auto() -> list[Device]:
    here = discover_devices()
    return [device for device in here if device.kind != "cpu"] or here


def _place(text: str) -> dict[str, Any]:
    match = _PLACE.fullmatch(text)
    kind = match["kind"].strip() if match else text
    if match is None or kind not in KINDS:
        raise SpecError(f"a device's kind is one of {', '.join(KINDS)}: got {text!r}; {_nearest_kind(kind)}")
    fields: dict[str, Any] = {"kind": kind}
    if match["index"] is not None:
        fields["index"] = _integer(match["index"], f"a device's index is an integer from 0: got {text!r}; write {kind}:0")
    if match["speed"] is not None:
        rule = f"a device's speed is a share in (0, 1]: got {text!r}; write {kind}@0.5"
        try:
            fields["speed"] = float(match["speed"])
        except ValueError:
            raise SpecError(rule) from None
        if not 0 < fields["speed"] <= 1:
            raise SpecError(rule)
    return fields


def _options(pieces: list[str]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for piece in pieces:
        key, value = (part.strip() for part in piece.split("=", 1))
        if key not in _OPTIONS:
            near = difflib.get_close_matches(key.lower(), _OPTIONS, n=1)
            remedy = f"did you mean {_EXAMPLES[near[0]]}?" if near else f"for example {_EXAMPLES['memory']}"
            raise SpecError(f"device options are {', '.join(_OPTIONS)}: got {piece!r}; {remedy}")
        if _OPTIONS[key] in fields:
            raise SpecError(f"a device option is given once: got {','.join(pieces)!r}; keep one {key}")
        if key == "memory":
            fields["memory_bytes"] = parse_bytes(value)
        elif key == "link":
            fields["link_bytes_per_second"] = parse_bytes_per_second(value)
        else:
            rule = f"threads is an integer from 1: got {piece!r}; write threads=2"
            fields["threads"] = _integer(value, rule)
            if fields["threads"] < 1:
                raise SpecError(rule)
    return fields


def _nearest_kind(kind: str) -> str:
    lower = kind.lower()
    near = _OTHER_NAMES.get(lower) or next(iter(difflib.get_close_matches(lower, (*KINDS, AUTO), n=1)), None)
    return f"did you mean {near}?" if near else "name one of them, or auto"


def _integer(text: str, rule: str) -> int:
    # `int` alone would take "1_0", " 1" and digits of other scripts.
    if not re.fullmatch(r"[0-9]{1,9}", text.strip()):
        raise SpecError(rule)
    return int(text)
