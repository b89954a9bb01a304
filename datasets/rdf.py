"""RDF N-Triples with a table of labels, as the entity-classification sets are given (Ristoski, de Vries, Paulheim, 2016)."""

import csv
import gzip
import re
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from gnnhet.datasets.edges import REVERSE, add_reverse_relations
from gnnhet.datasets.files import existing, one_line
from gnnhet.datasets.raw import NO_SPLIT, TEST, TRAIN, Array, RawGraph, Relation
from gnnhet.errors import FormatError

ENTITY = "entity"
TABLES = {"trainingSet.tsv": TRAIN, "testSet.tsv": TEST}

_IRI = r"<((?:[^\x00-\x20<>\"{}|^`\\]|\\u[0-9A-Fa-f]{4}|\\U[0-9A-Fa-f]{8})*)>"
_BLANK = r"(_:[\w:][\w.:\-·]*(?<!\.))"
_LITERAL = r'"((?:[^"\\\n\r]|\\[tbnrf"\'\\]|\\u[0-9A-Fa-f]{4}|\\U[0-9A-Fa-f]{8})*)"'
_TRIPLE = re.compile(
    rf"[ \t]*(?:{_IRI}|{_BLANK})[ \t]*{_IRI}[ \t]*"
    rf"(?:{_IRI}|{_BLANK}|{_LITERAL}(?:[ \t]*\^\^[ \t]*{_IRI}|[ \t]*@([a-zA-Z]+(?:-[a-zA-Z0-9]+)*))?)[ \t]*\.[ \t]*(?:#.*)?"
)
_IGNORED = re.compile(r"[ \t]*(?:#.*)?")
_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))")
_CHARACTERS = {"t": "\t", "b": "\b", "n": "\n", "r": "\r", "f": "\f", '"': '"', "'": "'", "\\": "\\"}


def read(folder: str | Path) -> RawGraph:
    """Read the triples and the tables of a folder.

    All IRIs, blank nodes and literals are nodes of one type `entity`, numbered in order of their text; each predicate is a
    relation, with its reverse. A triple that is stated twice is one edge; a blank node is known in its own file only. There
    are no features: models learn an embedding. The triples that state the label must have been taken out, as they are from
    the published files.

    Args:
        folder: with `*.nt` or `*.nt.gz`, and `trainingSet.tsv` and `testSet.tsv`: tab-separated, a column of IRIs, and one
            whose name starts with `label`.

    Raises:
        FormatError: a file is missing or damaged, or a line breaks the grammar; the message names it.
    """
    place = existing(folder, "an RDF folder")
    files = sorted([*place.glob("*.nt"), *place.glob("*.nt.gz")])
    if not files:
        raise FormatError(f"an RDF folder holds N-Triples as *.nt or *.nt.gz, got none in {place}")
    pairs: dict[str, set[tuple[str, str]]] = {}
    for file in files:
        scope = f"@{file.name}" if len(files) > 1 else ""
        for source, predicate, target in parse(file):
            pairs.setdefault(predicate, set()).add((_scoped(source, scope), _scoped(target, scope)))
    entities = sorted({end for found in pairs.values() for pair in found for end in pair})
    number = {entity: position for position, entity in enumerate(entities)}
    edges: dict[Relation, tuple[Array, Array]] = {}
    for predicate, name in _short_names(set(pairs)).items():
        ends = np.array(sorted((number[s], number[t]) for s, t in pairs[predicate]), np.int64).reshape(-1, 2)
        edges[(ENTITY, name, ENTITY)] = (ends[:, 0], ends[:, 1])
    labels, split = _read_tables(place, number)
    return RawGraph(
        num_nodes={ENTITY: len(entities)},
        edges=add_reverse_relations(edges),
        features={ENTITY: {"y": labels, "split": split}},
        name=place.resolve().name,
    )


def _scoped(term: str, scope: str) -> str:
    """The term; of a blank node with the file it belongs to."""
    return term + scope if term.startswith("_:") else term


