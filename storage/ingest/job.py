"""A graph folder from a source in pieces: what is done in which order, what stays of it when it is interrupted."""

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from gnnhet.datasets.edges import REVERSE
from gnnhet.datasets.files import stamp
from gnnhet.datasets.raw import Relation
from gnnhet.datasets.source import EdgeStream, RowStream, Source, Watch, unwatched
from gnnhet.errors import GraphError, SpecError
from gnnhet.storage import disk
from gnnhet.storage.arrays import copy_table
from gnnhet.storage.compact import compacted
from gnnhet.storage.features import Rows, checked_rows
from gnnhet.storage.index import ARRAYS, FORMAT, INDEX, VERSION, read_index, revision
from gnnhet.storage.ingest.journal import FILES, Journal
from gnnhet.storage.ingest.options import Options, budget
from gnnhet.storage.ingest.relation import RelationJob, load_spill
from gnnhet.storage.lock import publish, writing

_ROWS_BYTES = 16 << 20  # of a piece of a feature
_SCAN = 1 << 22  # edges

Open = Callable[[Path], Source]


def ingest(
    opened: Open,
    dest: Path,
    *,
    asked: str,
    options: Options,
    memory: int | str | None = None,
    threads: int | None = None,
    skip: bool = False,
    resume: bool = False,
    name: str | None = None,
    watch: Watch = unwatched,
) -> tuple[dict[str, Any], list[str]]:
    """Make a graph folder.

    Args:
        opened: called with a folder for the source's own work, and again on resume; the source.
        dest: a new, empty or graph folder; a graph in it is replaced at the end in one rename.
        asked: what the source is of, in words that are equal for equal sources.
        options: how edges become rows.
        memory: as of `budget`.
        threads: that work at once; by default as many as there are.
        skip: leave out edges whose ids are none.
        resume: go on with what an interrupted ingest of the same source and options finished.
        name: what the graph is called in reports; by default the source's name.
        watch: called as (what is done, units in all or None, unit) for every step.

    Returns:
        `graph.json`, and lines about what was left out.

    Raises:
        GraphError: ids, arrays or counts that do not make a graph.
        FormatError: the folder holds something else, or the source cannot be read.
        SpecError: options that do not fit the source, the machine, or the ingest that is resumed.
        OSError: the disk refuses. What was finished stays for `resume`, where anything was.
    """
    disk.refuse_other(dest)
    _, free = budget(memory)
    made = not dest.exists()
    dest.mkdir(parents=True, exist_ok=True)
    journal = Journal(dest)
    try:
        with writing(dest):
            disk.refuse_other(dest)
            journal.begin({"source": asked, **options.to_dict(), "skip": skip}, resume=resume)
            with _cleaned(journal):
                steps = _Steps(journal, options, free, threads or os.cpu_count() or 1, skip, watch)
                source = opened(journal.work)
                document = steps.document(source, name)
                _publish(dest, journal, document)
                journal.remove()
            return document, [*source.report, *steps.report]
    except BaseException:
        for path in (dest / ARRAYS, dest) if made else ():
            with contextlib.suppress(OSError):  # not empty: there is something to resume, or of another process
                path.rmdir()
        raise


