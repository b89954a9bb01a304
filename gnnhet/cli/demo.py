"""`gnnhet demo`: the whole way on real data, in under a minute."""

import time
from typing import Annotated, Any

import typer

from gnnhet.cli.output import AsJson, percent, print_json, table

EPOCHS, MLP_EPOCHS = 5, 8
OPTIONS: dict[str, Any] = {"fanouts": (10, 10), "hidden": 64, "batch_size": 1024, "lr": 0.01, "dropout": 0.3}


def demo(
    devices: Annotated[str, typer.Option(metavar="SPEC", help="Where to train.")] = "cpu;cpu@0.5",
    run: Annotated[str | None, typer.Option("--run", metavar="DIR", help="Folder of the run.")] = None,
    json: AsJson = False,
) -> None:
    """Train on WordNet over two unequal devices, and beside it a model that sees no graph.

    R-GCN predicts the 26 lexicographer categories of nouns; the second device is a rehearsal: the CPU at half its speed.
    """
    from gnnhet.planning import plan as make_plan
    from gnnhet.samplers import NeighborSampler
    from gnnhet.storage import load_dataset
    from gnnhet.training import train

    started = time.perf_counter()

    def say(text: str) -> None:
        if not json:
            print(text, flush=True)

    graph = load_dataset("wordnet")
    say(str(graph))
    mark = time.perf_counter()
    NeighborSampler(graph, [2, 2]).sample((graph.target_type, graph.split_ids(graph.target_type, "train")[:8]))
    compiled = time.perf_counter() - mark
    say(f"sampling kernels compiled or loaded from the cache in {compiled:.1f} s\n")
    made = make_plan(graph, "rgcn", devices, epochs=EPOCHS, **OPTIONS)
    say(made.explain() + "\n")
    gnn = train(graph, made, run=run, quiet=json)
    say("and a perceptron on the same features, without the graph:")
    mlp = train(graph, devices="cpu", model="mlp", quiet=True, epochs=MLP_EPOCHS, **OPTIONS)
    seconds = time.perf_counter() - started
    if json:
        print_json({**gnn.to_dict(), "mlp": mlp.to_dict(), "compile_seconds": compiled, "seconds": seconds})
        return
    table(
        "Accuracy on WordNet's nouns (26 classes)",
        ("model", "validation", "test", "s/epoch"),
        [
            (name, percent(done.metrics["val"]), percent(done.metrics["test"]), f"{done.epoch_seconds or 0:.2f}")
            for name, done in (("R-GCN", gnn), ("MLP", mlp))
        ],
    )
    say(f"\nrun folder: {gnn.folder}  (picture.png, metrics.jsonl, plan.json, checkpoint/)")
    say(f"{seconds:.0f} s in all")
