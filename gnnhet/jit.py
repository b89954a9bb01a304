"""The one decorator of every kernel, and the prefetch that numba lacks."""

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numpy.typing as npt
from llvmlite import ir
from numba.core import cgutils
from numba.extending import intrinsic

F = TypeVar("F", bound=Callable[..., Any])


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


def _prefetch(context: Any, array: Any, index: Any) -> Any:
    """Ask the processor to bring `array[index]` into its caches, and go on; callable inside kernels alone.

    The address is only a hint: nothing is read, and an index outside the array does no harm. Emits `llvm.prefetch` for a
    read with high locality.

    Args:
        context: numba's typing context; callers pass the other two.
        array: C-contiguous; of several axes the index is that of the first.
        index: an integer.
    """

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        view = context.make_array(signature.args[0])(context, builder, arguments[0])
        byte, word = ir.IntType(8).as_pointer(), ir.IntType(32)
        stride = builder.extract_value(view.strides, 0)
        first = builder.bitcast(view.data, byte)
        address = builder.gep(first, [builder.mul(arguments[1], stride)])
        called = ir.FunctionType(ir.VoidType(), [byte, word, word, word])
        hint = cgutils.get_or_insert_function(builder.module, called, "llvm.prefetch.p0i8")  # type: ignore[no-untyped-call]
        builder.call(hint, [address, word(0), word(3), word(1)])
        return context.get_dummy_value()

    return numba.types.void(array, numba.types.intp), emit


prefetch = cast(Callable[[Any, Any], None], intrinsic(_prefetch))
