"""Cures for an object that is refused: the way to an array that does pass.

The C code calls ``unsupported``, ``cure``, ``cure_of_column`` and ``exports_itself`` for objects
that cannot be exported, ``refusal`` for arrays that a function written with dlshim.h does not take,
and ``unknown_keyword`` for a keyword that is no option.
"""

from __future__ import annotations

import difflib
import re
import sys
from contextlib import suppress
from math import prod
from struct import iter_unpack

from . import _core, cures_by_library, cures_of_columns, cures_of_items, cures_of_views
from ._core import CopyRequiredError, Producer, UnsupportedObjectError
from .arrays import HOST_DEVICES
from .cure_texts import CONVERT, MISSING, NO_NUMBERS, PADDED, Reasoned, converted, instead
from .dtypes import dtype

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any

# (kind, what, text): an object that cannot be exported has this way to an array.  The message names
# the first row that fits; None: there is no way.  flag: its attribute is true, or returns true;
# view: its attribute can be exported; held: the same, but it is not read if that runs code of the
# object, and it must show what the object says (cures_of_views); method: its type has the
# attribute; numpy: the same, and it makes an array of NumPy, which may have another dtype or no
# mask (cures_of_views); type: the name of its type begins so, or is this name if no full stop ends
# it; items: as type, and its items decide (cures_of_items); wrapper: as method, for an export
# without memory because the object wraps others that have memory.
CURES: tuple[tuple[str, str, str | None], ...] = (
    # torch's DTensor and MaskedTensor.
    ("wrapper", "to_local", "x.to_local()"),
    ("wrapper", "get_data", "x.to_tensor(value)"),
    ("flag", "is_sparse", "x.to_dense()"),
    ("flag", "is_sparse_csr", "x.to_dense()"),
    ("flag", "is_mkldnn", "x.to_dense()"),
    ("flag", "is_quantized", "x.dequantize()"),
    ("flag", "is_nested", "x.to_padded_tensor(0)"),
    # Their arrays are made by the same library, which has just refused.
    ("method", "__torch_function__", None),
    ("method", "__array_finalize__", None),
    # These have __array__ too, which raises, gives an array of objects or another dtype, or leaves
    # the device.
    ("method", "__jax_array__", "x.__jax_array__()"),
    ("method", "__dask_graph__", "x.compute()"),
    ("method", "toarray", "x.toarray()"),
    ("method", "todense", "x.todense()"),
    ("method", "to_dataarray", "x.to_dataarray()"),
    ("method", "to_host", "x.to_host()"),
    ("numpy", "__array__", "numpy.asanyarray(x)"),
    ("items", "list", "numpy.asarray(x)"),
    ("items", "tuple", "numpy.asarray(x)"),
    ("items", "range", "numpy.asarray(x)"),
    # SimpleITK.GetArrayViewFromImage does not keep the image alive.
    ("type", "SimpleITK.", "SimpleITK.GetArrayFromImage(x)"),
    ("type", "_cffi_backend.", "ffi.buffer(x)"),
    ("type", "faiss.", "faiss.vector_to_array(x)"),
    ("type", "tensorflow.python.framework.sparse_tensor.", "tf.sparse.to_dense(x)"),
    ("method", "to_tensor", "x.to_tensor()"),
    ("method", "to_dense", "x.to_dense()"),
    ("method", "to_ndarray", "x.to_ndarray()"),
    ("method", "to_arrow_array", "x.to_arrow_array()"),  # vortex; its to_numpy takes none missing
    ("numpy", "to_numpy", "x.to_numpy()"),
    ("numpy", "asnumpy", "x.asnumpy()"),
    ("numpy", "numpy", "x.numpy()"),
    # Pages of tifffile, images of nibabel, readers of rasterio.
    ("method", "asarray", "x.asarray()"),
    ("method", "dataobj", "numpy.asanyarray(x.dataobj)"),
    ("method", "read_masks", "x.read(masked=True)"),
    ("type", "onnx.onnx_ml_pb2.TensorProto", "onnx.numpy_helper.to_array(x)"),
    ("type", "PySafeSlice", "x[()]"),  # of safetensors
    ("method", "collect", "x.collect()"),
    ("method", "get_view", "x.get_view('3')"),
    ("method", "getbuffer", "x.getbuffer()"),
    ("view", "buf", "x.buf"),
    ("held", "data", "x.data"),
    # By name: queues and mappings have a get() of another meaning.
    ("type", "pyopencl.", "x.get()"),
    ("type", "cv2.UMat", "x.get()"),
)

