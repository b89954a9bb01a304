"""Data sets by name, through PyG's and OGB's own loaders, where the internet or the files are at hand."""

import contextlib
import socket
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from gnnhet.datasets import pyg
from gnnhet.datasets.files import one_line
from gnnhet.datasets.pickles import ArrayUnpickler
from gnnhet.datasets.raw import HOMOGENEOUS, NO_SPLIT, NODE, TEST, TRAIN, VAL, Array, RawGraph, Relation
from gnnhet.errors import FormatError, GnnhetError, MissingDependencyError

DEFAULT_ROOT = "data"
_TIMEOUT_S = 30.0
_OGB_PARTS = {"train": TRAIN, "valid": VAL, "test": TEST}

# name -> (class in torch_geometric.datasets, its arguments)
PYG_SETS: dict[str, tuple[str, dict[str, Any]]] = {
    "cora": ("Planetoid", {"name": "Cora"}),
    "citeseer": ("Planetoid", {"name": "CiteSeer"}),
    "pubmed": ("Planetoid", {"name": "PubMed"}),
    "amazon-photo": ("Amazon", {"name": "Photo"}),
    "amazon-computers": ("Amazon", {"name": "Computers"}),
    "coauthor-cs": ("Coauthor", {"name": "CS"}),
    "coauthor-physics": ("Coauthor", {"name": "Physics"}),
    "reddit": ("Reddit", {}),
    "flickr": ("Flickr", {}),
    "yelp": ("Yelp", {}),
    "dblp": ("DBLP", {}),
    "imdb": ("IMDB", {}),
}
OGB_SETS = ("ogbn-arxiv", "ogbn-mag", "ogbn-papers100M", "ogbn-products", "ogbn-proteins")


def read_pyg(name: str, root: str | None) -> RawGraph:
    """A set through `torch_geometric.datasets`, kept under `root/pyg/NAME`. Planetoid's features are row-normalised.

    Raises:
        FormatError: it is not there and cannot be fetched.
    """
    from torch_geometric import datasets, transforms

    kind, arguments = PYG_SETS[name]
    folder = Path(root or DEFAULT_ROOT) / "pyg" / name
    options = {"transform": transforms.NormalizeFeatures()} if kind == "Planetoid" else {}
    with _fetching(name, folder), _fsspec_time_outs():
        return pyg.from_data(getattr(datasets, kind)(root=str(folder), **arguments, **options)[0], name)


def read_ogb(name: str, root: str | None) -> RawGraph:
    """A node-prediction set through OGB's `NodePropPredDataset` (Hu et al., 2020), kept under `root/ogb`.

    Raises:
        MissingDependencyError: OGB is not installed.
        FormatError: it is not there and cannot be fetched.
    """
    try:
        from ogb.nodeproppred import NodePropPredDataset
    except ImportError as error:
        raise MissingDependencyError(
            f"{name} is read by the package ogb, which is not installed: pip install 'gnnhet[ogb]'"
        ) from error
    import torch

    class Dataset(NodePropPredDataset):  # type: ignore[misc] # OGB has no types
        """Reads what an earlier run saved: a pickle of arrays, which OGB's own call cannot read from torch 2.6 on."""

        def pre_process(self) -> None:
            """The graph and the labels, from the saved file where there is one."""
            saved = Path(self.root) / "processed" / "data_processed"
            if saved.exists():
                admitted = types.SimpleNamespace(Unpickler=ArrayUnpickler, __name__="arrays")
                found = torch.load(saved, pickle_module=admitted, weights_only=False)
                self.graph, self.labels = found["graph"], found["labels"]
            else:
                super().pre_process()

    folder = Path(root or DEFAULT_ROOT) / "ogb"
    with _fetching(name, folder):
        dataset = Dataset(name=name, root=str(folder))
        graph, labels = dataset[0]
        return from_ogb(name, graph, labels, dataset.get_idx_split())


