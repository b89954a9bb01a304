"""Dropout whose mask depends on (seed, epoch, step, layer, node, column) alone.

torch's own draws from a stream of the device, so that the mask would depend on the device and on which other nodes are in
the batch. Here the kept elements are the same on any device and for any split of the batch: training with dropout gives
the same losses wherever it runs. The price: about a nanosecond an element on a CPU core.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from gnnhet.jit import frozen, kernel
from gnnhet.samplers.rng import draw, node_key

_S32 = np.uint64(32)
_WRAP = 1 << 64


def keyed_dropout(x: Tensor, p: float, base: np.uint64, ids: Tensor) -> Tensor:
    """Zero elements with probability p and scale the others by 1 / (1 - p) (Srivastava et al., 2014).

    Args:
        x: floating, shape [nodes, columns].
        p: in [0, 1).
        base: the stream of (seed, epoch, step, layer, node type).
        ids: int64 [nodes], global ids, on the device of x.
    """
    if p == 0.0:
        return x
    threshold, scale = round(p * 2**32), 1.0 / (1.0 - p)
    if x.device.type == "cpu" and x.dtype in (torch.float32, torch.float64):
        factors = torch.empty(x.shape, dtype=x.dtype)
        _fill_factors(base, frozen(ids.numpy()), np.uint64(threshold), scale, factors.numpy())
        return x * factors
    return x * _mask(base, ids, x.shape[1], threshold) * scale


@kernel
def _fill_factors(base: np.uint64, ids: npt.NDArray[Any], threshold: np.uint64, scale: float, out: npt.NDArray[Any]) -> None:
    """out[i, j]: scale where draw j of node ids[i] lies at or above the threshold (of 2^32), else 0."""
    for i in range(out.shape[0]):
        key = node_key(base, ids[i])
        for j in range(out.shape[1]):
            out[i, j] = scale if (draw(key, j) >> _S32) >= threshold else 0.0


def _mask(base: np.uint64, ids: Tensor, width: int, threshold: int) -> Tensor:
    """The same mask by tensor operations, for devices other than the CPU: 64-bit integers wrap as the kernel's do."""
    key = _mix(_signed(int(base)) + ids.unsqueeze(1) * _signed(0x9E3779B97F4A7C15))
    columns = torch.arange(1, width + 1, device=ids.device).unsqueeze(0)
    bits = _mix(key + columns * _signed(0xD1342543DE82EF95))
    return _shift(bits, 32) >= threshold


def _mix(z: Tensor) -> Tensor:
    """`rng.mix` on int64 tensors."""
    z = (z ^ _shift(z, 30)) * _signed(0xBF58476D1CE4E5B9)
    z = (z ^ _shift(z, 27)) * _signed(0x94D049BB133111EB)
    return z ^ _shift(z, 31)


def _shift(z: Tensor, by: int) -> Tensor:
    """Logical shift right: torch's is arithmetic."""
    return (z >> by) & ((1 << (64 - by)) - 1)


def _signed(bits: int) -> int:
    """The int64 with these bits."""
    return bits - _WRAP if bits >= _WRAP // 2 else bits
