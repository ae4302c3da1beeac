"""What the C code has done in Python: a Tensor among NumPy's people, and what is rare.

Rare are the objects of oneAPI's library, and cures for objects that are refused.
The C code calls these functions by name, and imports this module when it first needs one.  How an
object of a decorated class is asked is found by `authored` of ``decorator``.
No array library is imported: NumPy, ml_dtypes and dpctl are used where they are imported already.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from functools import cache
from math import prod
from types import SimpleNamespace

from ._core import (
    CopyRequiredError,
    Producer,
    Tensor,
    UnsupportedObjectError,
    _dtype,
    _peek,
    _view,
    from_dlpack,
    to_capsule,
    upgrade,
)
from .decorator import authored  # noqa: F401

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType
    from typing import Any

_HOST = (1, 3, 11)
_BYTE = (1, 8, 1)
_READ_ONLY, _PADDED = 1, 4  # flags of DLPack
_Text = str  # the class below has a member of that name


class dtype:
    """The dtype of a Tensor; ``dlshim.dtype("float32")`` makes one.

    It equals its name, ``(code, bits, lanes)`` and NumPy's dtype.  NumPy reads it.
    """

    __slots__ = ("bits", "code", "itemsize", "kind", "lanes", "name", "str")

    bits: int
    code: int
    itemsize: int
    kind: _Text
    lanes: int
    name: _Text
    str: _Text

    def __new__(cls, value: Any) -> dtype:
        """Find the dtype of a name, of ``(code, bits, lanes)`` or of another library's dtype."""
        if isinstance(value, int):
            raise TypeError(f'{value!r} names no dtype: pass a name such as "float32"')
        code, bits, lanes, *_ = _dtype(value)
        return dtypes[lanes << 16 | bits << 8 | code]

    def __setattr__(self, *_: object) -> None:
        raise AttributeError("a dtype cannot be changed")

    __delattr__ = __setattr__

    @property
    def byteorder(self) -> _Text:
        """``"="``, or ``"|"`` where an element has one byte."""
        return "|" if self.itemsize == 1 else "="

    @property
    def __numpy_dtype__(self) -> Any:
        """NumPy's dtype; ml_dtypes' where NumPy has none of its own."""
        np, ml = sys.modules.get("numpy"), sys.modules.get("ml_dtypes")
        if np is None:
            raise AttributeError("numpy is not imported")
        found = self.str if self.kind != "V" else getattr(ml, self.name, None)
        if found is None:
            raise AttributeError(f"NumPy has no dtype {self.name} (ml_dtypes may, if imported)")
        return np.dtype(found)

    dtype = __numpy_dtype__  # older NumPy asks for this

    def __iter__(self) -> Iterator[int]:
        return iter((self.code, self.bits, self.lanes))

    def __eq__(self, other: object) -> bool:
        if isinstance(other, _Text):
            return self.name == other
        if isinstance(other, (dtype, tuple)):
            return tuple(self) == tuple(other)
        np = sys.modules.get("numpy")
        if np is None or not isinstance(other, (np.dtype, type)):
            return NotImplemented
        return getattr(self, "dtype", None) == other  # NumPy compares its classes of scalars too

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __str__(self) -> _Text:
        return self.name

    def __repr__(self) -> _Text:
        return f"dlshim.dtype({self.name!r})"

    def __reduce__(self) -> Any:
        return dtype, (tuple(self),)


class _Dtypes(dict[int, dtype]):
    """Every dtype that was met."""

    def __missing__(self, key: int) -> dtype:
        code, bits, lanes, name, typestr = _dtype(key)
        size = (bits * lanes + 7) // 8
        made = object.__new__(dtype)
        facts = (bits, code, size, typestr[1], lanes, name, typestr)
        for fact, value in zip(dtype.__slots__, facts, strict=True):
            object.__setattr__(made, fact, value)
        return self.setdefault(key, made)


dtypes = _Dtypes()
dtype.__module__ = "dlshim"


