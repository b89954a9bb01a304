"""A run at a glance: loss and accuracy on one page."""

import itertools
import math
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from gnnhet.errors import FormatError
from gnnhet.report.files import write_atomically
from gnnhet.report.records import CONFIG, PLAN, Record, RunFolder

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Floats = npt.NDArray[np.float64]

# Okabe and Ito's palette, told apart with any colour vision; markers and dashes tell them apart in grey too.
_SPLITS = {"train": ("#0072B2", "o", "--"), "val": ("#D55E00", "s", "-"), "test": ("#009E73", "^", "-")}
_NAMES = {"train": "train", "val": "validation", "test": "test"}
_STEP, _SMOOTH, _EPOCH, _QUIET = "#9ECAE9", "#0072B2", "#D55E00", "#555555"
_MOST_POINTS = 4000  # more than the page has pixels across
_LOG_RATIO = 30  # a loss that falls further than this is drawn on a log scale


def draw(run: RunFolder) -> Path:
    """Draws `picture.png` of a run: its loss a step and an epoch, and its accuracy an epoch.

    Whatever is missing is left out; a run without a record gives a page that says so. No display is needed.

    Args:
        run: the folder of a run, which may still be going on.

    Returns:
        The picture's path.

    Raises:
        FormatError: the records cannot be read.
    """
    # matplotlib takes long to import and most commands draw nothing. Never pyplot: it keeps global state and may
    # look for a display.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    records = run.records()
    steps = [record for record in records if record.get("kind") == "step"]
    epochs = [record for record in records if record.get("kind") == "epoch"]
    figure = Figure(figsize=(11, 4.8), layout="constrained")
    FigureCanvasAgg(figure)
    title, subtitle = _titles(run)
    figure.suptitle(f"{title}\n{subtitle}" if subtitle else title, fontsize=10.5)
    left, right = figure.subplots(1, 2, gridspec_kw={"wspace": 0.06})
    _draw_loss(left, steps, epochs)
    _draw_accuracy(right, epochs)
    return write_atomically(run.picture, lambda temporary: figure.savefig(temporary, format="png", dpi=150))


def smooth(values: Floats, window: int) -> Floats:
    """The mean of the finite values within `window // 2` of each place; NaN where there are none.

    Args:
        values: shape [n].
        window: width in values, odd.

    Returns:
        Shape [n].
    """
    finite = np.isfinite(values)
    half = window // 2
    places = np.arange(len(values))
    low, high = np.maximum(places - half, 0), np.minimum(places + half + 1, len(values))
    sums = np.concatenate([[0.0], np.cumsum(np.where(finite, values, 0.0))])
    counts = np.concatenate([[0], np.cumsum(finite)])
    number = counts[high] - counts[low]
    return np.where(number > 0, (sums[high] - sums[low]) / np.maximum(number, 1), np.nan)


def _draw_loss(axes: "Axes", steps: Sequence[Record], epochs: Sequence[Record]) -> None:
    _prepare(axes, "Loss", "step" if steps else "epoch", "loss")
    if not steps and not epochs:
        _say_nothing(axes, "no steps yet")
        return
    shown: list[Floats] = []
    ends: dict[int, float] = {}
    if steps:
        x, y = _columns(steps, "global_step", "loss")
        few = len(x) < 20
        axes.plot(*_thin(x, y), color=_STEP, lw=1, marker="o" if few else "", ms=4, label="step")
        if not few:
            window = max(5, len(y) // 40) | 1
            axes.plot(*_thin(x, smooth(y, window)), color=_SMOOTH, lw=1.8, label=f"mean of {window} steps")
        shown.append(y)
        for record in steps:
            ends[record.get("epoch", -1)] = record.get("global_step", math.nan)
    if epochs:
        numbers, losses = _columns(epochs, "epoch", "loss")
        # An epoch stands where its last step does; one whose steps are not recorded has no place among steps.
        places = np.array([ends.get(int(number), math.nan) for number in numbers]) if steps else numbers
        marker = "D" if len(places) <= 40 else ""
        axes.plot(places, losses, color=_EPOCH, lw=1.2, ls="--", marker=marker, ms=4, label="epoch")
        shown.append(losses)
    values = np.concatenate(shown)
    values = values[np.isfinite(values)]
    if len(values) and values.min() > 0 and values.max() / values.min() > _LOG_RATIO:
        axes.set_yscale("log")
    _finish(axes)


def _draw_accuracy(axes: "Axes", epochs: Sequence[Record]) -> None:
    _prepare(axes, "Accuracy", "epoch", "accuracy (%)")
    drawn = {}
    for split, (colour, marker, dashes) in _SPLITS.items():
        x, y = _columns(epochs, "epoch", split)
        if np.isfinite(y).any():
            drawn[split] = dict(zip(x.tolist(), y.tolist(), strict=True))
            markers = marker if len(x) <= 40 else ""
            axes.plot(x, 100 * y, color=colour, ls=dashes, lw=1.6, marker=markers, ms=4.5, label=_NAMES[split])
    if not drawn:
        _say_nothing(axes, "no evaluation yet")
        return
    validation = {epoch: value for epoch, value in drawn.get("val", {}).items() if math.isfinite(value)}
    if validation:
        best = max(validation, key=lambda epoch: (validation[epoch], -epoch))
        axes.axvline(best, color=_QUIET, lw=1, ls=":")
        axes.plot([best], [100 * validation[best]], "*", ms=14, color=_SPLITS["val"][0], mec="white", zorder=5)
        others = ", ".join(
            f"{split} {100 * by_epoch[best]:.1f} %"
            for split, by_epoch in drawn.items()
            if split != "val" and math.isfinite(by_epoch.get(best, math.nan))
        )
        text = f"best validation, epoch {best:.0f}: {100 * validation[best]:.1f} %"
        axes.set_xlabel(f"epoch\n{text} ({others})" if others else f"epoch\n{text}")
    _finish(axes)


def _prepare(axes: "Axes", title: str, x: str, y: str) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.set_title(title, loc="left", fontsize=11, fontweight="bold")
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.grid(color="#E3E3E3", lw=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=8))