def from_ogb(name: str, graph: dict[str, Any], labels: Any, split: dict[str, Any]) -> RawGraph:
    """OGB's library-agnostic dicts, homogeneous or typed.

    Args:
        name: of the set.
        graph: `edge_index`, `num_nodes`, `node_feat`; or `edge_index_dict`, `num_nodes_dict`, `node_feat_dict`.
        labels: [nodes, 1], or a dict of them.
        split: ids of `train`, `valid`, `test`, or dicts of them.
    """
    typed = "edge_index_dict" in graph
    num_nodes = {str(t): int(n) for t, n in graph["num_nodes_dict"].items()} if typed else {NODE: int(graph["num_nodes"])}
    pairs: dict[Relation, Any] = graph["edge_index_dict"] if typed else {HOMOGENEOUS: graph["edge_index"]}
    rows = graph.get("node_feat_dict", {}) if typed else {NODE: graph.get("node_feat")}
    features: dict[str, dict[str, Array]] = {t: {"x": x} for t, x in rows.items() if x is not None}
    for node_type, found in (labels if typed else {NODE: labels}).items():
        features.setdefault(node_type, {})["y"] = _classes(np.asarray(found))
    for part, code in _OGB_PARTS.items():
        for node_type, ids in (split[part] if typed else {NODE: split[part]}).items():
            empty = np.full(num_nodes[node_type], NO_SPLIT, np.int8)
            features.setdefault(node_type, {}).setdefault("split", empty)[np.asarray(ids)] = code
    return RawGraph(
        num_nodes=num_nodes,
        edges={(relation[0], relation[1], relation[2]): (ends[0], ends[1]) for relation, ends in pairs.items()},
        features=features,
        name=name,
    )


def _classes(labels: Array) -> Array:
    """int64 [nodes]; NaN (papers100M's unlabelled) becomes -1; several tasks stay as they are."""
    column = labels[:, 0] if labels.ndim == 2 and labels.shape[1] == 1 else labels
    if column.dtype.kind == "f" and column.ndim == 1:
        return np.where(np.isnan(column), -1, column).astype(np.int64)
    return column.astype(np.int64) if column.ndim == 1 else column


@contextlib.contextmanager
def _fetching(name: str, folder: Path) -> Iterator[None]:
    """Time-outs on the network, no questions on stdin, and one line for whatever fails."""
    import builtins

    before, ask = socket.getdefaulttimeout(), builtins.input
    socket.setdefaulttimeout(_TIMEOUT_S)
    builtins.input = _answer
    try:
        yield
    except GnnhetError:
        raise
    except Exception as error:  # requests', urllib's, zipfile's, fsspec's: whatever the loader was doing
        raise FormatError(
            f"{name} must be under {folder} or be fetched by its own loader, got {one_line(error)}: check the network, "
            "or put the raw files there and name their folder with --root"
        ) from error
    finally:
        socket.setdefaulttimeout(before)
        builtins.input = ask


@contextlib.contextmanager
def _fsspec_time_outs() -> Iterator[None]:
    """The same time-outs for fsspec, which fetches Planetoid for PyG.

    It does not see those of sockets: aiohttp's own let a silent server hold it for five minutes, and end a slow download then.
    """
    import aiohttp
    from fsspec.config import conf  # type: ignore[import-untyped]

    before = conf.get("http")
    limit = aiohttp.ClientTimeout(total=None, sock_connect=_TIMEOUT_S, sock_read=_TIMEOUT_S)
    conf["http"] = {**(before or {}), "client_kwargs": {**(before or {}).get("client_kwargs", {}), "timeout": limit}}
    try:
        yield
    finally:
        if before is None:
            del conf["http"]
        else:
            conf["http"] = before


def _answer(prompt: object = "") -> str:
    """OGB asks whether to download more than 1 GB: naming the set is a yes. It also asks whether to delete an older copy."""
    return "y" if "download" in str(prompt) else "n"


READERS: dict[str, Callable[[str, str | None], RawGraph]] = {
    **dict.fromkeys(PYG_SETS, read_pyg),
    **dict.fromkeys(OGB_SETS, read_ogb),
}