def dtype_name(value: Any) -> Any:
    """Tell as which dtype an object of another library reads, by name; None: as none."""
    if isinstance(value, dtype):
        return tuple(value)
    if not getattr(value, "isnative", True):
        return None
    name = getattr(value, "name", None) or getattr(value, "__name__", None)
    # A scalar type of NumPy 1 is called "bool_"; a dtype of torch has a str() alone.
    return (name or str(value).rpartition(".")[2]).rstrip("_")


def device_name(value: Any) -> str:
    """Tell as which device an object of another library reads, by name."""
    name = str(value)  # torch, JAX, Warp, tvm-ffi; Paddle says Place(gpu:0)
    torch = sys.modules.get("torch")
    if type(value).__module__ == "torch" and getattr(getattr(torch, "version", None), "hip", None):
        name = name.replace("cuda", "rocm")
    return name.rpartition("(")[2].rstrip(")")


def shown(producer: Producer, kind: str, options: dict[str, Any]) -> str:
    """Make the repr: with shape and dtype of the source where reading them runs C code alone."""
    source = producer.source
    given = "".join(f", {name}={value!r}" for name, value in options.items())
    if isinstance(source, Tensor):
        return f"<dlshim.Producer of {source!r}{given}>"
    facts = ""
    for name in ("shape", "dtype"):
        found = (vars(cls)[name] for cls in type(source).__mro__ if name in vars(cls))
        if type(next(found, None)).__name__ == "getset_descriptor":
            with suppress(Exception):  # a torch subclass may have a hook that refuses
                facts += f" {name}={getattr(source, name)}"
    return f"<dlshim.Producer of '{kind}' object{facts} at {id(source):#x}{given}>"


def _check_host(x: Any) -> None:
    # A Producer comes here only if it is not on the host.
    if isinstance(x, Producer) or x.device[0] not in _HOST:
        raise TypeError(
            f"{x!r} is memory that is not on the host: copy it there with "
            'from_dlpack(x, device="cpu")'
        )


def array(tensor: Tensor, dtype: Any = None, copy: bool | None = None) -> Any:
    """``__array__``: the Tensor's own memory, unless a copy or another dtype is wanted."""
    np = sys.modules.get("numpy")
    if np is None:
        raise TypeError("__array__() makes an array of NumPy, which is not imported")
    if dtype is None and not copy:
        try:
            return np.asarray(memoryview(tensor))
        except (BufferError, TypeError):
            pass  # not on the host, or no dtype of NumPy's own
    _check_host(tensor)
    kind = tensor.dtype
    try:
        own = kind.__numpy_dtype__
    except AttributeError:
        raise TypeError(
            f"NumPy has no dtype {kind}: import ml_dtypes if it has one, or name one of the same "
            "width with reinterpret="
        ) from None
    wanted = own if dtype is None else np.dtype(dtype)
    if copy is False and wanted != own:
        raise ValueError(f"copy=False, but making {wanted} of {own} needs a copy")
    plain = kind.kind != "V"
    made = np.asarray(tensor) if plain else np.asarray(_as_bits(tensor)).view(own)
    return made.astype(wanted, copy=bool(copy))


def _is_padded(tensor: Tensor) -> bool:
    return tensor.dtype.bits < 8 and _peek(to_capsule(tensor, max_version=(1, 0)))["flags"] & 4 > 0


def _as_bits(tensor: Tensor) -> Tensor:
    kind = tensor.dtype
    if kind.bits < 8 and not _is_padded(tensor):
        raise TypeError(f"its elements of {kind} are packed, and NumPy has a byte for each")
    bits = (1, 8 * kind.itemsize, 1)
    return _view(tensor, bits, tensor.shape, tensor.strides, tensor.readonly * _READ_ONLY)


def _as_bytes(tensor: Tensor) -> Tensor:
    return _view(tensor, _BYTE, (tensor.nbytes,), (1,), tensor.readonly * _READ_ONLY)