class _Steps:
    """The steps of one ingest."""

    def __init__(self, journal: Journal, options: Options, free: int, threads: int, skip: bool, watch: Watch) -> None:
        self._journal, self._options, self._free, self._threads = journal, options, free, threads
        self._skip, self._watch = skip, watch
        self.report: list[str] = []

    def document(self, source: Source, name: str | None) -> dict[str, Any]:
        """All steps; what `graph.json` says in the end."""
        self._refuse_changed(source)
        num_nodes = self._counts(source)
        jobs = self._jobs(source, num_nodes)
        self._refuse_small_disk(jobs, source)
        features: list[dict[str, Any]] = []
        relations = []
        owners = [(t, n) for t in sorted(num_nodes) for n in sorted(source.features.get(t, {}))]
        numbers: dict[Any, int] = {}
        for key in [*owners, *((job.relation, value) for job in jobs for value in sorted(job.stream.values))]:
            numbers[key] = len(numbers)
        for number, job in enumerate(jobs):
            found = self._relation(job, number, numbers)
            source_type, title, destination = job.relation
            relations.append(
                {"source": source_type, "name": title, "destination": destination}
                | {key: found[key] for key in ("count", "arrays")}
            )
            features += [_value_entry(job, value, array) for value, array in sorted(found["values"].items())]
        of_nodes = [self._feature(t, n, source.features[t][n], numbers[t, n]) for t, n in owners]
        document = {
            "format": FORMAT,
            "version": VERSION,
            "revision": 1,
            "name": source.name if name is None else name,
            "node_types": [{"type": node_type, "count": num_nodes[node_type]} for node_type in sorted(num_nodes)],
            "relations": relations,
            "features": of_nodes + features,
        }
        if source.ids:
            document["ids"] = {t: self._ids(t, source.ids[t], number) for number, t in enumerate(sorted(source.ids))}
        return document

    def _refuse_changed(self, source: Source) -> None:
        """What was finished is of the files as they were."""
        inside = self._journal.folder.parent.resolve()  # a folder may be ingested into one within it
        stamps = [stamp(path) for path in source.files if inside not in path.resolve().parents]
        found = self._journal.found(FILES)
        if found is None:
            self._journal.finish(FILES, stamps)
            return
        if found != stamps:
            changed = [entry[0] for entry in (*stamps, *found) if entry not in found or entry not in stamps]
            raise SpecError(
                f"an ingest goes on with files that are as they were when it began, got a changed {changed[0]}: "
                "leave --resume out to begin anew"
            )

    def _counts(self, source: Source) -> dict[str, int]:
        """How many nodes each type has; read off the edges where nothing else tells."""
        for relation in source.edges:
            for node_type in (relation[0], relation[2]):
                if node_type not in source.num_nodes:
                    raise GraphError(f"the ends of {relation} must be node types of the graph, {list(source.num_nodes)}")
        counts = dict(source.num_nodes)
        for node_type, arrays in source.features.items():
            for name, rows in arrays.items():
                if counts.get(node_type) is None:
                    counts[node_type] = rows.shape[0]
                if rows.shape[0] != counts[node_type]:
                    raise GraphError(
                        f"`{name}` of {node_type} must have one row for each of the {counts[node_type]}, got {rows.shape[0]}"
                    )
        unknown = {node_type for node_type, count in counts.items() if count is None}
        known = {node_type: count for node_type, count in counts.items() if count is not None}
        if unknown:
            found = self._journal.found("counts")
            if found is None:
                found = self._scan(source, unknown)
                self._journal.finish("counts", found)
            known |= {node_type: int(found[node_type]) for node_type in unknown}
        return known

    def _scan(self, source: Source, unknown: set[str]) -> dict[str, int]:
        """The largest id of each type, and 1."""
        most = dict.fromkeys(unknown, 0)
        for relation, stream in source.edges.items():
            if not {relation[0], relation[2]} & unknown:
                continue
            with self._watch(f"counting nodes of {_title(relation)}", stream.count, "edges") as progress:
                for piece in stream.read(_SCAN):
                    for node_type, ids in ((relation[0], piece.src), (relation[2], piece.dst)):
                        if node_type in unknown and ids.size:
                            most[node_type] = max(most[node_type], int(ids.max()) + 1)
                    progress.advance(piece.src.size)
        return most

    def _jobs(self, source: Source, num_nodes: dict[str, int]) -> list[RelationJob]:
        """What is made of each relation, sorted by name."""
        options = self._options
        if options.sort_rows == "time" and not any("time" in stream.values for stream in source.edges.values()):
            raise SpecError("rows are sorted by time where edges have one, got none: name the column or leave the option out")
        if options.undirected and (bipartite := [r for r in source.edges if r[0] != r[2]]):
            raise SpecError(f"edges between two node types cannot be undirected, got {bipartite[0]}: add their reverses instead")
        jobs = {}
        for relation, stream in source.edges.items():
            self._check_values(relation, stream)
            both = [(relation, False)]
            if options.add_reverse:
                both.append(((relation[2], REVERSE + relation[1], relation[0]), True))
            for title, reverse in both:
                if title in jobs or (reverse and title in source.edges):
                    raise GraphError(f"no relation may have the name of another's reverse, got {title}: rename it")
                jobs[title] = RelationJob(
                    relation=title,
                    stream=stream,
                    num_src=num_nodes[title[0]],
                    num_dst=num_nodes[title[2]],
                    reverse=reverse,
                    options=options,
                    skip=self._skip,
                    report=[],
                    free=self._free,
                    threads=self._threads,
                )
        return [jobs[title] for title in sorted(jobs)]

    def _check_values(self, relation: Relation, stream: EdgeStream) -> None:
        """Numbers of edges are of dtypes that a graph may hold, and times can be sorted by."""
        for name, dtype in stream.values.items():
            checked_rows(relation, name, np.empty((0, *dtype.shape), dtype.base))
        time = stream.values.get("time")
        if self._options.sort_rows == "time" and time is not None and (time.shape or "time" in stream.bfloat16):
            got = f"{time.shape} of them" if time.shape else "bfloat16"
            raise SpecError(f"rows are sorted by one time an edge, and not by bfloat16, got {got} in {relation}: convert it")

    def _refuse_small_disk(self, jobs: list[RelationJob], source: Source) -> None:
        """Before hours of work, not after."""
        if self._journal.finished:
            return
        need = sum(job.disk_bytes() for job in jobs)
        for arrays in source.features.values():
            need += sum(int(np.prod(rows.shape, dtype=np.int64)) * rows.dtype.itemsize for rows in arrays.values())
        free = shutil.disk_usage(self._journal.folder).free
        if need > free:
            raise SpecError(
                f"the disk of {self._journal.folder.parent} must have about {need / 1e9:.1f} GB free for this graph, "
                f"got {free / 1e9:.1f}: make room or choose another place"
            )

    def _relation(self, job: RelationJob, number: int, numbers: dict[Any, int]) -> dict[str, Any]:
        """Both passes over one relation."""
        found: dict[str, Any] | None = self._journal.found(f"place {number}")
        if found is not None:
            self.report.extend(found["report"])
            return found
        path = self._journal.folder / f"edges{number}"
        noted = self._journal.found(f"part {number}")
        spill = None if noted is None else load_spill(path, job.columns)
        if spill is not None:
            job.report.extend(noted["report"])
        if spill is None:
            with self._watch(f"parting {_title(job.relation)}", job.stream.count, "edges") as progress:
                spill = job.part(path, progress.advance)
            spill.save(path.with_suffix(".npz"))
            self._journal.finish(f"part {number}", {"edges": int(spill.sizes().sum()), "report": job.report})
        stem = f"edges{number:03d}.{'.'.join(map(disk.slug, job.relation))}"
        with self._watch(f"placing {_title(job.relation)}", int(spill.sizes().sum()), "edges") as progress:
            made = job.place(
                spill,
                self._journal.arrays,
                stem,
                lambda value: disk.feature_stem(numbers[job.relation, value], job.relation, value),
                progress.advance,
            )
        made["report"] = [] if job.reverse else job.report
        self.report.extend(made["report"])
        self._journal.finish(f"place {number}", made)
        path.unlink()
        path.with_suffix(".npz").unlink()
        return made

    def _feature(self, node_type: str, name: str, rows: RowStream, number: int) -> dict[str, Any]:
        """A node type's array; its entry of `graph.json`."""
        step = f"feature {node_type} {name}"
        found: dict[str, Any] | None = self._journal.found(step)
        if found is None:
            what, scale = f"`{name}` of {node_type}", rows.scale
            floating = rows.bfloat16 or rows.dtype.kind == "f"
            dtype = self._options.feature_dtype if name == "x" and floating else None
            readings = 2 if dtype == "int8" else 1
            with self._watch(f"writing {node_type}.{name}", rows.shape[0] * readings, "rows") as progress:
                pieces = _checked(node_type, name, rows, progress.advance)
                if dtype is not None:
                    pieces, scale = compacted(lambda: _checked(node_type, name, rows, progress.advance), dtype, what)
                stem = disk.feature_stem(number, node_type, name)
                array = disk.write_rows(self._journal.arrays, stem, pieces, rows.shape[0], what)
                found = disk.feature_entry(node_type, name, array, scale)
            self._journal.finish(step, found)
        return found

    def _ids(self, node_type: str, path: Path, number: int) -> dict[str, Any]:
        """A copy of the table that says which id a person wrote for which node."""
        step = f"ids {node_type}"
        found: dict[str, Any] | None = self._journal.found(step)
        if found is None:
            found = copy_table(self._journal.arrays, number, disk.slug(node_type), path)
            self._journal.finish(step, found)
        return found


