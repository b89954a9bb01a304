"""The arrays of an `.npz`, read in pieces where they lie: they may be larger than memory."""

import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from gnnhet.datasets.files import existing, one_line
from gnnhet.datasets.raw import Array
from gnnhet.datasets.tables.npy import NpyFile
from gnnhet.errors import FormatError

_LOCAL_HEADER = 30  # bytes before the name and the extra field (PKWARE's APPNOTE, 4.3.7)
_STEP = 1 << 20


@dataclass(frozen=True)
class PackedArray:
    """An array of a compressed member, unpacked from its beginning each time it is read.

    Attributes:
        path: of the archive.
        member: its name in there.
        dtype: as stored.
        shape: of the array.
        offset: of the first number in the unpacked bytes.
    """

    path: Path
    member: str
    dtype: np.dtype
    shape: tuple[int, ...]
    offset: int

    def read(self, most: int) -> Iterator[Array]:
        """Pieces of at most `most` rows in native byte order, from the beginning.

        Raises:
            FormatError: damaged.
        """
        native = self.dtype.newbyteorder("=")
        row_bytes = int(np.prod(self.shape[1:], dtype=np.int64)) * self.dtype.itemsize
        try:
            with zipfile.ZipFile(self.path) as archive, archive.open(self.member) as file:
                left = self.offset
                while left:
                    left -= len(_exactly(file, min(left, _STEP)))
                for start in range(0, self.shape[0], most):
                    rows = min(most, self.shape[0] - start)
                    piece = np.frombuffer(_exactly(file, rows * row_bytes), self.dtype)
                    yield piece.reshape(rows, *self.shape[1:]).astype(native, copy=False)
        except (OSError, EOFError, zipfile.BadZipFile, zlib.error) as error:
            raise FormatError(
                f"{self.path} must be a whole archive, got {one_line(error)} in {self.member}: restore it"
            ) from error


Member = NpyFile | PackedArray


def open_members(path: Path) -> dict[str, Member]:
    """Read all headers.

    Raises:
        FormatError: absent, no archive, a member that is no plain array of numbers, or one that is not in C order.
    """
    existing(path, "an .npz file")
    found: dict[str, Member] = {}
    try:
        with zipfile.ZipFile(path) as archive:
            for info in archive.infolist():
                with archive.open(info) as file:
                    version = np.lib.format.read_magic(file)
                    header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
                    shape, fortran, dtype = header(file)
                    begin = file.tell()
                name = info.filename.removesuffix(".npy")
                if dtype.hasobject or dtype.kind not in "iufb":
                    raise FormatError(f"{path} must hold numbers, got {dtype} in {name}: convert it with numpy's astype")
                if fortran and len(shape) > 1 and min(shape) > 1:
                    raise FormatError(f"{path} must hold arrays in C order, got Fortran order in {name}: save a C-ordered copy")
                need = begin + int(np.prod(shape, dtype=object)) * dtype.itemsize
                if info.file_size != need:
                    raise FormatError(f"{path} must have {need:,} bytes of {name}, got {info.file_size:,}: restore it")
                if info.compress_type == zipfile.ZIP_STORED:
                    found[name] = NpyFile(path, dtype, shape, _data_offset(path, info) + begin)
                else:
                    found[name] = PackedArray(path, info.filename, dtype, shape, begin)
    except FormatError:
        raise
    except Exception as error:  # a damaged archive raises nearly anything
        raise FormatError(f"{path} must be an .npz archive of plain arrays, got {one_line(error)}: restore it") from error
    return found


def ends_of(member: Member, what: str) -> tuple[Member, Member]:
    """The two rows of an array [2, edges], each to be read by itself.

    Raises:
        FormatError: another shape, or no integers.
    """
    if len(member.shape) != 2 or member.shape[0] != 2 or member.dtype.kind not in "iu":
        raise FormatError(f"{member.path} must hold {what} as integers [2, edges], got {member.dtype} {member.shape}")
    count = member.shape[1]
    return tuple(replace(member, shape=(count,), offset=member.offset + row * count * member.dtype.itemsize) for row in range(2))  # type: ignore[return-value]


def _data_offset(path: Path, info: zipfile.ZipInfo) -> int:
    """Where a member's bytes begin: its own header may be longer than the directory says."""
    with path.open("rb") as file:
        file.seek(info.header_offset)
        header = file.read(_LOCAL_HEADER)
    if len(header) != _LOCAL_HEADER or header[:4] != b"PK\x03\x04":
        raise zipfile.BadZipFile(f"no header of {info.filename}")
    name, extra = int.from_bytes(header[26:28], "little"), int.from_bytes(header[28:30], "little")
    return info.header_offset + _LOCAL_HEADER + name + extra


def _exactly(file, size: int) -> bytes:  # type: ignore[no-untyped-def]
    """So many bytes."""
    content = file.read(size)
    if len(content) != size:
        raise EOFError("its end early")
    return bytes(content)
