"""Commands that place and run: `plan`, `train`."""

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gnnhet.cli.output import AsJson, GraphArgument, Root, number_bytes, percent, print_json, table
from gnnhet.errors import SpecError

if TYPE_CHECKING:
    from gnnhet.training import Run

STOPPED = 130
_STALL = 0.2  # part of the time waiting for batches from which on it is said

Model = Annotated[str | None, typer.Option(help="gcn, sage, gat, rgcn, hgt or mlp.  [default: sage; rgcn for typed graphs]")]
Fanouts = Annotated[
    str | None, typer.Option(help="Neighbours drawn a layer, the seeds' own first; -1 takes all.  [default: 15,10]")
]
Hidden = Annotated[int | None, typer.Option(help="Columns between layers.  [default: 128]")]
Dropout = Annotated[float | None, typer.Option(help="Probability, before every layer.  [default: 0.5]")]
BatchSize = Annotated[int | None, typer.Option(help="Seeds a step, of all devices together.  [default: 1024]")]
Seed = Annotated[int | None, typer.Option(help="Of parameters, order, draws and dropout.  [default: 0]")]
Target = Annotated[str | None, typer.Option(help="Node type to predict.  [default: the one with labels]")]
Embeddings = Annotated[
    str | None, typer.Option(help="Of types without features: dense, or sparse (a table on disk).  [default: dense]")
]
Devices = Annotated[str | None, typer.Option(metavar="SPEC", help="Such as 'cuda:0;cuda:1;cpu@0.5', or auto.  [default: auto]")]


def plan(
    graph: GraphArgument,
    model: Model = None,
    devices: Devices = None,
    fanouts: Fanouts = None,
    hidden: Hidden = None,
    dropout: Dropout = None,
    batch_size: BatchSize = None,
    seed: Seed = None,
    target: Target = None,
    embeddings: Embeddings = None,
    root: Root = None,
    json: AsJson = False,
) -> None:
    """Measure devices and say who would do what, and why.

    Example: gnnhet plan wordnet --model rgcn --devices 'cpu;cpu@0.5'
    """
    from gnnhet.planning import plan as make_plan
    from gnnhet.storage import load_dataset

    loaded = load_dataset(graph, root)
    options = _given(
        fanouts=_fanouts(fanouts),
        hidden=hidden,
        dropout=dropout,
        batch_size=batch_size,
        seed=seed,
        target=target,
        embeddings=embeddings,
    )
    made = make_plan(loaded, model or _usual_model(loaded.homogeneous), devices or "auto", **options)
    if json:
        print_json(made.to_dict())
    else:
        print(made.explain())