#: What the arrays of these rows have in the place of the object's own values.
CHANGED = {
    "x.to_local()": "which is the part of this process",
    "x.to_tensor(value)": "which has the value where its mask hides elements",
    "x.dequantize()": "or x.int_repr() for the integers that stand for its values",
    "x.to_padded_tensor(0)": PADDED,
    "x.to_tensor()": PADDED,
    "ffi.buffer(x)": "which has its bytes",
}


def _fits(x: Any, kind: str, what: str) -> Any:
    if kind in ("method", "wrapper"):
        return True
    try:
        value = getattr(x, what)
        if kind == "flag":  # paddle's is_sparse is a method
            return bool(value() if callable(value) else value)
        return cures_of_views.is_array(value)
    except Exception:
        return False


def cure(x: Any, name: str, wrapped: bool) -> str | None:
    """Return the end of a message: what to pass instead of x, or what to do; name is the type's."""
    if isinstance(x, type):  # it has the methods of its objects
        return None
    special = None if wrapped else cures_by_library.find(x)
    return special or _row(x, name, wrapped)


def unsupported(x: Any, name: str, authored: bool) -> str:
    """Make the text of an UnsupportedObjectError; authored: the class is a decorated one."""
    if x is None:
        return (
            f"'{name}' object: it cannot be exported, because it is None: the call before gave "
            "nothing"
        )
    found = None
    with suppress(Exception):  # the object's code runs
        found = cure(x, name, False)
    if found is None and authored:
        found = "\n  pass the name of its array as inner= to dlshim.producer instead"
    why, line, way = (found or "\n  pass an array instead").partition("\n")
    text = f"'{name}' object: it cannot be exported{why}"
    if why or type(x).__module__ == "builtins":  # nobody looks for a protocol in a number
        return f"{text}{line}{way}"
    return (
        f"{text} (it offers none of __dlpack__, "
        "DLPack's C exchange API, a capsule function, __cuda_array_interface__, "
        "__sycl_usm_array_interface__, __array_struct__, __array_interface__, __arrow_c_array__, "
        f"__arrow_c_stream__ and the buffer protocol){line}{way}"
    )


def unknown_keyword(function: str, name: str) -> str:
    """Make the text of the TypeError for a keyword that no option has."""
    text = f"{function}() got an unexpected keyword argument {name!r}"
    if name == "dtype":
        return (
            f'{text}: values are not converted\n  convert the array itself, as x.astype("float32") '
            'does, or call its bits another dtype by reinterpret="bfloat16"'
        )
    called: Any = getattr(_core, function, _core.upgrade)
    names = re.findall(r"(\w+)=", called.__text_signature__)
    near = difflib.get_close_matches(name, names, 1)
    return (
        f"{text}. Did you mean {near[0]!r}?"
        if near
        else f"{text}\n  pass one of {', '.join(names)}"
    )


def _row(x: Any, name: str, wrapped: bool) -> str | None:
    """The same by the first row that fits."""
    for kind, what, text in CURES:
        if (kind == "wrapper") != wrapped:
            continue
        if kind in ("type", "items"):
            if name == what or (what[-1] == "." and name.startswith(what)):
                return _said(text) if kind == "type" else cures_of_items.of_list(x)
        elif not hasattr(type(x), what):
            continue
        elif kind == "held":
            held = cures_of_views.held(x, what)
            if held:
                return held
        elif kind == "numpy":
            return cures_of_views.as_numpy(x, str(text))
        elif _fits(x, kind, what):
            return _said(text)
    return None


def _said(text: str | None) -> str | None:
    if text is None:
        return None
    return converted(text, CHANGED[text]) if text in CHANGED else instead(text)


def cure_of_column(x: Any, problem: str) -> str | None:
    """The end for a column of any library; the message says the problem before."""
    known = any(
        each.__module__.partition(".")[0] in cures_by_library.BY_LIBRARY for each in type(x).__mro__
    )
    if not known:
        return cures_of_columns.of_any_library(x, problem)
    said = cure(x, f"{type(x).__module__}.{type(x).__qualname__}", False)
    if said == NO_NUMBERS:
        return cures_of_columns.of_any_library(x, problem) or CONVERT
    if not isinstance(said, Reasoned):
        return said
    is_said = said.why != MISSING or problem.startswith("missing") or problem == "null"
    return said.way if is_said else f", and {said.why}{said.way}"


def exports_itself(x: Any) -> bool:
    """Whether the object's own ``__dlpack__`` has asked for this exchange.

    The frames repeat, so a few of them tell.  One frame is not enough: the ``__dlpack__`` of a
    wrapper has what it wraps among its variables.
    """
    frame: FrameType | None = sys._getframe(1)
    found = 0
    for _ in range(16):
        if frame is not None:
            if frame.f_code.co_name == "__dlpack__":
                found += id(x) in [*map(id, frame.f_locals.values())]
            frame = frame.f_back
    return found > 1


