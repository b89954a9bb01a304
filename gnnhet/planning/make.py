"""`plan`: measure, share, predict."""

import copy
from typing import Any

from torch import nn

from gnnhet.config import TrainConfig
from gnnhet.devices import Device, parse_devices, require_present
from gnnhet.devices.limits import available_threads
from gnnhet.errors import SpecError
from gnnhet.models import build_model
from gnnhet.models.catalogue import model_class
from gnnhet.models.embeddings import embedded_types, with_initial_rows
from gnnhet.planning.measure import Sizes, measure_cost, sample_sizes
from gnnhet.planning.plan import DeviceCost, Plan, Predicted
from gnnhet.planning.shares import equal_finish
from gnnhet.samplers import NeighborLoader
from gnnhet.storage import Graph


def plan(graph: Graph, model: str | nn.Module = "sage", devices: Any = "auto", **options: Any) -> Plan:
    """Decide how a run is placed on devices of this machine.

    Several devices are measured first (a few steps each, in this process, seconds in all), and given shares of every step
    at which they finish together. Shares never change the result.

    Args:
        graph: what will be trained on.
        model: name of a built-in model, or a person's own module (`forward(batch)` returns a row a seed).
        devices: spec such as `cuda:0;cpu@0.5`, a list of specs or `Device`s, or `auto`.
        options: fields of `TrainConfig`.

    Raises:
        SpecError: an unknown model, device or option, or one that does not fit the graph.
        PlanError: a device that cannot do the work.
    """
    named = model if isinstance(model, str) else type(model).__name__
    config = TrainConfig().changed(model=named, **options)
    chosen = tuple(require_present(parse_devices(devices)))
    loader = training_loader(graph, config, model)
    # timed steps change buffers and generators: not those of a person's own module
    module = copy.deepcopy(model) if isinstance(model, nn.Module) else model_for(graph, config)
    threads = rank_threads(chosen)
    if len(chosen) == 1:
        return Plan(strategy="data_parallel", devices=chosen, shares=(1.0,), threads=threads, config=config)
    sizes = sample_sizes(loader)
    if config.embeddings == "sparse":
        types = embedded_types(graph, loader.seed_type, getattr(module, "uses_graph", True))
        whole, small = (with_initial_rows(batch, graph, types, config.hidden) for batch in (sizes.whole, sizes.small))
        sizes = Sizes(small=small, whole=whole)
    measured: dict[tuple[str, int, int], DeviceCost] = {}
    costs = []
    for device, count in zip(chosen, threads, strict=True):
        key = (device.kind, device.index, count)
        if key not in measured:  # a device and its throttled twins are one piece of hardware: timed once
            measured[key] = measure_cost(module, sizes, device, count)
        costs.append(_throttled(measured[key], device, sizes))
    module.to("cpu")
    seeds = sizes.whole.seeds.numel()
    shares = equal_finish(seeds, [cost.per_seed_s for cost in costs], [cost.fixed_s for cost in costs])
    predicted = _predict(chosen, shares, costs, module, sizes, len(loader))
    return Plan(
        strategy="data_parallel",
        devices=chosen,
        shares=tuple(shares),
        threads=threads,
        config=config,
        costs=tuple(costs),
        predicted=predicted,
    )


def model_for(graph: Graph, config: TrainConfig) -> nn.Module:
    """The built-in model a config names.

    Raises:
        SpecError: it does not fit the graph.
    """
    return build_model(
        config.model,
        graph,
        hidden=config.hidden,
        num_layers=len(config.fanouts),
        dropout=config.dropout,
        target_type=config.target or graph.target_type,
        seed=config.seed,
        sparse_embeddings=config.embeddings == "sparse",
    )


def training_loader(graph: Graph, config: TrainConfig, model: str | nn.Module, **options: Any) -> NeighborLoader:
    """The loader of a run's training seeds.

    Raises:
        SpecError: the graph has no such target or no labelled training nodes, or the model is unknown.
    """
    target = config.target or graph.target_type
    if target not in graph.num_nodes:
        raise SpecError(f"the target must be a node type of the graph ({', '.join(graph.node_types)}), got {target!r}")
    seeds = graph.split_ids(target, "train")
    if not seeds.size:
        raise SpecError(f"training needs labelled {target} nodes whose `split` is train (0), got none: add the feature `split`")
    kind = model_class(model) if isinstance(model, str) else type(model)
    fanouts = config.fanouts if getattr(kind, "uses_graph", True) else ()
    if getattr(kind, "uses_graph", True) and not fanouts:
        raise SpecError(f"{config.model} needs one fanout a layer, got none: give --fanouts 15,10")
    return NeighborLoader(
        graph,
        fanouts,
        config.batch_size,
        (target, seeds),
        replace=config.replace,
        seed=config.seed,
        with_degrees=getattr(kind, "needs_degrees", False),
        **options,
    )


def rank_threads(devices: tuple[Device, ...]) -> tuple[int, ...]:
    """CPU threads of each rank: what its spec says, else an even part of this process's."""
    even = max(available_threads() // len(devices), 1)
    return tuple(device.threads or even for device in devices)


def _throttled(cost: DeviceCost, device: Device, sizes: Sizes) -> DeviceCost:
    """What a step costs on a device held to a share of its speed and to a link."""
    link = device.link_bytes_per_second
    link_s = sizes.whole.feature_bytes / sizes.whole.seeds.numel() / link if link else 0.0
    return DeviceCost(
        per_seed_s=cost.per_seed_s / device.speed + link_s,
        fixed_s=cost.fixed_s / device.speed,
        measured_s=cost.measured_s,
    )


def _predict(
    devices: tuple[Device, ...],
    shares: list[float],
    costs: list[DeviceCost],
    model: nn.Module,
    sizes: Sizes,
    steps_per_epoch: int,
) -> Predicted:
    """Step time of the slowest device, and each one's memory."""
    seeds = sizes.whole.seeds.numel()
    finish = [cost.per_seed_s * share * seeds + cost.fixed_s if share else 0.0 for cost, share in zip(costs, shares, strict=True)]
    parameter_bytes = sum(p.numel() * p.element_size() for p in model.parameters())
    batch_bytes = sizes.whole.feature_bytes + 4 * sizes.whole.num_edges
    return Predicted(
        seeds=seeds,
        step_seconds=max(finish),
        epoch_seconds=max(finish) * steps_per_epoch,
        # parameters, their gradients, and two moments of Adam
        memory_bytes=tuple(round(4 * parameter_bytes + share * batch_bytes) for share in shares),
        bottleneck=devices[finish.index(max(finish))].spec,
    )