def train(
    graph: GraphArgument,
    model: Model = None,
    devices: Devices = None,
    fanouts: Fanouts = None,
    hidden: Hidden = None,
    dropout: Dropout = None,
    lr: Annotated[float | None, typer.Option(help="Learning rate.  [default: 0.003]")] = None,
    weight_decay: Annotated[float | None, typer.Option(help="L2 penalty.  [default: 0]")] = None,
    optimizer: Annotated[str | None, typer.Option(help="adam, adamw, sgd, rmsprop or adagrad.  [default: adam]")] = None,
    schedule: Annotated[
        str | None, typer.Option(help="Of the learning rate: constant, cosine or linear.  [default: constant]")
    ] = None,
    epochs: Annotated[int | None, typer.Option(help="Passes over the training nodes.  [default: 20, or until --steps]")] = None,
    steps: Annotated[int | None, typer.Option(help="Stop after so many steps in all.")] = None,
    batch_size: BatchSize = None,
    seed: Seed = None,
    replace: Annotated[bool | None, typer.Option("--replace", help="Draw neighbours with replacement.")] = None,
    early_stop: Annotated[
        int | None, typer.Option(help="Stop after so many epochs without a better validation accuracy.")
    ] = None,
    eval_every: Annotated[int | None, typer.Option(help="Epochs between evaluations.  [default: 1]")] = None,
    evaluation: Annotated[
        str | None, typer.Option(help="full (every neighbour), sampled (by the fanouts), or none.  [default: full]")
    ] = None,
    target: Target = None,
    embeddings: Embeddings = None,
    threads: Annotated[int, typer.Option(help="Sampler threads a rank.")] = 1,
    cache: Annotated[
        str, typer.Option("--cache", metavar="SIZE", help="Memory a rank keeps features from files in, as 4GiB.")
    ] = "0",
    cache_policy: Annotated[str, typer.Option(help="Rows it keeps: presampled, belady, inclusion or degree.")] = "presampled",
    reads: Annotated[str, typer.Option(help="Of features in files: auto, map, buffered or direct.")] = "auto",
    preload: Annotated[
        bool | None,
        typer.Option("--preload/--no-preload", help="Read the topology into memory first.  [default: where it fits]"),
    ] = None,
    strategy: Annotated[str | None, typer.Option(help="How to compute: data_parallel.")] = None,
    plan: Annotated[
        Path | None, typer.Option("--plan", metavar="FILE", help="A plan, as `gnnhet plan --json` prints it.")
    ] = None,
    run: Annotated[str | None, typer.Option("--run", metavar="DIR", help="Folder of the new run.")] = None,
    resume: Annotated[str | None, typer.Option("--resume", metavar="RUN", help="Go on with a run, on any devices.")] = None,
    timeout: Annotated[float, typer.Option(help="Seconds a rank waits for the others, or for a batch.")] = 300.0,
    root: Root = None,
    json: AsJson = False,
) -> None:
    """Train a model; the losses are the same on any devices.

    Example: gnnhet train wordnet --model rgcn --devices 'cpu;cpu@0.5' --epochs 5
    """
    from gnnhet.devices import require_present
    from gnnhet.planning import Plan
    from gnnhet.planning.plan import STRATEGIES
    from gnnhet.samplers import Tiers
    from gnnhet.storage import load_dataset
    from gnnhet.training import train as run_training

    if strategy is not None and strategy not in STRATEGIES:
        raise SpecError(f"strategy must be one of {', '.join(STRATEGIES)}, got {strategy!r}")
    if threads < 1:  # before a run folder is made
        raise SpecError(f"threads must be 1 or more, got {threads}")
    if not timeout > 0:
        raise SpecError(f"timeout must be above 0 seconds, got {timeout:g}")
    tiers = Tiers(reads=reads, cache=cache, policy=cache_policy)
    loaded = load_dataset(graph, root)
    placed = None if plan is None else Plan.from_json(_read(plan))
    if placed is not None and devices is None:
        require_present(placed.devices)
    if model is None and placed is None and resume is None:
        model = _usual_model(loaded.homogeneous)
    options = _given(
        model=model,
        fanouts=_fanouts(fanouts),
        hidden=hidden,
        dropout=dropout,
        lr=lr,
        weight_decay=weight_decay,
        optimizer=optimizer,
        schedule=schedule,
        epochs=epochs,
        steps=steps,
        batch_size=batch_size,
        seed=seed,
        replace=replace,
        early_stop=early_stop,
        eval_every=eval_every,
        evaluation=evaluation,
        target=target,
        embeddings=embeddings,
    )
    done = run_training(
        loaded,
        placed,
        devices=devices,
        run=run,
        resume=resume,
        threads=threads,
        timeout_s=timeout,
        tiers=tiers,
        preload=preload,
        quiet=json,
        **options,
    )
    if json:
        print_json(done.to_dict())
    else:
        show(done)
    if not done.finished:
        again = ["gnnhet", "train", graph, "--resume", str(done.folder)]
        print(
            f"stopped after step {len(done.step_loss)}; go on, on any devices, with: {shlex.join(again)}",
            file=sys.stderr,
        )
        raise typer.Exit(STOPPED)


def show(run: "Run") -> None:
    """A run for people: the plan and what came out."""
    print(run.plan.explain())
    print()
    figures = run.metrics
    table(
        f"{run.dataset}, {run.config.model}",
        ("accuracy", "train", "validation", "test", "test macro-F1", "epoch", "s/epoch", "seeds/s"),
        [
            (
                "at the best epoch",
                percent(figures["train"]),
                percent(figures["val"]),
                percent(figures["test"]),
                percent(figures["macro_f1"]),
                "-" if figures["epoch"] is None else str(figures["epoch"]),
                "-" if run.epoch_seconds is None else f"{run.epoch_seconds:.2f}",
                "-" if run.seeds_per_second is None else f"{run.seeds_per_second:,.0f}",
            )
        ],
    )
    print()
    if run.cache is not None and run.cache["hit_rate"] is not None:
        print(
            f"cache: {number_bytes(run.cache['bytes'])} of features, {run.cache['hit_rate']:.1%} of the rows asked for were there"
        )
    if run.loader_stall is not None and run.loader_stall > _STALL:
        print(
            f"loader: the device waited {run.loader_stall:.0%} of the time for batches: raise --threads, --cache or --batch-size"
        )
    print(f"run folder: {run.folder}")


def _usual_model(homogeneous: bool) -> str:
    """The model where none is named."""
    return "sage" if homogeneous else "rgcn"


def _fanouts(text: str | None) -> tuple[int, ...] | None:
    """`15,10` as numbers.

    Raises:
        SpecError: not whole numbers with commas between.
    """
    if text is None:
        return None
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise SpecError(f"fanouts must be whole numbers with commas between, such as 15,10 or -1,-1, got {text!r}") from None


def _given(**options: Any) -> dict[str, Any]:
    """The options that were given."""
    return {name: value for name, value in options.items() if value is not None}


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise SpecError(f"--plan needs a readable file, got {path}: {getattr(error, 'strerror', None) or error}") from error