def row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The strides of a C-contiguous array."""
    strides, step = [], 1
    for extent in reversed(shape):
        strides.append(step)
        step *= extent
    return tuple(reversed(strides))


def _transposed(tensor: Tensor) -> Tensor:
    flags = tensor.readonly * _READ_ONLY | _is_padded(tensor) * _PADDED
    return _view(tensor, tuple(tensor.dtype), tensor.shape[::-1], tensor.strides[::-1], flags)


def _is_row_major(tensor: Tensor) -> bool:
    pairs = zip(tensor.shape, tensor.strides, row_major(tensor.shape), strict=True)
    return 0 in tensor.shape or all(n == 1 or step == want for n, step, want in pairs)


def tobytes(tensor: Tensor, order: str = "C") -> bytes:
    """Return a copy of the elements."""
    _check_host(tensor)
    if order not in ("C", "F"):
        raise ValueError(f'order={order!r} is not known: pass "C" or "F"')
    turned = tensor if order == "C" else _transposed(tensor)
    return bytes(_as_bytes(from_dlpack(turned, order="C")))


def reduce(tensor: Tensor, protocol: int) -> Any:
    """``__reduce_ex__``: the memory as one byte buffer, and how to read it."""
    from pickle import PickleBuffer

    _check_host(tensor)
    kind, order, memory = tensor.dtype, "C", tensor
    if not _is_row_major(tensor):
        if _is_row_major(_transposed(tensor)):
            order = "F"
        else:
            memory = from_dlpack(tensor, order="C")
    content = _as_bytes(memory)
    # A memoryview answers requests for bare bytes, as of file.write; a Tensor refuses them.
    buffer: Any = PickleBuffer(memoryview(content))
    if protocol < 5:
        buffer = bytes(content) if tensor.readonly else bytearray(content)
    kept = (*kind, _is_padded(tensor))
    return rebuild, (1, tensor.shape, kept, order, tensor.readonly, buffer)


def rebuild(version: int, shape: Any, kept: Any, order: str, readonly: bool, buffer: Any) -> Tensor:
    """Make a Tensor of what `reduce` gave; pickles name this ``dlshim._rebuild``."""
    if version != 1:
        raise ValueError("the pickle is of a newer dlshim")
    *numbers, padded = kept
    kind = dtype(tuple(numbers))
    if order not in ("C", "F") or (padded and kind.bits >= 8):
        raise ValueError(f"no Tensor is pickled as {kept} in order {order!r}")
    tensor = from_dlpack(memoryview(buffer).cast("B"))
    count = 1
    for extent in shape:
        count *= extent
    bits = kind.lanes * (8 if padded else kind.bits)
    if min(shape, default=0) < 0 or tensor.size != (count * bits + 7) // 8:
        raise ValueError(f"{tensor.size} bytes are not {shape} elements of {kind}")
    strides = row_major(shape) if order == "C" else row_major(shape[::-1])[::-1]
    flags = bool(readonly or tensor.readonly) * _READ_ONLY | bool(padded) * _PADDED
    return _view(tensor, tuple(kind), shape, strides, flags)


rebuild.__module__, rebuild.__qualname__ = "dlshim", "_rebuild"


# --- oneAPI, by the objects of dpctl; None: it is not imported, or lacks what is needed ---------


def _absent(*_: Any, **__: Any) -> None:
    return None


def _of_dpctl(name: str, module: str = "dpctl") -> Any:
    return getattr(sys.modules.get(module), name, _absent)


@cache
def _made(make: Any, name: str) -> Any:
    return make(name)


def _copy_queue(number: int) -> Any:
    """Find the queue of a device in which copies are made.

    One is kept for each device.  A queue for each copy would cost ten times as much, and after some
    hundred of them OpenCL's runtime for the CPU does not start the next kernel.  Devices have no
    names in DLPack, but a filter string may be their number.
    """
    return _made(_of_dpctl("SyclQueue"), str(number))


def _fetch(to: memoryview, address: int, syclobj: Any) -> Any:
    """Copy bytes of oneAPI memory, and wait for that.

    The caller frees what `to` shows, and a traceback may keep it: it is released.
    """
    with to:
        shown = {
            "data": (address, False),
            "shape": (to.nbytes,),
            "strides": None,
            "typestr": "|u1",
            "version": 1,
            "syclobj": syclobj,
        }
        view = _of_dpctl("as_usm_memory", "dpctl.memory")
        memory = view(SimpleNamespace(__sycl_usm_array_interface__=shown))
        if memory is not None:
            memory.sycl_queue.memcpy(to, memory, to.nbytes)
        return memory


def _send(source: memoryview, alignment: int, number: int) -> Any:
    """Copy to new memory, in the queue that dpctl itself uses for the device.

    The result is its address, and what the reader of the SYCL interface makes of memory
    (src/older_protocols/sycl_interface.c).
    """
    with source:
        queue = _of_dpctl("get_device_cached_queue")(str(number))
        # An empty array has memory as well: dpctl takes none whose address is NULL.
        new = queue and _of_dpctl("MemoryUSMDevice", "dpctl.memory")
        memory = new and new(source.nbytes or 1, alignment=alignment, queue=queue)
        if memory is None:
            return None
        if source.nbytes:
            memory.sycl_queue.memcpy(memory, source, source.nbytes)
        return int(memory._pointer), (memory, memory.__sycl_usm_array_interface__, queue)


def _wait(queue: Any) -> None:
    """Have the host wait for a queue (dpctl) or a stream (torch)."""
    method = getattr(queue, "wait", None) or getattr(queue, "synchronize", None)
    if not method:
        raise TypeError(f"{queue!r} has neither wait() nor synchronize()")
    method()


def _order(first: Any, then: Any) -> None:
    """Make a queue wait for another: a barrier in that one, and one here that waits for it.

    Where one of them knows no barriers, the host waits.
    """
    if first is then or first == then:  # two objects of one queue
        return
    known = hasattr(then, "submit_barrier")
    barrier = getattr(first, "submit_barrier", None) if known else None
    if barrier:
        then.submit_barrier([barrier()])
    else:
        _wait(first)


def _read_syclobj(value: Any, numbered: bool, kind: str = "") -> Any:
    """Read a syclobj: a form that may be shown again, its device's number, whether it is a queue.

    kind: the class that opens the capsule `value`.  The number is None where only dpctl could tell
    it, and where it is not wanted.  Of what has a capsule that alone is given, of what is no
    syclobj nothing.
    """
    if kind:
        value = _of_dpctl(kind)(value)
        if value is None:
            return None, None, False
    is_queue = False
    if isinstance(value, str):
        device = _of_dpctl("SyclDevice")(value)
    elif (device := getattr(value, "sycl_device", _absent)) is not _absent:
        is_queue = True
    elif devices := getattr(value, "get_devices", None):
        device = devices()[0]  # memory in a context is taken to lie on the first
    elif capsule := getattr(value, "_get_capsule", None):
        return (capsule(),)
    else:
        return ()
    return value, device.get_device_id() if numbered and device is not None else None, is_queue


# --- refusals ---------------------------------------------------------------------------------

# (kind, what, text): an object that cannot be exported has this way to an array; the first row that
# fits is named in the message, None: there is none.  flag: its attribute is true, or gives true
# when it is called; view: its attribute can be exported; method: its type has the attribute; type:
# so begins the name of its type, and without a full stop at the end it is that; wrapper: as method,
# where the export had no memory because the object wraps others that have.
CURES: tuple[tuple[str, str, str | None], ...] = (
    # torch's DTensor and MaskedTensor.
    ("wrapper", "to_local", ".to_local()"),
    ("wrapper", "get_data", ".get_data()"),
    ("flag", "is_sparse", ".to_dense()"),
    ("flag", "is_sparse_csr", ".to_dense()"),
    ("flag", "is_mkldnn", ".to_dense()"),
    ("flag", "is_quantized", ".int_repr() or .dequantize()"),
    ("flag", "is_nested", ".to_padded_tensor(0)"),
    # Their arrays are made by the same library, which has just refused.
    ("method", "__torch_function__", None),
    ("method", "__array_finalize__", None),
    # These have __array__ too, which raises or gives an array of objects.
    ("method", "toarray", ".toarray()"),
    ("method", "todense", ".todense()"),
    ("method", "to_dataarray", ".to_dataarray()"),
    ("method", "to_host", ".to_host()"),
    ("method", "__array__", "numpy.asarray(x)"),
    ("type", "list", "numpy.asarray(x)"),
    ("type", "tuple", "numpy.asarray(x)"),
    ("type", "range", "numpy.asarray(x)"),
    # Its GetArrayViewFromImage does not keep the image alive.
    ("type", "SimpleITK.", "SimpleITK.GetArrayFromImage(x)"),
    ("type", "_cffi_backend.", "ffi.buffer(x)"),
    ("type", "faiss.", "faiss.vector_to_array(x)"),
    ("type", "tensorflow.python.framework.sparse_tensor.", "tf.sparse.to_dense(x)"),
    ("method", "to_tensor", ".to_tensor()"),
    ("method", "to_dense", ".to_dense()"),
    ("method", "to_ndarray", ".to_ndarray()"),
    ("method", "to_numpy", ".to_numpy()"),
    ("method", "asnumpy", ".asnumpy()"),
    ("method", "numpy", ".numpy()"),
    ("method", "fetchnumpy", ".df()"),
    ("method", "collect", ".collect()"),
    ("method", "get_view", ".get_view('3')"),
    ("method", "getbuffer", ".getbuffer()"),
    ("view", "buf", ".buf"),
    ("view", "data", ".data"),
    # By name: queues and mappings have a get() of another meaning.
    ("type", "pyopencl.", ".get()"),
    ("type", "cv2.UMat", ".get()"),
)


def _fits(x: Any, kind: str, what: str) -> Any:
    if kind in ("method", "wrapper"):
        return True
    try:
        value = getattr(x, what)
        if kind == "flag":  # paddle's is_sparse is a method
            return bool(value() if callable(value) else value)
        return hasattr(type(value), "__dlpack__") or memoryview(value) is not None
    except Exception:
        return False


def _cure(x: Any, name: str, wrapped: bool) -> str | None:
    """Find the row of an object; name: its type's.  A class has the methods of its objects."""
    for kind, what, text in () if isinstance(x, type) else CURES:
        if (kind == "wrapper") != wrapped:
            continue
        if kind == "type":
            if name == what or (what[-1] == "." and name.startswith(what)):
                return text
        elif hasattr(type(x), what) and _fits(x, kind, what):
            return text
    return None


