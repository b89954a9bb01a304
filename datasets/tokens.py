"""Numbers in text files: kernels that find them, with the place of whatever is none."""

import gzip
import re
import zlib
from pathlib import Path

import numpy as np

from gnnhet.datasets.files import existing, one_line
from gnnhet.datasets.raw import Array
from gnnhet.errors import FormatError
from gnnhet.jit import frozen, kernel

NEWLINE, BLANK, TAB, RETURN, PERCENT, ZERO, NINE, PLUS, MINUS, DOT, SMALL_E, LARGE_E = b"\n \t\r%09+-.eE"
WHOLE, REAL, ODD = 0, 1, 2
_EXACT_DIGITS, _EXACT_POWER = 15, 22  # products of such numbers and powers of ten are rounded once
_POWERS = np.array([10.0**power for power in range(_EXACT_POWER + 1)])
_NUMBER = re.compile(rb"[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?|inf(?:inity)?|nan)", re.IGNORECASE)


def read_text(path: str | Path, what: str) -> Array:
    """The bytes of a file, unpacked where its name ends in `.gz`: uint8.

    Raises:
        FormatError: absent, a folder, or a damaged archive.
    """
    file = existing(path, what)
    try:
        content = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
    except (OSError, EOFError, zlib.error) as error:
        raise FormatError(f"{what} must be a whole file, got {one_line(error)} from {file}: restore it") from error
    return np.frombuffer(content, np.uint8)


def line_of(text: Array, position: int) -> int:
    """The number of the line, from 1, that a position is in."""
    return int(np.count_nonzero(text[:position] == NEWLINE)) + 1


def shown(text: Array, position: int) -> str:
    """The line that a position is in, for a message."""
    content = text[position : position + 200].tobytes()
    before = text[max(position - 200, 0) : position].tobytes().rpartition(b"\n")[2]
    return repr((before + content.partition(b"\n")[0]).decode("utf-8", "replace").strip()[:60])


def integers(text: Array) -> tuple[Array, Array, int]:
    """All numbers of a text of unsigned integers, line by line; lines that begin with `%` are left out.

    Args:
        text: uint8.

    Returns:
        the numbers (int64), the count of them up to the end of each line (int64), and the position of the first thing that
        is no such number below 10^18; -1 where there is none.
    """
    tokens, lines = _count(frozen(text))
    numbers, ends = np.empty(tokens, np.int64), np.empty(lines, np.int64)
    return numbers, ends, int(_integers(frozen(text), numbers, ends))


def values(text: Array, spans: Array) -> tuple[Array, Array | None, int]:
    """Numbers whose places are known, each rounded to the nearest float64.

    Args:
        text: uint8.
        spans: int64 [n, 2]: begin and end of each.

    Returns:
        float64 [n]; int64 [n] of the same where all are integers that fit; the position of the first that is no number, or -1.
    """
    reals, wholes = np.empty(spans.shape[0]), np.empty(spans.shape[0], np.int64)
    kinds = np.empty(spans.shape[0], np.uint8)
    _values(frozen(text), frozen(spans), frozen(_POWERS), reals, wholes, kinds)
    whole = bool((kinds == WHOLE).all())
    odd = np.flatnonzero(kinds == ODD)
    for index in odd.tolist():
        token = text[spans[index, 0] : spans[index, 1]].tobytes()
        if not _NUMBER.fullmatch(token):
            return reals, None, int(spans[index, 0])
        reals[index] = float(token)
    return reals, wholes if whole else None, -1


@kernel
def _count(text: Array) -> tuple[int, int]:
    """Tokens and lines, without those that begin with `%`."""
    tokens, lines, inside, comment, first = 0, 0, False, False, True
    for position in range(text.size):
        byte = text[position]
        if first:
            comment = byte == PERCENT
            lines += not comment
            inside = False
        first = byte == NEWLINE
        blank = byte in (BLANK, TAB, RETURN, NEWLINE)
        if not comment and not blank and not inside:
            tokens += 1
        inside = not blank
    return tokens, lines