def _finish(axes: "Axes") -> None:
    low, high = axes.dataLim.intervalx
    if low == high:  # a single point: matplotlib would show ticks of thousandths around it
        axes.set_xlim(low - 1, high + 1)
    # Beside the title, where no data can lie beneath it.
    axes.legend(
        loc="lower right",
        bbox_to_anchor=(1, 1),
        borderaxespad=0.2,
        ncols=3,
        frameon=False,
        fontsize=9,
        columnspacing=1.2,
    )


def _say_nothing(axes: "Axes", text: str) -> None:
    axes.text(0.5, 0.5, text, transform=axes.transAxes, ha="center", va="center", color=_QUIET)
    axes.set_xticks([])
    axes.set_yticks([])


def _columns(records: Sequence[Record], x: str, y: str) -> tuple[Floats, Floats]:
    """Two fields of records, sorted by the first, its last record counting; null and missing values are NaN."""
    found = {record[x]: record.get(y) for record in records if isinstance(record.get(x), int)}
    keys = sorted(found)
    values = [math.nan if (value := found[key]) is None else float(value) for key in keys]
    return np.array(keys, dtype=np.float64), np.array(values, dtype=np.float64)


def _thin(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """Fewer points of a long line that look the same: the lowest and the highest of each stretch."""
    stretch = 2 * math.ceil(len(x) / _MOST_POINTS)
    if stretch <= 2:
        return x, y
    starts = range(0, len(x), stretch)
    kept = []
    for start in starts:
        part = y[start : start + stretch]
        if np.isfinite(part).any():
            kept += sorted({start + int(np.nanargmin(part)), start + int(np.nanargmax(part))})
    return x[kept], y[kept]


def _titles(run: RunFolder) -> tuple[str, str]:
    """`dataset, model` and `device share, ...`, of what config.json and plan.json say."""
    config, plan = _read(run, CONFIG), _read(run, PLAN)
    title = ", ".join(str(config[key]) for key in ("dataset", "model") if config.get(key)) or run.path.name
    devices = plan.get("devices") or config.get("devices") or []
    names = devices.split(";") if isinstance(devices, str) else [_device_text(device) for device in devices]
    shares = plan.get("shares") or []
    if len(shares) == len(names):
        names = [f"{name} {100 * share:.0f} %" for name, share in zip(names, shares, strict=True)]
    runs = [(name, len(list(same))) for name, same in itertools.groupby(names)]
    devices_text = " · ".join(name if count == 1 else f"{count} x {name}" for name, count in runs)  # specs hold commas
    return textwrap.shorten(title, 110, placeholder=" ..."), textwrap.shorten(devices_text, 120, placeholder=" ...")


def _device_text(device: object) -> str:
    from gnnhet.devices.device import Device

    return Device.from_dict(device).spec if isinstance(device, Mapping) else str(device)


def _read(run: RunFolder, name: str) -> dict[str, Any]:
    try:
        value = run.read_json(name)
    except FormatError:
        return {}
    return value if isinstance(value, dict) else {}