def _exports_itself(x: Any) -> bool:
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


# ---- what dlshim.h refuses ------------------------------------------------------------------


def _refuse(
    x: Any,
    name: bytes | None,
    error: Exception | None,
    shape: tuple[int, ...],
    device: tuple[int, int],
    given: bytes,
    dtypes: bytes | None,
    ranks: int,
    place: tuple[int, int],
    align: int,
    writes: int,
) -> None:
    """Tell the user of an extension why it does not take x, and what to pass instead."""
    from struct import iter_unpack

    said = f"'{type(x).__module__}.{type(x).__qualname__}' object".replace("'builtins.", "'")
    if name:
        said = name.decode(errors="replace")
    keep = "keep and pass" if writes else "pass"
    again = "a new capsule" if type(x).__name__ == "PyCapsule" else "x"  # it is used up
    copied = f"dlshim.from_dlpack({again}, copy=True"
    if writes and isinstance(x, Producer):  # it may have been marked
        copied += ", readonly=False"
    if error is not None:
        if isinstance(error, CopyRequiredError):
            more = f", align={align}" * (align > 64) + f", device={place}" * (place[0] > 0)
            why = str(error).rpartition(" object: ")[2].partition(", but ")[0]
            why = why.replace('order="C" for ', "").replace("align= for ", "")
            why = why.replace("so aligned", f"aligned to {align} bytes")
            text = f"{why}, and is not made unasked; {keep} {copied}{more})"
        elif type(error) in (BufferError, UnsupportedObjectError):
            signature: str = upgrade.__text_signature__  # type: ignore[attr-defined]
            options = signature.split(", ")
            named = any(each.partition("=")[0] + "=" in str(error) for each in options)
            note = " (dlshim.upgrade(x) takes such options)" * named
            text = (str(error) if name else str(error).removeprefix(f"{said}: ")) + note
        else:
            raise error
        # Where no Python code has raised it, this text takes the place of that one.
        raise type(error)(f"{said}: {text}") from error if error.__traceback__ else error.__cause__
    if place[0] == 0 and device[0] not in _HOST:
        way = "dlshim.from_dlpack" if writes else "dlshim.upgrade"
        cure = f'{way}({again}, device="cpu")'
        raise BufferError(f"{said} lies on device {device}, not on the host; {keep} {cure}")
    have, *wanted = [dtype(each) for each in iter_unpack("BBH", given + (dtypes or b""))]
    source = f"dlshim.from_dlpack({again})" if _has_numpy(have) else None
    if have not in (wanted or [have]):
        which = " or ".join(map(str, wanted))
        cure = _dtype_cure(x, have, wanted, writes, source)
        cure = f"{keep} {cure}" if cure else "convert it first"
        raise TypeError(f"{said} has dtype {have}, not {which}; {cure}")
    ndim = len(shape)
    taken = [rank for rank in range(64) if not ranks or ranks >> rank & 1]
    if ndim not in taken:
        which = " or ".join(map(str, taken))
        if taken[-1] - taken[0] + 1 == len(taken) > 2:
            which = f"{taken[0]} to {taken[-1]}"
        cure = _rank_cure(x, shape, taken, source)
        cure = f"{keep} {cure}" if cure else "change its shape first"
        s = "s" * (ndim != 1)
        raise ValueError(f"{said} has {ndim} dimension{s}, not {which}; {cure}")
    cure = "bytearray(x)" if isinstance(x, bytes) else copied + ")"
    raise BufferError(f"{said} is read-only, and is to be written; {keep} {cure}")


