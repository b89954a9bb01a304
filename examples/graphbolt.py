"""GraphBolt's pipeline around gnnhet's sampler, into DGL's blocks and layers: `python examples/graphbolt.py`, with DGL."""

import itertools
from collections.abc import Iterator
from functools import partial
from typing import Any

import dgl
import dgl.graphbolt as gb
import torch
from dgl.nn import SAGEConv
from torch import Tensor, nn

import gnnhet as gh


def sample(sampler: gh.NeighborSampler, steps: Iterator[int], minibatch: gb.MiniBatch) -> tuple[list[Any], Tensor, Tensor]:
    """The map stage: blocks of GraphBolt's seeds, rows of their inputs, labels."""
    blocks = sampler.sample(minibatch.seed_nodes, step=next(steps)).to_dgl()
    return blocks, sampler.graph.features.gather("node", "x", blocks[0].srcdata[dgl.NID]), minibatch.labels


def main() -> None:
    """Ten epochs on a generated graph."""
    made = gh.load_dataset("communities:5000:60000")
    x, y, split = (made.features.array("item", name) for name in ("x", "y", "split"))
    graph = gh.Graph.from_csc(*made.csc(("item", "like", "item")), x=x, y=y, split=split)
    sampler = gh.NeighborSampler(graph, fanouts=[10, 10], seed=0)

    train = torch.tensor(graph.split_ids("node", "train"))
    items = gb.ItemSet((train, torch.tensor(y)[train]), names=("seed_nodes", "labels"))
    seeds = gb.ItemSampler(items, batch_size=256, shuffle=True)
    batches = gb.DataLoader(seeds.map(partial(sample, sampler, itertools.count())))

    first = SAGEConv(graph.features.width("node", "x"), 32, "mean")
    second = SAGEConv(32, graph.num_classes("node"), "mean")
    optimizer = torch.optim.Adam([*first.parameters(), *second.parameters()], lr=0.01)
    for epoch in range(10):
        total = 0.0
        for blocks, rows, labels in batches:
            optimizer.zero_grad()
            scores = second(blocks[1], torch.relu(first(blocks[0], rows)))
            loss = nn.functional.cross_entropy(scores, labels)
            torch.autograd.backward(loss)
            optimizer.step()
            total += float(loss.detach()) * labels.numel()
        print(f"epoch {epoch}: loss {total / train.numel():.4f}")


if __name__ == "__main__":
    main()
