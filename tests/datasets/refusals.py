"""What a refusal must look like: one line that names what it is about."""

import contextlib
from collections.abc import Iterator

import pytest

from gnnhet.errors import GnnhetError


@contextlib.contextmanager
def refused(error: type[GnnhetError], *parts: object) -> Iterator[None]:
    """The block raises `error`, on one line with all parts in it."""
    with pytest.raises(error) as caught:
        yield
    message = str(caught.value)
    assert "\n" not in message
    assert "\x1b" not in message
    assert len(message) < 600
    for part in parts:
        assert str(part) in message
