"""`Graph`: typed topology with its features, in memory or mapped from disk."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gnnhet.datasets import dgl, pyg
from gnnhet.datasets.raw import HOMOGENEOUS, NODE, TEST, TRAIN, VAL, RawGraph, Relation
from gnnhet.datasets.source import Source, Watch, unwatched
from gnnhet.errors import GraphError
from gnnhet.storage import csc as topology
from gnnhet.storage import disk, index
from gnnhet.storage.changes import Changes
from gnnhet.storage.csc import Csc, IntArray
from gnnhet.storage.features import ArrayLike, FeatureStore, add_edge_features, as_features
from gnnhet.storage.ingest import ingest, open_source, options_of
from gnnhet.storage.lookup import Lookup
from gnnhet.storage.preload import read_topology

SPLITS = {"train": TRAIN, "val": VAL, "test": TEST}


class Graph(Changes, Lookup):
    """Typed topology (one CSC a relation), node counts, and features.

    A relation is the triple (source type, name, destination type); messages go from source to destination. A homogeneous
    graph has the node type `node` and the relation `("node", "to", "node")`. Node types and relations are held sorted, so
    that equal graphs sample equally whatever order they were given in. All arrays are read-only.

    Attributes:
        num_nodes: count of each node type.
        num_edges: count of each relation's stored edges.
        relations: the relations, sorted.
        node_types: the node types, sorted.
        features: the `FeatureStore`.
        name: what the graph is called in reports.
        path: the folder it is mapped from, or None where it lies in memory.
    """

    def __init__(
        self,
        relations: Mapping[Relation, Csc],
        num_nodes: Mapping[str, int],
        features: FeatureStore | None = None,
        *,
        name: str = "",
        path: Path | None = None,
        document: dict[str, Any] | None = None,
    ) -> None:
        """Hold checked parts; `from_csc` and its siblings check them first."""
        self._csc = {relation: relations[relation] for relation in sorted(relations)}
        self.num_nodes = {node_type: int(num_nodes[node_type]) for node_type in sorted(num_nodes)}
        self.num_edges = {relation: part.num_edges for relation, part in self._csc.items()}
        self.features = features if features is not None else FeatureStore()
        self.name = name
        self.path = path
        self._index = document

    @property
    def relations(self) -> list[Relation]:
        """The relations, sorted; their positions are the relation indices of the sampling key."""
        return list(self._csc)

    @property
    def node_types(self) -> list[str]:
        """The node types, sorted."""
        return list(self.num_nodes)

    @property
    def homogeneous(self) -> bool:
        """Whether it has one node type and one relation."""
        return len(self.num_nodes) == 1 and len(self._csc) == 1

    def csc(self, relation: Relation) -> tuple[IntArray, IntArray]:
        """(indptr, indices) of a relation, read-only: int64 [destinations + 1] and int32 or int64 [edges].

        Raises:
            GraphError: no such relation.
        """
        part = self.part(relation)
        return part.indptr, part.indices

    def part(self, relation: Relation) -> Csc:
        """A relation's arrays, with edge ids where they were kept."""
        try:
            return self._csc[relation]
        except KeyError:
            raise GraphError(f"no relation {relation}: the graph has {self.relations}") from None

    @property
    def target_type(self) -> str:
        """The node type that has labels `y`.

        Raises:
            GraphError: none has, or several have.
        """
        labelled = [node_type for node_type in self.node_types if self.features.has(node_type, "y")]
        if len(labelled) != 1:
            raise GraphError(f"exactly one node type must have labels `y`, got {labelled or 'none'}: name the target type")
        return labelled[0]

    def num_classes(self, node_type: str) -> int:
        """Largest label of a node type + 1.

        Raises:
            GraphError: labels are not integers on one axis.
        """
        labels = self.features.array(node_type, "y")
        if labels.dtype.kind not in "iu" or labels.ndim != 1:
            raise GraphError(f"labels of {node_type} must be integers, one a node, got {labels.dtype} {labels.shape}")
        if not labels.size or int(labels.max()) < 0:
            raise GraphError(f"labels of {node_type} must mark at least one node, got none that is 0 or more")
        return int(labels.max()) + 1

    def split_ids(self, node_type: str, part: str) -> npt.NDArray[np.int64]:
        """Ids of the labelled nodes of `train`, `val` or `test`, ascending; empty where there is no such split."""
        if not self.features.has(node_type, "split"):
            return np.empty(0, np.int64)
        inside = self.features.array(node_type, "split") == SPLITS[part]
        if self.features.has(node_type, "y") and self.features.array(node_type, "y").ndim == 1:
            inside &= self.features.array(node_type, "y") >= 0  # of several targets a node each says its own
        return np.flatnonzero(inside)

    def __repr__(self) -> str:
        """One line of counts."""
        nodes = ", ".join(f"{count:,} {node_type}" for node_type, count in self.num_nodes.items())
        return f"Graph({self.name or 'unnamed'}: {nodes}; {sum(self.num_edges.values()):,} edges of {len(self._csc)} relations)"

    @classmethod
    def from_csc(
        cls,
        indptr: npt.ArrayLike,
        indices: npt.ArrayLike,
        x: ArrayLike | None = None,
        y: ArrayLike | None = None,
        *,
        split: ArrayLike | None = None,
        name: str = "",
    ) -> "Graph":
        """A homogeneous graph from CSC arrays or tensors, taken without copying where dtype and order allow.

        Args:
            indptr: integers, shape [nodes + 1]; int64 is not copied.
            indices: integers, shape [edges]; int32 is not copied (int64 from 2^31 nodes on).
            x: features, shape [nodes, ...].
            y: classes, integers, shape [nodes], -1 where unlabelled.
            split: 0 train, 1 validation, 2 test, -1 none, shape [nodes].
            name: what it is called in reports.

        Raises:
            GraphError: a length, order or range is broken.
        """
        count = max(np.asarray(indptr).size - 1, 0)
        given = {"x": x, "y": y, "split": split}
        arrays = {key: value for key, value in given.items() if value is not None}
        return cls.from_relations({HOMOGENEOUS: (indptr, indices)}, {NODE: count}, {NODE: arrays}, name=name)

    @classmethod
    def from_coo(cls, src: npt.ArrayLike, dst: npt.ArrayLike, num_nodes: int, *, keep_edge_ids: bool = False) -> "Graph":
        """A homogeneous graph from edge pairs.

        Args:
            src: integers, shape [edges].
            dst: integers, shape [edges].
            num_nodes: count of nodes.
            keep_edge_ids: remember each edge's position in the input (8 bytes an edge).

        Raises:
            GraphError: lengths differ or an id is out of range.
        """
        what = str(HOMOGENEOUS)
        part = topology.from_coo(src, dst, num_src=num_nodes, num_dst=num_nodes, what=what, keep_edge_ids=keep_edge_ids)
        return cls({HOMOGENEOUS: part}, {NODE: num_nodes})

    @classmethod
    def from_relations(
        cls,
        relations: Mapping[Relation, tuple[npt.ArrayLike, npt.ArrayLike]],
        num_nodes: Mapping[str, int],
        features: Mapping[str, Mapping[str, ArrayLike]] | None = None,
        *,
        name: str = "",
    ) -> "Graph":
        """A typed graph from one (indptr, indices) a relation; arrays are not copied where dtype and order allow.

        Args:
            relations: (source type, name, destination type) -> (indptr [destinations + 1], indices [edges]).
            num_nodes: count of each node type.
            features: node type -> name -> array of shape [nodes, ...].
            name: what it is called in reports.

        Raises:
            GraphError: an unknown node type, or a length, order or range is broken.
        """
        _check_types(relations, num_nodes)
        parts = {
            relation: topology.from_csc(
                indptr, indices, num_src=num_nodes[relation[0]], num_dst=num_nodes[relation[2]], what=str(relation)
            )
            for relation, (indptr, indices) in relations.items()
        }
        return cls(parts, num_nodes, as_features(features, num_nodes), name=name)

    @classmethod
    def from_raw(cls, raw: RawGraph) -> "Graph":
        """A graph from what a reader of `gnnhet.datasets` returned: edges are indexed, everything is checked.

        Raises:
            GraphError: what was read is not a graph.
        """
        _check_types(raw.edges, raw.num_nodes)
        parts = {
            relation: topology.from_coo(
                src,
                dst,
                num_src=raw.num_nodes[relation[0]],
                num_dst=raw.num_nodes[relation[2]],
                what=str(relation),
                keep_edge_ids=bool(raw.edge_features.get(relation)),
            )
            for relation, (src, dst) in raw.edges.items()
        }
        store = as_features(raw.features, raw.num_nodes)
        for relation, arrays in raw.edge_features.items():
            add_edge_features(store, relation, arrays, parts[relation])
        return cls(parts, raw.num_nodes, store, name=raw.name)

    @classmethod
    def from_pyg(cls, data: Any) -> "Graph":
        """A graph from a PyG `Data` or `HeteroData`: edges, tensors with a row a node or an edge, and masks as splits.

        Raises:
            GraphError: it has no edges in a form that can be read, or tensors that do not match its nodes.
        """
        return cls.from_raw(pyg.from_data(data))

    @classmethod
    def from_dgl(cls, graph: Any) -> "Graph":
        """A graph from a DGL `DGLGraph`: edges, node and edge data; `feat` and `label` as `x` and `y`, masks as splits.

        Raises:
            GraphError: it is none, or a block.
        """
        return cls.from_raw(dgl.from_graph(graph))

    @classmethod
    def open(cls, path: str | Path) -> "Graph":
        """Map a saved graph; nothing but `graph.json` and the array headers is read.

        Raises:
            FormatError: no graph there, a newer format, or a file that is missing, truncated or unlike its description.
        """
        stored = disk.read(Path(path))
        return cls(stored.relations, stored.num_nodes, stored.features, name=stored.name, path=Path(path), document=stored.index)

    @classmethod
    def ingest(
        cls,
        source: str | Path | Source,
        dest: str | Path,
        *,
        root: str | None = None,
        memory: int | str | None = None,
        threads: int | None = None,
        num_nodes: int | None = None,
        on_error: str = "stop",
        resume: bool = False,
        name: str | None = None,
        watch: Watch = unwatched,
        report: list[str] | None = None,
        **options: Any,
    ) -> "Graph":
        """Make a graph folder from a source that may be larger than memory, and open it.

        Args:
            source: a spec (`tables:DIR`, `rmat:SCALE:EDGES`, a name, a graph folder), or a `Source`.
            dest: a new, empty or graph folder; a graph in it is replaced at the end, in one rename.
            root: where raw files of named sets lie or go.
            memory: peak of the process in bytes or like `2GiB`; by default half of what is free, 2 to 16 GiB.
            threads: that work at once; by default as many as there are.
            num_nodes: of a homogeneous graph whose source does not say; else the edges are read once more to count.
            on_error: `stop` at a bad row, or `skip` it.
            resume: go on with what an interrupted ingest of the same source and options finished.
            name: what the graph is called in reports; by default the source's name.
            watch: told how far each step has come.
            report: gets a line for each row that was skipped.
            options: how edges become rows: those of `gnnhet.storage.ingest.Options` (`undirected`, `sort_rows`, ...).

        Raises:
            GraphError, FormatError: the source is not a graph, or cannot be read.
            SpecError: options that do not fit the source, this machine, or the ingest that is resumed.
            OSError: the disk refuses. What was finished stays for `resume`, where anything was; else nothing does.
        """
        opened, asked = open_source(
            source, root, on_error=on_error, num_nodes=num_nodes, memory=memory, threads=threads, watch=watch
        )
        _, left_out = ingest(
            opened,
            Path(dest),
            asked=asked,
            options=options_of(options),
            memory=memory,
            threads=threads,
            skip=on_error == "skip",
            resume=resume,
            name=name,
            watch=watch,
        )
        if report is not None:
            report.extend(left_out)
        return cls.open(dest)

    def preload(self, threads: int = 2) -> "Graph":
        """The same graph with its topology in memory, in huge pages where the system has them; itself if it was not mapped.

        Sampling from a map that is not in the page cache waits for the disk at every read. Features stay where they are.

        Args:
            threads: that read at once.

        Raises:
            FormatError: the folder holds another graph by now.
        """
        if self.path is None:
            return self
        topology = read_topology(self.path, self._csc, threads)
        return Graph(topology, self.num_nodes, self.features, name=self.name, path=self.path, document=self._index)

    def save(self, path: str | Path) -> None:
        """Write the graph as a folder: see FORMAT.md. A killed save leaves the old graph or the new one, never half.

        Raises:
            FormatError: the folder holds something else than a graph.
            OSError: the disk refuses (full, read-only); what was there before still opens.
        """
        written = disk.write(
            Path(path),
            disk.Stored(
                relations=self._csc,
                num_nodes=self.num_nodes,
                features=self.features,
                name=self.name,
                tables=index.tables(self.path, self._index),
            ),
        )
        if self.path is not None and Path(path).resolve() == self.path.resolve():
            self._index = written


def _check_types(relations: Mapping[Relation, object], num_nodes: Mapping[str, int]) -> None:
    """Refuse relations that are not triples of strings between known node types, and negative counts."""
    for node_type, count in num_nodes.items():
        if not isinstance(node_type, str) or int(count) < 0:
            raise GraphError(f"num_nodes must map type names to counts of 0 or more, got {node_type!r}: {count}")
    for relation in relations:
        if not (isinstance(relation, tuple) and len(relation) == 3 and all(isinstance(part, str) for part in relation)):
            raise GraphError(f"a relation must be the triple (source type, name, destination type), got {relation!r}")
        for node_type in (relation[0], relation[2]):
            if node_type not in num_nodes:
                raise GraphError(f"relation {relation} must join known node types ({', '.join(num_nodes)}), got {node_type!r}")