def _checked(node_type: str, name: str, rows: RowStream, advance: Callable[[int], None]) -> Iterator[Rows]:
    """A stream's pieces, held against the rules of their name; one piece at least."""
    width = int(np.prod(rows.shape[1:], dtype=np.int64)) * rows.dtype.itemsize
    nothing = True
    for piece in rows.read(max(1, _ROWS_BYTES // max(width, 1))):
        nothing = False
        array = np.ascontiguousarray(piece, rows.dtype)
        values = torch.from_numpy(array.view(np.int16)).view(torch.bfloat16) if rows.bfloat16 else array
        yield checked_rows(node_type, name, values)
        advance(array.shape[0])
    if nothing:
        empty = np.empty((0, *rows.shape[1:]), np.int16 if rows.bfloat16 else rows.dtype)
        yield checked_rows(node_type, name, torch.from_numpy(empty).view(torch.bfloat16) if rows.bfloat16 else empty)


def _value_entry(job: RelationJob, name: str, array: dict[str, Any]) -> dict[str, Any]:
    """Numbers of edges in `graph.json`."""
    if name in job.stream.bfloat16:
        array = array | {"dtype": "bfloat16"}
    return disk.feature_entry(job.relation, name, array, job.stream.scales.get(name))


def _publish(dest: Path, journal: Journal, document: dict[str, Any]) -> None:
    """Move the finished files to their place, and make them the folder's graph."""
    (dest / ARRAYS).mkdir(exist_ok=True)
    for path in sorted(journal.arrays.iterdir()):
        if not path.name.startswith("."):
            path.replace(dest / ARRAYS / path.name)
    document["revision"] = revision(read_index(dest)) + 1 if (dest / INDEX).exists() else 1
    publish(dest, document)


@contextlib.contextmanager
def _cleaned(journal: Journal) -> Iterator[None]:
    """After a failure: steps that were finished stay to be resumed; where none was, nothing stays."""
    try:
        yield
    except BaseException:
        for path in journal.folder.glob("**/.*.part"):
            path.unlink(missing_ok=True)
        if not journal.started:
            journal.remove()
        raise


def _title(relation: Relation) -> str:
    """A relation in a progress line."""
    return " ".join(relation)