def refusal(
    *,
    x: Any,
    name: bytes | None,
    error: BaseException | None,
    shape: tuple[int, ...],
    device: tuple[int, int],
    given: tuple[int, int, int],
    dtypes: bytes,
    ranks: int,
    place: tuple[int, int],
    align: int,
    writes: bool,
) -> BaseException:
    """The exception that tells the user of an extension why it does not take x, and which object
    to pass instead.

    error: the exception of the export; None: there is an array, with this shape, this device and,
    given, this dtype.  The rest is the request: name is the extension's name for x, dtypes are
    structs, ranks are bits, place is the device where the memory is wanted.

    The caller raises it: raised here, the error of the export would know the frame of this call,
    which knows the error and x, and all would stay until the next collection.
    """
    said = f"'{type(x).__module__}.{type(x).__qualname__}' object".replace("'builtins.", "'")
    if name:
        said = name.decode(errors="replace")
    keep = "keep and pass" if writes else "pass"
    again = "a new capsule" if type(x).__name__ == "PyCapsule" else "x"  # it is used up
    copied = f"dlshim.from_dlpack({again}, copy=True"
    if writes and isinstance(x, Producer):  # it may have been marked
        copied += ", readonly=False"
    if error is not None:
        if isinstance(error, CopyRequiredError) and error.reason:
            more = f", align={align}" * (align > 64) + f", device={place}" * (place[0] > 0)
            why = _needs_copy(error, align)
            text = f"{said}: {why}, and is not made unasked\n  {keep} {copied}{more})"
        elif type(error) in (BufferError, CopyRequiredError, UnsupportedObjectError):
            text = f"{said}: {error}" if name else str(error)  # which names the object itself
            if getattr(error, "_option_helps", False):
                # The Tensor that was kept shows what is written into a copy.
                way = f"{keep} dlshim.from_dlpack(x), which" if writes else "dlshim.upgrade(x)"
                text += f" ({way} takes such options)"
        else:
            return error
        told = type(error)(text)
        if isinstance(error, CopyRequiredError) and isinstance(told, CopyRequiredError):
            told.reason = error.reason
        # If no Python code has raised the error, this text takes the place of its text.
        told.__cause__ = error if error.__traceback__ else error.__cause__
        return told
    if place[0] == 0 and device[0] not in HOST_DEVICES:
        way = "dlshim.from_dlpack" if writes else "dlshim.upgrade"
        cure = f'{way}({again}, device="cpu")'
        return BufferError(f"{said} lies on device {device}, not on the host\n  {keep} {cure}")
    # map: CPython 3.12 loses count of a comprehension's list where memory ends.
    have, wanted = dtype(given), list(map(dtype, iter_unpack("BBH", dtypes)))
    # NumPy has no memory off the host.
    numpys = _has_numpy(have) and device[0] in HOST_DEVICES
    source = f"dlshim.from_dlpack({again})" if numpys else None
    if have not in (wanted or [have]):
        which = " or ".join(map(str, wanted))
        if len(wanted) > 4:  # of one that converts, the first is its own
            which = f"{wanted[0]} or one of {len(wanted) - 1} others"
            wanted = wanted[:1]
        cure = _dtype_cure(x, have, wanted, writes, source)
        first = _first(wanted)
        if cure and first and "frombuffer" not in cure and not _fits_in(have, first):
            lost = _is_real_part(have, first)
            which += (
                f", in which {'the imaginary part is lost' if lost else 'not every value fits'}"
            )
        cure = f"{keep} {cure}" if cure else "convert it first"
        return TypeError(f"{said} has dtype {have}, not {which}\n  {cure}")
    ndim = len(shape)
    taken = _ranks_of(ranks)
    if ndim not in taken:
        which = " or ".join(map(str, taken))
        if taken[-1] - taken[0] + 1 == len(taken) > 2:
            which = f"{taken[0]} to {taken[-1]}"
        cure = _rank_cure(x, shape, taken, source)
        cure = f"{keep} {cure}" if cure else "change its shape first"
        s = "s" * (ndim != 1)
        return ValueError(f"{said} has {ndim} dimension{s}, not {which}\n  {cure}")
    cure = "bytearray(x)" if isinstance(x, bytes) else copied + ")"
    return BufferError(f"{said} is read-only, and is to be written\n  {keep} {cure}")


def _needs_copy(error: CopyRequiredError, align: int) -> str:
    """Why a copy is needed, in words of a request that has no options."""
    if error.reason == "order":
        return "a copy is needed (strides that are not row-major)"
    if error.reason == "align":
        return f"a copy is needed (memory that is not aligned to {align} bytes)"
    return error._why


