"""A person's own model and training loop over gnnhet's loader: `python examples/own_loop.py`."""

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.nn import SAGEConv

import gnnhet as gh


class OwnModel(nn.Module):
    """Any module whose forward takes a MiniBatch and returns a row a seed."""

    def __init__(self, columns: int, classes: int) -> None:
        """Two convolutions."""
        super().__init__()
        self.layers = nn.ModuleList([SAGEConv((columns, columns), 32), SAGEConv((32, 32), classes)])

    def forward(self, batch: gh.MiniBatch) -> Tensor:
        """Class scores."""
        h = batch.x
        for number, (layer, block) in enumerate(zip(self.layers, batch.blocks, strict=True)):
            edges = block.edge_index(("node", "to", "node"))
            h = layer((h, h[: block.dst_ids.numel()]), edges)
            h = torch.relu(h) if number == 0 else h
        return h


def main() -> None:
    """Ten epochs on a generated graph."""
    made = gh.load_dataset("communities:5000:60000")
    indptr, indices = made.csc(("item", "like", "item"))
    store = made.features
    graph = gh.Graph.from_csc(
        indptr, indices, x=store.array("item", "x"), y=store.array("item", "y"), split=store.array("item", "split")
    )
    loader = gh.NeighborLoader(graph, fanouts=[10, 10], batch_size=256, seed=0, threads=2)
    model = OwnModel(columns=graph.features.width("node", "x"), classes=graph.num_classes("node"))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for epoch in range(10):
        total = 0.0
        for batch in loader:
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(batch), batch.y)
            torch.autograd.backward(loss)
            optimizer.step()
            total += float(loss.detach()) * batch.seeds.numel()
        print(f"epoch {epoch}: loss {total / loader.seeds.size:.4f}")


if __name__ == "__main__":
    main()