@kernel
def _integers(text: Array, numbers: Array, ends: Array) -> int:
    """Fill `numbers` and `ends`, of the sizes that `_count` tells; the position of the first bad token, or -1."""
    position, tokens, lines = 0, 0, 0
    while position < text.size:
        if text[position] == PERCENT:
            while position < text.size and text[position] != NEWLINE:
                position += 1
            position += 1
            continue
        while position < text.size and text[position] != NEWLINE:
            byte = text[position]
            if byte in (BLANK, TAB, RETURN):
                position += 1
                continue
            begin, number = position, np.int64(0)
            while position < text.size and ZERO <= text[position] <= NINE:
                number = number * 10 + np.int64(text[position] - ZERO)
                position += 1
            if position == begin or position - begin > 18:
                return begin
            if position < text.size and text[position] not in (BLANK, TAB, RETURN, NEWLINE):
                return begin
            numbers[tokens] = number
            tokens += 1
        ends[lines] = tokens
        lines += 1
        position += 1
    return -1


@kernel
def entries(text: Array, begin: int, rows: Array, columns: Array, spans: Array) -> tuple[int, int]:
    """Lines `row column [value]` from `begin` on; blank lines and those that begin with `%` are left out.

    Args:
        text: uint8.
        begin: of the first line.
        rows: int64 [n]: out.
        columns: int64 [n]: out.
        spans: int64 [n, 2]: out, begin and end of each value; [0, 2] where there are no values.

    Returns:
        how many there were, n at most, and the position of the first line that is none or too many, or -1.
    """
    position, count = begin, 0
    while position < text.size:
        while position < text.size and text[position] in (BLANK, TAB, RETURN):
            position += 1
        if position < text.size and text[position] == PERCENT:
            while position < text.size and text[position] != NEWLINE:
                position += 1
        if position >= text.size or text[position] == NEWLINE:
            position += 1
            continue
        line = position
        if count == rows.size:
            return count, line
        for part in range(2 + (spans.shape[0] > 0)):
            while position < text.size and text[position] in (BLANK, TAB, RETURN):
                position += 1
            start, number = position, np.int64(0)
            while position < text.size and text[position] not in (BLANK, TAB, RETURN, NEWLINE):
                digit = np.int64(text[position]) - ZERO
                if part < 2 and (digit < 0 or digit > 9 or position - start > 17):
                    return count, line
                number = number * 10 + digit
                position += 1
            if position == start:
                return count, line
            if part == 0:
                rows[count] = number
            elif part == 1:
                columns[count] = number
            else:
                spans[count, 0], spans[count, 1] = start, position
        while position < text.size and text[position] != NEWLINE:
            if text[position] not in (BLANK, TAB, RETURN):
                return count, line
            position += 1
        count += 1
    return count, -1


@kernel
def _values(text: Array, spans: Array, powers: Array, reals: Array, wholes: Array, kinds: Array) -> None:
    """Numbers of few digits, exactly; the others are left to Python (`ODD`). Clinger (1990), the fast path."""
    for index in range(spans.shape[0]):
        position, end = spans[index, 0], spans[index, 1]
        negative = text[position] == MINUS
        if negative or text[position] == PLUS:
            position += 1
        mantissa, digits, scale, dotted = np.int64(0), 0, 0, False
        while position < end:
            byte = text[position]
            if ZERO <= byte <= NINE:
                mantissa = mantissa * 10 + np.int64(byte - ZERO)
                digits += 1
                scale -= dotted
                if digits > _EXACT_DIGITS:
                    break
            elif byte == DOT and not dotted:
                dotted = True
            else:
                break
            position += 1
        whole = position == end and not dotted
        power, power_digits, power_sign = np.int64(0), 0, 1
        if position < end and text[position] in (SMALL_E, LARGE_E):
            position += 1
            if position < end and text[position] in (MINUS, PLUS):
                power_sign = -1 if text[position] == MINUS else 1
                position += 1
            while position < end and ZERO <= text[position] <= NINE and power_digits < 3:
                power = power * 10 + np.int64(text[position] - ZERO)
                power_digits += 1
                position += 1
            if power_digits == 0:
                position = end + 1
        scale += power_sign * int(power)
        if position != end or digits == 0 or digits > _EXACT_DIGITS or abs(scale) > _EXACT_POWER:
            kinds[index] = ODD
            continue
        real = float(mantissa)
        real = real / powers[-scale] if scale < 0 else real * powers[scale]
        reals[index] = -real if negative else real
        wholes[index] = -mantissa if negative else mantissa
        kinds[index] = WHOLE if whole else REAL