def _has_numpy(kind: dtype) -> bool:
    return kind.kind != "V"


def _first(wanted: list[dtype]) -> Any:
    return next(filter(_has_numpy, wanted), None)


#: Bits of the integers that a float holds, by the bits of the float.
_INTEGERS = {16: 11, 32: 24, 64: 53}


#: What numbers ml_dtypes has, by how the dtype's name begins, in NumPy's letter for such.
_OF_ML_DTYPES = {"bfloat": "f", "float": "f", "int": "i", "uint": "u"}


def _kind(given: dtype) -> str:
    """Return NumPy's letter for what numbers a dtype has, "V" for all that no library converts."""
    if _has_numpy(given) or given.lanes != 1:
        return given.kind
    for letters, kind in _OF_ML_DTYPES.items():
        if given.name.startswith(letters):
            return kind
    return "V"


def _bits(given: dtype) -> int:
    """Return the bits of a number; a complex one has two.  float32 holds all small floats."""
    if _kind(given) == "f" and not _has_numpy(given):
        return 32
    return given.bits // 2 if given.kind == "c" else given.bits


def _fits_in(have: dtype, want: dtype) -> bool:
    """Whether every value of a dtype is one of another's, which NumPy has."""
    (kind, size), (wanted, room) = (_kind(have), _bits(have)), (_kind(want), _bits(want))
    if kind == "b":
        return True
    if wanted in "fc":
        fits = size <= (room if kind in "fc" else _INTEGERS[room])
        return fits and (kind != "c" or wanted == "c")
    if wanted == "i":
        return kind in "iu" and size + (kind == "u") <= room
    return kind == wanted and size <= room


def _is_real_part(have: dtype, want: dtype) -> bool:
    """Whether complex numbers become others, which NumPy does with a warning unless it is said."""
    return have.kind == "c" and want.kind != "c"


def _of_torch(torch: Any, wanted: list[Any], tensor: str) -> str | None:
    # A loop: CPython 3.12 loses count of what a generator shares where memory ends.
    for each in wanted:
        if hasattr(torch, str(each)):
            return f"{tensor}.to(torch.{each})"
    return None


def _dtype_cure(x: Any, have: dtype, wanted: list[dtype], writes: int, source: str | None) -> Any:
    """An expression with the first dtype that NumPy has too; None where none is known to work."""
    want = _first(wanted)
    torch = sys.modules.get("torch")
    real = ".real" * (want is not None and _is_real_part(have, want))
    if isinstance(x, getattr(torch, "Tensor", ())):
        return _of_torch(torch, [want, *wanted], f"x{real}")
    if want is None or _kind(have) == "V":
        return None
    if isinstance(x, (bytes, bytearray, memoryview)) and have == "uint8":
        bits = memoryview(x)
        if bits.nbytes % want.itemsize:
            return None
        fits = bits.c_contiguous and not (writes and bits.readonly)
        whole = "x" if fits else "bytearray(x)" if writes else "bytes(x)"
        return f"numpy.frombuffer({whole}, '{want}')"
    # MLX's own takes no name.
    if _has(x, "astype") and not type(x).__module__.startswith("mlx"):
        return f"x{real * _has(x, 'real', is_called=False)}.astype('{want}')"
    if real and source:
        return f"numpy.asarray({source}).real.astype('{want}')"
    return source and f"numpy.asarray({source}, '{want}')"


def _ranks_of(bits: int) -> list[int]:
    """The ranks of a request.

    A function of its own: CPython 3.11 keeps the arguments of a call, the object among them, where
    it has no memory for a variable that a comprehension shares with the call.
    """
    return [rank for rank in range(64) if not bits or bits >> rank & 1]


def _rank_cure(x: Any, shape: tuple[int, ...], taken: list[int], source: str | None) -> Any:
    ndim = len(shape)
    rank = max({*taken} & {*range(ndim)}, default=taken[0])
    rest = prod(shape[max(rank - 1, 0) :])
    if rank == 0 and rest != 1:
        return None
    fitting = (1,) * (rank - ndim) + shape
    if rank < ndim:
        fitting = (*shape[: rank - 1], -1 if 0 not in shape else rest)[:rank]
    # A matrix of NumPy keeps its two dimensions.
    own = _has(x, "reshape") and type(x).__name__ != "matrix"
    if not own and source is None:
        return None
    return f"{'x' if own else f'numpy.asarray({source})'}.reshape({fitting})"


def _has(x: Any, name: str, is_called: bool = True) -> bool:
    with suppress(Exception):
        return callable(getattr(x, name)) or not is_called
    return False
