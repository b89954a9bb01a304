"""Edges as `.npy` files: `src.npy` and `dst.npy`, with arrays of edges and of nodes beside them.

Files are read by positioned reads, not mapped: pages of a map count into the process's memory.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gnnhet.datasets.files import existing, one_line
from gnnhet.datasets.raw import HOMOGENEOUS, NODE, Array
from gnnhet.datasets.source import Edges, EdgeStream, RowStream, Source
from gnnhet.errors import FormatError, SpecError

ENDS = ("src.npy", "dst.npy")
_VALUES, _FEATURES = ("weight", "time"), ("x", "y", "split")
_MOST_BYTES = 1 << 30  # of one read: the kernel gives no more than 2 GiB


@dataclass(frozen=True)
class NpyFile:
    """A C-ordered `.npy` file of numbers, opened and held against its header.

    Attributes:
        path: of the file.
        dtype: as stored.
        shape: of the array.
        offset: of the first number in bytes.
        transposed: whether what was saved is the transpose of this: an array in Fortran order.
    """

    path: Path
    dtype: np.dtype
    shape: tuple[int, ...]
    offset: int
    transposed: bool = False

    @property
    def row_bytes(self) -> int:
        """Of one entry of the first axis."""
        return int(np.prod(self.shape[1:], dtype=np.int64)) * self.dtype.itemsize

    def read(self, most: int) -> Iterator[Array]:
        """Pieces of at most `most` rows in native byte order, from the beginning.

        Raises:
            FormatError: the file has become shorter.
        """
        native = self.dtype.newbyteorder("=")
        with self.path.open("rb", buffering=0) as file:
            file.seek(self.offset)
            for start in range(0, self.shape[0], most):
                piece = np.empty((min(most, self.shape[0] - start), *self.shape[1:]), self.dtype)
                left = piece.reshape(-1).view(np.uint8).data
                while left:
                    done = file.readinto(left[:_MOST_BYTES])
                    if not done:
                        raise FormatError(f"{self.path} must hold {self.shape[0]:,} rows, got its end early: restore it")
                    left = left[done:]
                yield piece.astype(native, copy=False)


def open_npy(path: Path, kinds: str, what: str, axes: tuple[int, ...] = (1,), *, fortran: bool = False) -> NpyFile:
    """Read a header.

    Args:
        path: the file.
        kinds: numpy's letters of the dtypes that will do.
        what: those dtypes in words.
        axes: how many there may be.
        fortran: take Fortran order, too, as the transpose in C order.

    Raises:
        FormatError: absent, no `.npy`, truncated, or of another dtype, order or number of axes.
    """
    existing(path, "a .npy file")
    try:
        with path.open("rb") as file:
            version = np.lib.format.read_magic(file)
            header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            shape, turned, dtype = header(file)
            offset = file.tell()
    except (ValueError, OSError, EOFError, SyntaxError) as error:
        raise FormatError(f"{path} must be a .npy file, got {one_line(error)}: save it with numpy.save") from error
    if dtype.kind not in kinds or dtype.hasobject:
        raise FormatError(f"{path} must hold {what}, got {dtype}: convert it with numpy's astype")
    turned = turned and len(shape) > 1
    if len(shape) not in axes or (turned and not fortran):
        order = " in Fortran order" if turned else ""
        raise FormatError(
            f"{path} must have {' or '.join(map(str, axes))} axes in C order, got shape {shape}{order}: reshape it or save a "
            "C-ordered copy"
        )
    need = offset + int(np.prod(shape, dtype=object)) * dtype.itemsize
    size = path.stat().st_size
    if size != need:
        raise FormatError(f"{path} must have {need:,} bytes for {dtype} {shape}, got {size:,}: it was truncated or changed")
    return NpyFile(path, dtype, shape[::-1] if turned else shape, offset, transposed=turned)


def source(folder: Path, num_nodes: int | None = None) -> Source:
    """A homogeneous graph: `src.npy` and `dst.npy` of integers, one an edge, dense already.

    `weight.npy` and `time.npy` are numbers of edges; `x.npy`, `y.npy` and `split.npy` are arrays of nodes. Other files are
    left alone.

    Args:
        folder: with the files.
        num_nodes: count of nodes; where not given, that of the arrays of nodes, or what the edges tell.

    Raises:
        FormatError: a file that cannot be read, or lengths that differ.
        SpecError: `num_nodes` unlike the arrays of nodes.
    """
    src, dst = (open_npy(folder / name, "iu", "integers") for name in ENDS)
    values = {name: open_npy(folder / f"{name}.npy", "iuf", "numbers") for name in _VALUES if (folder / f"{name}.npy").exists()}
    for other in (dst, *values.values()):
        if other.shape != src.shape:
            raise FormatError(
                f"{other.path} must have one entry an edge as {src.path.name} has, {src.shape[0]:,}, got {other.shape[0]:,}"
            )
    features: dict[str, RowStream] = {}
    count = num_nodes
    for name in _FEATURES:
        if not (folder / f"{name}.npy").exists():
            continue
        file = open_npy(
            folder / f"{name}.npy", "iu" if name == "split" else "iufb", "numbers", (1,) if name == "split" else (1, 2)
        )
        if num_nodes is not None and file.shape[0] != num_nodes:
            raise SpecError(f"num_nodes must be the rows of {file.path}, {file.shape[0]:,}, got {num_nodes:,}: leave it out")
        if count is not None and file.shape[0] != count:
            raise FormatError(f"{file.path} must have one row a node, {count:,}, got {file.shape[0]:,}")
        count = file.shape[0]
        features[name] = _rows(file, name)

    def read(most: int) -> Iterator[Edges]:
        for ends in zip(src.read(most), dst.read(most), *(file.read(most) for file in values.values()), strict=True):
            yield Edges(ends[0], ends[1], dict(zip(values, ends[2:], strict=True)))

    stream = EdgeStream(
        read=read, count=src.shape[0], values={name: file.dtype.newbyteorder("=") for name, file in values.items()}
    )
    return Source(
        num_nodes={NODE: count},
        edges={HOMOGENEOUS: stream},
        features={NODE: features} if features else {},
        name=folder.resolve().name,
    )


def _rows(file: NpyFile, name: str) -> RowStream:
    """A reserved array in the dtype that `RawGraph` says it has; floating ones stay as they are."""
    dtype: np.dtype = file.dtype.newbyteorder("=")
    shape = (*file.shape, 1) if name == "x" and len(file.shape) == 1 else file.shape
    if dtype.kind != "f":
        dtype = np.dtype({"x": "float32", "y": "int64", "split": "int8"}[name])
    if name == "y" and len(shape) == 2 and shape[1] == 1:
        shape = shape[:1]

    def read(most: int) -> Iterator[Array]:
        for piece in file.read(most):
            if name == "split" and not np.isin(piece, (-1, 0, 1, 2)).all():
                raise FormatError(f"{file.path} must hold 0 (train), 1 (validation), 2 (test) or -1 (none), got others")
            yield piece.reshape(-1, *shape[1:]).astype(dtype, copy=False)

    return RowStream(read=read, shape=shape, dtype=dtype)
