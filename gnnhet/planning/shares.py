"""Shares at which unequal devices finish a step together (Cannikin; Nie et al., 2024, optimal performance equations)."""

from collections.abc import Sequence


def equal_finish(batch_size: int, per_seed_s: Sequence[float], fixed_s: Sequence[float]) -> list[float]:
    """Shares that sum to 1 and minimise the slowest device's step.

    With t_k(b) = per_seed_k * b + fixed_k all devices that take part finish at
    T = (B + sum fixed_k / per_seed_k) / sum 1 / per_seed_k; b_k = (T - fixed_k) / per_seed_k. A device whose b_k would not
    be above 0 takes no part, and the rest is solved again.

    Args:
        batch_size: B, seeds a step.
        per_seed_s: seconds a seed of each device, above 0.
        fixed_s: seconds a step of each device, whatever its seeds, 0 or more.
    """
    active = list(range(len(per_seed_s)))
    while True:
        rate = sum(1 / per_seed_s[k] for k in active)
        finish = (batch_size + sum(fixed_s[k] / per_seed_s[k] for k in active)) / rate
        seeds = {k: (finish - fixed_s[k]) / per_seed_s[k] for k in active}
        late = [k for k in active if seeds[k] <= 0]
        if not late:
            total = sum(seeds.values())
            return [seeds.get(k, 0.0) / total for k in range(len(per_seed_s))]
        worst = min(late, key=lambda k: seeds[k])
        active.remove(worst)
