"""Bytes as people write them: `4GiB`, `8GB/s`, and exactly back."""

import re
from fractions import Fraction

from gnnhet.errors import SpecError

# Longest first within a size, and binary before decimal, so that equal lengths choose the binary unit.
UNITS = {
    "TiB": 2**40,
    "GiB": 2**30,
    "MiB": 2**20,
    "KiB": 2**10,
    "TB": 10**12,
    "GB": 10**9,
    "MB": 10**6,
    "KB": 10**3,
    "B": 1,
}
_PATTERN = re.compile(r"(?P<number>\d+(?:\.\d+)?(?:[eE][+-]?\d{1,3})?|\.\d+)\s*(?P<unit>[A-Za-z]+)")
_MOST = 2**62  # what other programs and file formats can hold
_BY_LOWER = {unit.lower(): unit for unit in UNITS}


def parse_bytes(text: str, what: str = "memory") -> int:
    """Reads a number of bytes.

    Args:
        text: a number and a unit, such as `4GiB` or `1.5 GB`; fractions of a byte are rounded.
        what: the option being read, for the message.

    Returns:
        Bytes, from 1 to 2^62.

    Raises:
        SpecError: no number, no known unit, or out of range.
    """
    value = round(_quantity(text, what, "4GiB"))
    if not 1 <= value <= _MOST:
        raise SpecError(f"{what} must be from 1 B to {_MOST // 2**60} EiB: got {text!r}; write it as 4GiB")
    return value


def parse_bytes_per_second(text: str, what: str = "link") -> float:
    """Reads a rate such as `8GB/s`, in bytes per second. Raises `SpecError` as `parse_bytes` does."""
    if not text.endswith("/s"):
        remedy = f"did you mean {text}/s?" if _PATTERN.fullmatch(text) else "write it as 8GB/s"
        raise SpecError(f"{what} is a rate in bytes per second: got {text!r}; {remedy}")
    try:
        value = float(_quantity(text.removesuffix("/s"), what, "8GB/s"))
    except OverflowError:
        value = 0.0
    if value <= 0:
        raise SpecError(f"{what} must be a finite rate above zero: got {text!r}; write it as 8GB/s")
    return value


def format_bytes(value: int) -> str:
    """The shortest whole number of one unit that is exactly `value` bytes."""
    return min((f"{value // size}{unit}" for unit, size in UNITS.items() if value % size == 0), key=len)


def format_bytes_per_second(value: float) -> str:
    """The shortest text that `parse_bytes_per_second` reads back as exactly `value`."""
    texts = [f"{value / size:.15g}{unit}/s" for unit, size in UNITS.items()]
    exact = [text for text in texts if _reads_back(text, value)]
    return min([*exact, f"{value!r}B/s"], key=len)


def _reads_back(text: str, value: float) -> bool:
    try:
        return parse_bytes_per_second(text) == value
    except SpecError:
        return False


def _quantity(text: str, what: str, example: str) -> Fraction:
    match = _PATTERN.fullmatch(text.strip())
    if match is None:
        raise SpecError(f"{what} must be a number and a unit: got {text!r}; write it as {example}")
    unit = match["unit"]
    if unit not in UNITS:
        near = _BY_LOWER.get(unit.lower()) or _BY_LOWER.get(unit.lower() + "b") or _BY_LOWER.get(unit.lower() + "ib")
        remedy = f"did you mean {match['number']}{near}?" if near else f"units are {', '.join(reversed(UNITS))}"
        raise SpecError(f"{what} has an unknown unit: got {text!r}; {remedy}")
    return Fraction(match["number"]) * UNITS[unit]