def parse(file: Path) -> Iterator[tuple[str, str, str]]:
    """Subject, predicate, object of each line (W3C, RDF 1.1 N-Triples).

    IRIs come without their brackets, blank nodes with `_:`, literals in quotes with their type or language behind.

    Raises:
        FormatError: a line that is no triple, bytes that are not UTF-8, or a truncated archive.
    """
    opened = gzip.open if file.suffix == ".gz" else open
    line_number = 0
    try:
        with opened(file, "rt", encoding="utf-8") as lines:
            for line_number, line in enumerate(lines, 1):
                text = line.rstrip("\n")
                if _IGNORED.fullmatch(text):
                    continue
                found = _TRIPLE.fullmatch(text)
                if found is None:
                    raise FormatError(
                        f"{file} line {line_number} must be a triple that ends in a dot, got {text[:80]!r}: correct it"
                    )
                try:
                    terms = _terms(found)
                except ValueError as error:
                    raise FormatError(f"{file} line {line_number}: {error}") from error
                yield terms
    except (OSError, EOFError, UnicodeDecodeError, zlib.error) as error:
        raise FormatError(
            f"{file} must be whole UTF-8 text, got {one_line(error)} after line {line_number}: restore it"
        ) from error


def _terms(found: re.Match[str]) -> tuple[str, str, str]:
    """The three terms of a matched line, escapes resolved."""
    subject_iri, subject_blank, predicate, iri, blank, literal, datatype, language = found.groups()
    subject = subject_blank if subject_iri is None else _unescape(subject_iri)
    if iri is not None:
        return subject, _unescape(predicate), _unescape(iri)
    if blank is not None:
        return subject, _unescape(predicate), blank
    tail = f"^^{_unescape(datatype)}" if datatype is not None else f"@{language.lower()}" if language else ""
    return subject, _unescape(predicate), f'"{_unescape(literal)}"{tail}'


def _unescape(text: str) -> str:
    """Resolve backslash escapes."""

    def character(found: re.Match[str]) -> str:
        code = found.group(1) or found.group(2)
        if not code:
            return _CHARACTERS[found.group(3)]
        value = int(code, 16)
        if value > 0x10FFFF or 0xD800 <= value < 0xE000:  # half of a UTF-16 pair is no character
            raise ValueError(f"an escape must name a character of Unicode, got {found.group()}: correct it")
        return chr(value)

    return _ESCAPE.sub(character, text) if "\\" in text else text


def _short_names(predicates: set[str]) -> dict[str, str]:
    """A readable name of each predicate: its fragment or last part, numbered where several share it."""
    names: dict[str, str] = {}
    used: set[str] = set()
    for predicate in sorted(predicates):
        stem = re.split(r"[#/:]", predicate.rstrip("#/:"))[-1] or "predicate"
        name, count = stem, 1
        while not used.isdisjoint((name, REVERSE + name)):
            count += 1
            name = f"{stem}_{count}"
        used |= {name, REVERSE + name}
        names[predicate] = name
    return names


def _read_tables(place: Path, number: dict[str, int]) -> tuple[Array, Array]:
    """Labels (classes in order of their names) and the split."""
    rows: list[tuple[int, str, int]] = []
    for name, code in TABLES.items():
        file = existing(place / name, "a table of labels")
        try:
            with file.open(encoding="utf-8", newline="") as lines:
                reader = csv.DictReader(lines, delimiter="\t")
                table, columns = list(reader), list(reader.fieldnames or [])
        except (OSError, UnicodeDecodeError, csv.Error) as error:
            raise FormatError(f"{file} must be a tab-separated table in UTF-8, got {one_line(error)}: restore it") from error
        labels = [column for column in columns if column.startswith("label")]
        others = [column for column in columns if column not in labels]
        subjects = [column for column in others if any(row[column] in number for row in table)]
        if len(subjects) != 1 or len(labels) != 1:
            raise FormatError(
                f"{file} must have one column of nodes of the triples and one named label.., got columns {columns} "
                f"with nodes in {subjects or 'none'}: name the columns so"
            )
        for line, row in enumerate(table, 2):
            node, label = row[subjects[0]], row[labels[0]]
            if node not in number or not label:
                raise FormatError(
                    f"{file} row {line} must be a node of the triples and its label, got {node!r} and {label!r}: correct it"
                )
            rows.append((number[node], label, code))
    classes = {name: position for position, name in enumerate(sorted({label for _, label, _ in rows}))}
    y, split = np.full(len(number), -1, np.int64), np.full(len(number), NO_SPLIT, np.int8)
    for node, label, code in rows:
        y[node], split[node] = classes[label], code
    return y, split
