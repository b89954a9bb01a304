"""The one decorator of every kernel, and the machine instructions that numba lacks."""

import logging
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numpy.typing as npt
from llvmlite import ir
from numba.core import cgutils, event
from numba.extending import intrinsic

F = TypeVar("F", bound=Callable[..., Any])

_log = logging.getLogger("gnnhet")


class _Announcement(event.Listener):
    """Says in the log when the first kernel has to be compiled: a first run should not look like a hang."""

    def __init__(self) -> None:
        """Nothing was said yet."""
        self._said = False

    def on_start(self, event: event.Event) -> None:
        """A compilation begins; kernels that lie in the cache never come here."""
        if not self._said and event.data["dispatcher"].py_func.__module__.startswith("gnnhet."):
            self._said = True
            _log.info("compiling kernels for this processor, some seconds once; later runs find them in the cache")

    def on_end(self, event: event.Event) -> None:
        """It is done."""


event.register("numba:compile", _Announcement())  # type: ignore[no-untyped-call]


def kernel(function: F) -> F:
    """Compile `function` for flat arrays on first use: cached on disk, without the interpreter's lock, no fastmath."""
    return cast(F, numba.njit(nogil=True, cache=True)(function))


def frozen(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """A read-only view of the same memory.

    Kernels are compiled once for read-only inputs, whether they come from RAM or from a file mapped read-only.
    """
    view = array.view()
    view.flags.writeable = False
    return view


def _address(context: Any, builder: Any, kind: Any, array: Any, offset: Any) -> Any:
    """A byte pointer to `offset` bytes behind the beginning of an array."""
    first = builder.bitcast(context.make_array(kind)(context, builder, array).data, ir.IntType(8).as_pointer())
    return builder.gep(first, [offset])


def _prefetcher(locality: int) -> Callable[[Any, Any], None]:
    """A function (array, index) that asks the processor for `array[index]` and goes on; callable inside kernels alone.

    The address is only a hint: nothing is read, and an index outside the array does no harm. Of several axes the index is
    that of the first. Emits `llvm.prefetch` for a read.

    Args:
        locality: 3 to keep what comes in all caches, 0 for what is used once.
    """

    def ask(context: Any, array: Any, index: Any) -> Any:
        def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            kind = signature.args[0]
            stride = builder.extract_value(context.make_array(kind)(context, builder, arguments[0]).strides, 0)
            address = _address(context, builder, kind, arguments[0], builder.mul(arguments[1], stride))
            byte, word = ir.IntType(8).as_pointer(), ir.IntType(32)
            called = ir.FunctionType(ir.VoidType(), [byte, word, word, word])
            hint = cgutils.get_or_insert_function(builder.module, called, "llvm.prefetch.p0i8")  # type: ignore[no-untyped-call]
            builder.call(hint, [address, word(0), word(locality), word(1)])
            return context.get_dummy_value()

        return numba.types.void(array, numba.types.intp), emit

    return cast(Callable[[Any, Any], None], intrinsic(ask))


def _copier(size: int, *, streaming: bool = False) -> Callable[[Any, int, Any, int], None]:
    """A function (target, target offset, source, source offset) that copies `size` bytes; callable inside kernels alone.

    No index is checked. Offsets are in bytes, alignment is free.

    Args:
        size: 1, 4, 8, 16, 32 or 64: one load and one store.
        streaming: store past the caches; the target's address must then be a multiple of `size`.
    """

    def copy(context: Any, target: Any, target_offset: Any, source: Any, source_offset: Any) -> Any:
        def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            whole = ir.IntType(8 * size) if size <= 8 else ir.VectorType(ir.IntType(64), size // 8)
            to = _address(context, builder, signature.args[0], arguments[0], arguments[1])
            come = _address(context, builder, signature.args[2], arguments[2], arguments[3])
            value = builder.load(builder.bitcast(come, whole.as_pointer()), align=1)
            store = builder.store(value, builder.bitcast(to, whole.as_pointer()), align=size if streaming else 1)
            if streaming:
                store.set_metadata("nontemporal", builder.module.add_metadata([ir.IntType(32)(1)]))
            return context.get_dummy_value()

        place = numba.types.intp
        return numba.types.void(target, place, source, place), emit

    return cast(Callable[[Any, int, Any, int], None], intrinsic(copy))


prefetch, prefetch_once = _prefetcher(3), _prefetcher(0)
copy_1, copy_4, copy_8, copy_16, copy_32, copy_64 = (_copier(size) for size in (1, 4, 8, 16, 32, 64))
stream_64 = _copier(64, streaming=True)


def _read_float(context: Any, array: Any, index: Any) -> Any:
    """`array[index]` as float32; callable inside kernels alone. No index is checked.

    The array's dtype says what its bits are: float32, float64, int8, uint16 for float16, int16 for bfloat16.
    """

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        of = signature.args[0].dtype
        bits, single = context.get_data_type(of), ir.FloatType()
        place = builder.mul(arguments[1], ir.IntType(64)(of.bitwidth // 8))
        at = builder.bitcast(_address(context, builder, signature.args[0], arguments[0], place), bits.as_pointer())
        value = builder.load(at, align=of.bitwidth // 8)
        if of == numba.types.uint16:
            return builder.fpext(builder.bitcast(value, ir.HalfType()), single)
        if of == numba.types.int16:
            word = builder.shl(builder.zext(value, ir.IntType(32)), ir.IntType(32)(16))
            return builder.bitcast(word, single)
        if of == numba.types.int8:
            return builder.sitofp(value, single)
        return builder.fptrunc(value, single) if of == numba.types.float64 else value

    return numba.types.float32(array, numba.types.intp), emit


def _write_float(context: Any, array: Any, index: Any, value: Any) -> Any:
    """`array[index] = value` of a float32, rounded to nearest, ties to even; callable inside kernels alone, unchecked.

    The array's dtype says what its bits are: float32, uint16 for float16, int16 for bfloat16.
    """

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        of, number = signature.args[0].dtype, arguments[2]
        bits, word = context.get_data_type(of), ir.IntType(32)
        place = builder.mul(arguments[1], ir.IntType(64)(of.bitwidth // 8))
        at = builder.bitcast(_address(context, builder, signature.args[0], arguments[0], place), bits.as_pointer())
        if of == numba.types.uint16:
            number = builder.bitcast(builder.fptrunc(number, ir.HalfType()), bits)
        elif of == numba.types.int16:
            exact = builder.bitcast(number, word)
            odd = builder.and_(builder.lshr(exact, word(16)), word(1))
            rounded = builder.add(exact, builder.add(word(0x7FFF), odd))
            no_number = builder.fcmp_unordered("uno", number, number)
            number = builder.trunc(builder.lshr(builder.select(no_number, word(0x7FC00000), rounded), word(16)), bits)
        builder.store(number, at, align=of.bitwidth // 8)
        return context.get_dummy_value()

    return numba.types.void(array, numba.types.intp, numba.types.float32), emit


def _read_at(context: Any, handle: Any, array: Any, begin: Any, size: Any, offset: Any) -> Any:
    """Read `size` bytes of an open file at `offset` into `array` from `begin` on, by the system's `pread`; unchecked.

    Returns:
        bytes read: fewer at the end of the file, -1 where the system refuses.
    """

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        whole = ir.IntType(64)
        to = _address(context, builder, signature.args[1], arguments[1], arguments[2])
        called = ir.FunctionType(whole, [ir.IntType(32), ir.IntType(8).as_pointer(), whole, whole])
        system = cgutils.get_or_insert_function(builder.module, called, "pread")  # type: ignore[no-untyped-call]
        return builder.call(system, [builder.trunc(arguments[0], ir.IntType(32)), to, *arguments[3:]])

    number = numba.types.int64
    return number(number, array, number, number, number), emit


read_float = cast(Callable[[Any, int], float], intrinsic(_read_float))
write_float = cast(Callable[[Any, int, float], None], intrinsic(_write_float))
read_at = cast(Callable[[int, Any, int, int, int], int], intrinsic(_read_at))
