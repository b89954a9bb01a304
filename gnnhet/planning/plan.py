"""`Plan`: how a run is placed, as data that can be read, edited and explained."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from gnnhet.config import TrainConfig
from gnnhet.devices import Device
from gnnhet.errors import FormatError, GnnhetError, PlanError

STRATEGIES = ("data_parallel",)
_SUM_TOLERANCE = 1e-6


@dataclass(frozen=True, kw_only=True)
class DeviceCost:
    """What a step costs on a device: t(b) = per_seed_s * b + fixed_s.

    Attributes:
        per_seed_s: seconds a seed.
        fixed_s: seconds a step, whatever its seeds.
        measured_s: the two timed steps it was fitted to, {seeds: seconds}, before the device's throttle.
    """

    per_seed_s: float
    fixed_s: float
    measured_s: Mapping[str, float]


@dataclass(frozen=True, kw_only=True)
class Predicted:
    """What the plan expects.

    Attributes:
        seeds: of a whole step, of all devices: the batch size, or all training nodes where they are fewer.
        step_seconds: of the slowest device.
        epoch_seconds: steps of an epoch times that.
        memory_bytes: of each device: parameters with gradients and optimiser state, and a batch's features and blocks.
        bottleneck: spec of the device that finishes last.
    """

    seeds: int
    step_seconds: float
    epoch_seconds: float
    memory_bytes: tuple[int, ...]
    bottleneck: str


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Who does what.

    Attributes:
        strategy: how the plan computes.
        devices: one a rank.
        shares: of every step's seeds, one a device, summing to 1.
        threads: CPU threads a rank computes with.
        config: the run it was made for.
        costs: measured step cost of each device; empty where nothing had to be measured.
        predicted: None where nothing was measured.
    """

    strategy: str
    devices: tuple[Device, ...]
    shares: tuple[float, ...]
    threads: tuple[int, ...]
    config: TrainConfig
    costs: tuple[DeviceCost, ...] = ()
    predicted: Predicted | None = None

    def __post_init__(self) -> None:
        """Hold the parts together: a plan may have been edited by hand.

        Raises:
            PlanError: naming the rule, what was got and the remedy.
        """
        if self.strategy not in STRATEGIES:
            raise PlanError(f"strategy must be one of {', '.join(STRATEGIES)}, got {self.strategy!r}")
        if not self.devices:
            raise PlanError("a plan needs one device at least, got none: name some with --devices")
        each: dict[str, Sequence[object]] = {"shares": self.shares, "threads": self.threads}
        if self.costs:  # may be left out
            each["costs"] = self.costs
        if self.predicted is not None:
            each["memory_bytes"] = self.predicted.memory_bytes
        for name, values in each.items():
            if len(values) != len(self.devices):
                raise PlanError(
                    f"a plan has one of {name} for each of its {len(self.devices)} devices, got {len(values)}: mend it"
                )
        if any(not 0 <= share <= 1 for share in self.shares) or abs(sum(self.shares) - 1) > _SUM_TOLERANCE:
            raise PlanError(f"shares must be numbers of 0 or more that sum to 1, got {list(self.shares)}")
        if any(count < 1 for count in self.threads):
            raise PlanError(f"threads must be 1 or more, got {list(self.threads)}")

    def explain(self) -> str:
        """The plan as text: who does what, why, and what bounds it."""
        config = self.config
        lines = [
            f"{self.strategy}: {config.model}, fanouts {list(config.fanouts)}, {config.batch_size} seeds a step over "
            f"{len(self.devices)} device{'s' if len(self.devices) > 1 else ''}",
            "",
            f"{'device':<26} {'share':>7} {'seeds':>7} {'threads':>7} {'us/seed':>9} {'fixed ms':>9} {'step ms':>9}",
        ]
        step_seeds = config.batch_size if self.predicted is None else self.predicted.seeds
        for number, device in enumerate(self.devices):
            seeds = self.shares[number] * step_seeds
            row = f"{device.spec:<26} {self.shares[number]:>7.1%} {seeds:>7.0f} {self.threads[number]:>7}"
            if self.costs:
                cost = self.costs[number]
                step_ms = (cost.per_seed_s * seeds + cost.fixed_s) * 1e3 if self.shares[number] else 0.0
                row += f" {cost.per_seed_s * 1e6:>9.1f} {cost.fixed_s * 1e3:>9.2f} {step_ms:>9.2f}"
            lines.append(row)
        lines.append("")
        if len(self.devices) == 1:
            lines.append("One device: it takes every seed, in this process.")
        else:
            lines.append("Shares are set so that all devices finish a step together; they change the speed, never the result.")
        idle = [device.spec for device, share in zip(self.devices, self.shares, strict=True) if share == 0]
        if idle:
            lines.append(f"Without work, since their fixed cost alone is longer than the others' step: {', '.join(idle)}.")
        if self.predicted is not None:
            memory = ", ".join(f"{num_bytes / 2**20:.0f} MiB" for num_bytes in self.predicted.memory_bytes)
            lines.append(
                f"Predicted: {self.predicted.step_seconds * 1e3:.1f} ms a step, {self.predicted.epoch_seconds:.2f} s an "
                f"epoch, memory {memory}; last to finish: {self.predicted.bottleneck}."
            )
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "strategy": self.strategy,
            "devices": [device.to_dict() for device in self.devices],
            "shares": list(self.shares),
            "threads": list(self.threads),
            "config": self.config.to_dict(),
            "costs": [asdict(cost) for cost in self.costs],
            "predicted": None
            if self.predicted is None
            else {**asdict(self.predicted), "memory_bytes": list(self.predicted.memory_bytes)},
        }

    def to_json(self) -> str:
        """JSON that `from_json` reads back to an equal plan."""
        return json.dumps(self.to_dict(), indent=1)

    @classmethod
    def from_json(cls, text: str) -> "Plan":
        """Read a plan, also one edited by hand: its rules are checked again.

        Raises:
            FormatError: not JSON, or without the parts of a plan.
            PlanError: the parts do not hold together.
        """
        try:
            values = json.loads(text)
        except (RecursionError, ValueError) as error:
            raise FormatError(f"a plan must be JSON as `Plan.to_json` writes it, got {error}: make it again") from error
        return cls.from_dict(values)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Plan":
        """The plan that `to_dict` described.

        Raises:
            FormatError: a part of a plan is missing, or of another kind.
            PlanError: the parts do not hold together.
        """
        try:
            predicted = values["predicted"]
            return cls(
                strategy=values["strategy"],
                devices=tuple(Device.from_dict(device) for device in values["devices"]),
                shares=tuple(float(share) for share in values["shares"]),
                threads=tuple(int(count) for count in values["threads"]),
                config=TrainConfig.from_dict(values["config"]),
                costs=tuple(
                    DeviceCost(
                        per_seed_s=float(cost["per_seed_s"]),
                        fixed_s=float(cost["fixed_s"]),
                        measured_s={str(count): float(seconds) for count, seconds in cost["measured_s"].items()},
                    )
                    for cost in values["costs"]
                ),
                predicted=None
                if predicted is None
                else Predicted(
                    seeds=int(predicted["seeds"]),
                    step_seconds=float(predicted["step_seconds"]),
                    epoch_seconds=float(predicted["epoch_seconds"]),
                    memory_bytes=tuple(int(count) for count in predicted["memory_bytes"]),
                    bottleneck=str(predicted["bottleneck"]),
                ),
            )
        except GnnhetError:
            raise
        except KeyError as error:
            raise FormatError(f"a plan has every part that `Plan.to_json` writes, got none of {error}: make it again") from error
        except (AttributeError, OverflowError, TypeError, ValueError) as error:
            raise FormatError(
                f"a plan must be as `Plan.to_json` writes it, got another kind of value ({error}): make it again"
            ) from error