def _has_numpy(kind: dtype) -> bool:
    return kind.kind != "V"


def _dtype_cure(x: Any, have: dtype, wanted: list[dtype], writes: int, source: str | None) -> Any:
    """An expression with the first dtype that NumPy has too; None where none is known to work."""
    want = next(filter(_has_numpy, wanted), None)
    if want is None or source is None:
        return None
    torch = sys.modules.get("torch")
    if isinstance(x, getattr(torch, "Tensor", ())):
        return f"x.to(torch.{want})"
    if isinstance(x, (bytes, bytearray, memoryview)) and have == "uint8":
        bits = memoryview(x)
        if bits.nbytes % want.itemsize:
            return None
        fits = bits.c_contiguous and not (writes and bits.readonly)
        whole = "x" if fits else "bytearray(x)" if writes else "bytes(x)"
        return f"numpy.frombuffer({whole}, '{want}')"
    # MLX's own takes no name.
    if _has(x, "astype") and not type(x).__module__.startswith("mlx"):
        return f"x.astype('{want}')"
    return f"numpy.asarray({source}, '{want}')"


def _rank_cure(x: Any, shape: tuple[int, ...], taken: list[int], source: str | None) -> Any:
    ndim = len(shape)
    rank = max((rank for rank in taken if rank < ndim), default=taken[0])
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


def _has(x: Any, name: str) -> bool:
    with suppress(Exception):
        return callable(getattr(x, name))
    return False
