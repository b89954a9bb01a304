"""The mixer that all keyed randomness is made from: the finaliser of splitmix64 (Steele, Lea, Flood, 2014)."""

import numpy as np

from gnnhet.jit import kernel

MASK = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15
_M1, _M2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_S30, _S27, _S31 = np.uint64(30), np.uint64(27), np.uint64(31)


def stream(*parts: int) -> np.uint64:
    """One 64-bit number from the integers that say what a stream of draws is for.

    The same parts give the same number on any machine, thread and day.
    """
    state = 0
    for part in parts:
        state = _mix_int(((state + GOLDEN) & MASK) ^ (part & MASK))
    return np.uint64(state)


def _mix_int(z: int) -> int:
    """The mixer on Python integers."""
    z = ((z ^ (z >> 30)) * int(_M1)) & MASK
    z = ((z ^ (z >> 27)) * int(_M2)) & MASK
    return z ^ (z >> 31)


@kernel
def mix(z: np.uint64) -> np.uint64:
    """The mixer: a bijection of 64-bit numbers in which every input bit reaches every output bit."""
    z = (z ^ (z >> _S30)) * _M1
    z = (z ^ (z >> _S27)) * _M2
    return z ^ (z >> _S31)
