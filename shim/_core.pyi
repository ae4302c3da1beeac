from collections.abc import Iterator
from types import ModuleType
from typing import Any, ClassVar, Literal, TypeAlias, final

from numpy import ndarray
from typing_extensions import CapsuleType

from .dtypes import dtype as _dtype_class

# Names that begin with an underscore are for this package and its tests.

# Any: torch.device and the like; NumPy's and torch's dtypes.
_Device: TypeAlias = tuple[int, int] | str | Any
_DType: TypeAlias = tuple[int, int, int] | str | Any

class CopyRequiredError(BufferError, ValueError):
    """copy=False was asked for, and the data cannot be given without a copy."""

    #: What needs the copy: "device", memory that is wanted on another device; "order",
    #: strides that are not row-major; "align", memory that is not so aligned;
    #: "readonly", read-only memory of which readonly="copy" gives a private copy;
    #: "chunks", a column in several of them; "format", a byte order or strides that
    #: DLPack cannot describe; "copy", an option copy=True.  "": the exception is not
    #: one of dlshim's own.
    reason: Literal["", "device", "order", "align", "readonly", "chunks", "format", "copy"]
    _why: str

class ReadOnlyWarning(UserWarning):
    """Read-only memory goes to a consumer that does not heed the flag and may write."""

class UnsupportedObjectError(TypeError, AttributeError):
    """The object offers no way to its memory that dlshim knows."""

@final
class device(tuple[int, int]):
    """A DLPack device: a tuple (device_type, device_id) of plain ints.

    str() gives the name ("cpu", "cuda:1"), which device= takes.
    """

_device_class = device

@final
class Producer:
    """A DLPack producer around another object, made by upgrade().

    Lazy: the wrapped object is asked only when a consumer asks this one.
    """

    __dlpack_c_exchange_api__: ClassVar[CapsuleType]
    __c_dlpack_exchange_api__: ClassVar[int]
    @property
    def source(self) -> Any:
        """The wrapped object; a Tensor when a raw capsule was wrapped."""
    def __dlpack__(
        self,
        stream: Any = None,
        *,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> CapsuleType:
        """Export a fresh capsule (array API, __dlpack__).

        max_version with major >= 1 gives a 'dltensor_versioned' capsule, None or
        major 0 a legacy 'dltensor'.  BufferError when the data cannot be given so,
        CopyRequiredError when copy=False and a copy is needed.
        """
    def __dlpack_device__(self) -> tuple[int, int]:
        """(device_type, device_id) that an export will say, plain ints."""
    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        """The memory as a NumPy array, for numpy.asarray(); host memory only."""

@final
class Tensor:
    """A tensor that was taken: it owns the memory (or a share of it) and describes it.

    Made by from_dlpack().  It may be exported any number of times, by DLPack in both
    generations, the buffer protocol (host memory), __array_interface__ and Arrow's
    __arrow_c_array__.  NumPy reads its items.
    """

    __dlpack_c_exchange_api__: ClassVar[CapsuleType]
    __c_dlpack_exchange_api__: ClassVar[int]
    @property
    def shape(self) -> tuple[int, ...]:
        """Extents, a tuple of ints."""
    @property
    def strides(self) -> tuple[int, ...]:
        """Strides in elements, a tuple of ints; exactly the row-major ones if the data are
        C-contiguous."""
    @property
    def dtype(self) -> _dtype_class:
        """The dlshim.dtype, which NumPy reads; equals its name and (code, bits, lanes)."""
    @property
    def device(self) -> _device_class:
        """(device_type, device_id), plain ints; str() gives "cpu" or "cuda:1"."""
    @property
    def ndim(self) -> int:
        """Number of dimensions."""
    @property
    def size(self) -> int:
        """Number of elements."""
    @property
    def itemsize(self) -> int:
        """Bytes of one element, sub-byte ones rounded up."""
    @property
    def nbytes(self) -> int:
        """Bytes of all elements, gaps not counted."""
    @property
    def byte_offset(self) -> int:
        """Bytes from `data` to element zero: 0 where the device has addresses (folded in)."""
    @property
    def readonly(self) -> bool:
        """True when the memory must not be written (DLPack flag READ_ONLY)."""
    @property
    def is_copied(self) -> bool:
        """True when a copy was made for this Tensor (DLPack flag IS_COPIED)."""
    @property
    def version(self) -> tuple[int, int]:
        """(major, minor) of the struct that was taken; (0, 8) for a legacy one, which carries
        none."""
    def data_ptr(self) -> int:
        """Address of element zero as an int; the handle on devices without addresses."""
    def tobytes(self, order: Literal["C", "F", "A"] | None = "C") -> bytes:
        """The elements as bytes, in row-major (C) or column-major (F) order, or as they lie (A)."""
    def tolist(self) -> Any:
        """The elements as Python's numbers, in nested lists; NumPy's tolist()."""
    def item(self, *args: Any) -> Any:
        """The only element as a number of Python, or the one at these indices; NumPy's
        item().
        """
    def view(self, dtype: _DType) -> Tensor:
        """The same memory with another dtype of the same width, as from_dlpack(t,
        reinterpret=dtype) gives it.
        """
    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        """The memory as a NumPy array, for numpy.asarray(); host memory only."""
    def numpy(self) -> ndarray[Any, Any]:
        """The memory as a NumPy array, as numpy.asarray() gives it; host memory only."""
    # NumPy answers for these, where it is imported; host memory only.
    def __getitem__(self, key: Any, /) -> Any:
        """Return self[key]."""
    def __iter__(self) -> Iterator[Any]:
        """Implement iter(self)."""
    def __bool__(self) -> bool:
        """True if self else False"""
    def __len__(self) -> int:
        """Return len(self)."""
    def __arrow_c_array__(
        self, requested_schema: CapsuleType | None = None
    ) -> tuple[CapsuleType, CapsuleType]:
        """The memory as a column of Arrow, without a copy: two capsules (Arrow PyCapsule
        interface).  C-contiguous host memory of integers and floats; BufferError for
        any other.  The schema that is requested is not followed.  Do not write to the
        memory while a column holds it.
        """
    def __copy__(self) -> Tensor:
        """A copy, which may be written."""
    def __deepcopy__(self, memo: Any, /) -> Tensor:
        """A copy, which may be written."""
    def __reduce_ex__(self, protocol: Any, /) -> tuple[Any, ...]:
        """Pickle by value."""
    # Each of these raises AttributeError where it does not apply.
    @property
    def __numpy_dtype__(self) -> Any:
        """The dtype as NumPy's; AttributeError where it has none."""
    @property
    def __array_interface__(self) -> dict[str, Any]:
        """NumPy's array interface v3 of host memory; AttributeError elsewhere."""
    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """CUDA array interface; AttributeError for memory that is not CUDA's."""
    @property
    def __sycl_usm_array_interface__(self) -> dict[str, Any]:
        """SYCL USM array interface; AttributeError for memory that is not oneAPI's."""
    # Before 3.12 this says that the type has the buffer protocol.
    def __buffer__(self, flags: int, /) -> memoryview: ...
    def __dlpack__(
        self,
        stream: Any = None,
        *,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> CapsuleType:
        """Export a fresh capsule (array API, __dlpack__).

        max_version with major >= 1 gives a 'dltensor_versioned' capsule, None or
        major 0 a legacy 'dltensor'.  BufferError when the data cannot be given so,
        CopyRequiredError when copy=False and a copy is needed.
        """
    def __dlpack_device__(self) -> tuple[int, int]:
        """(device_type, device_id) that an export will say, plain ints."""

def upgrade(
    obj: Any,
    /,
    *,
    stream: Any = "auto",
    producer_stream: Any = None,
    unknown_stream: Literal["auto", "legacy", "same", "error"] = "auto",
    device: _Device | None = None,
    like: Any = None,
    copy: bool | None = None,
    readonly: bool | Literal["error", "copy", "share"] | None = None,
    order: Literal["K", "C", "auto"] | None = None,
    align: int | None = None,
    reinterpret: _DType | None = None,
    assume_device: _Device | None = None,
    detach: bool | Literal["auto"] = False,
    on_release: Literal["contract", "guard"] = "contract",
) -> Producer:
    """Wrap an array, raw capsule or older-protocol object as a DLPack producer.

    It gives every consumer the DLPack version that it asks for.  Nothing is copied unless
    an option or the consumer asks for it.

        torch.from_dlpack(dlshim.upgrade(x))
        torch.from_dlpack(dlshim.upgrade(image[::-1], order="auto"))
        torch.from_dlpack(dlshim.upgrade(frozen, readonly="copy"))
        jax.numpy.from_dlpack(dlshim.upgrade(parameter, detach=True))

    What is wrong with the data is raised when a consumer asks.  A raw capsule is taken at
    once.  Options that are given for a Producer win over its own, one by one.

    stream: the consumer's stream, in place of the one that it names; "auto": no
        other one; "wait": the host waits
    producer_stream: the stream that writes the data, where the producer does not tell
    unknown_stream: what to do where nobody tells it: "auto" waits for the device,
        "legacy" takes the default stream, "same" does nothing, "error" refuses
    device: where the data are wanted: "cpu", "cuda:1", (type, id)
    like: an array: the data are wanted on its device, made by its library
    copy: True copies always, False never, None where it is needed
    readonly: what a consumer that writes gets of read-only memory: "copy" is a private
        copy, "share" the memory itself, "error" an error.  True marks the memory
        read-only, False says that it may be written
    order: "auto" copies where the consumer does not take the strides, "C" where they are
        not row-major; "K" passes them on unasked; None refuses them
    align: bytes by which the address is to be divisible; copied where it is not
    reinterpret: another dtype for the same bits: "bool", "int64", (code, bits, lanes)
    assume_device: where the memory is, if the producer says it wrongly
    detach: True calls x.detach() first, for tensors that require grad; "auto" calls it
        where that is needed
    on_release: when the producer gets its memory back: "contract" when the consumer says
        so, "guard" also not before the consumer's work on the device has ended
    """

def from_dlpack(
    x: Any,
    /,
    *,
    dtypes: _DType | tuple[_DType, ...] | list[_DType] | None = None,
    ndims: int | tuple[int, ...] | list[int] | range | None = None,
    writable: bool = False,
    stream: Any = "auto",
    producer_stream: Any = None,
    unknown_stream: Literal["auto", "legacy", "same", "error"] = "auto",
    device: _Device | None = None,
    like: Any = None,
    copy: bool | None = None,
    readonly: bool | Literal["error", "copy", "share"] | None = None,
    order: Literal["K", "C", "auto"] | None = None,
    align: int | None = None,
    reinterpret: _DType | None = None,
    assume_device: _Device | None = None,
    detach: bool | Literal["auto"] = False,
    on_release: Literal["contract", "guard"] = "contract",
) -> Tensor:
    """Take the memory of x and describe it: a Tensor that owns a share of it.

    dtypes: the dtype that is accepted, or several; nothing is converted
    ndims: the number of dimensions that is accepted, or several
    writable: True: you write into the memory, and x sees it: read-only memory is
        refused, and a copy that copy=True did not ask for

    x and the other options are those of upgrade(); the Tensor remembers
    on_release= and a word of readonly= for its exports.  BufferError when the data
    cannot be exported, CopyRequiredError when copy=False and a copy is needed,
    TypeError for another dtype, ValueError for another number of dimensions.
    """

def to_capsule(
    obj: Any,
    /,
    *,
    max_version: tuple[int, int] | None = None,
    stream: Any = "auto",
    producer_stream: Any = None,
    unknown_stream: Literal["auto", "legacy", "same", "error"] = "auto",
    device: _Device | None = None,
    like: Any = None,
    copy: bool | None = None,
    readonly: bool | Literal["error", "copy", "share"] | None = None,
    order: Literal["K", "C", "auto"] | None = None,
    align: int | None = None,
    reinterpret: _DType | None = None,
    assume_device: _Device | None = None,
    detach: bool | Literal["auto"] = False,
    on_release: Literal["contract", "guard"] = "contract",
) -> CapsuleType:
    """A raw DLPack capsule of obj, for functions that want one.

    max_version=None or major 0 gives a legacy 'dltensor' capsule, major >= 1 a
    'dltensor_versioned' one.  The options are those of upgrade().  Without stream=
    the host waits until device memory is ready for every stream.
    """

def _kernel(function: Any, calls: Any, /) -> Any: ...
def _check_wanted(
    wanted: tuple[Any, Any, bool], x: Any = None, tensor: Tensor | None = None, /
) -> None: ...
def _class_method(cls: type, name: str, own: Any, inner: str | None, /) -> Any: ...
def _class_tables(importer: Any, /) -> dict[str, Any]: ...
def _track(on: int | ModuleType, /) -> list[int]: ...

_c_api_v1: CapsuleType
_FLAGS: dict[str, int]

def _counters() -> dict[str, int]: ...
def _hook(name: str, value: int = 0, /) -> None: ...
def _peek(capsule: CapsuleType, /) -> dict[str, Any]: ...
def _plan(obj: Any, /) -> dict[str, Any]: ...
def _home_of(obj: object, /) -> type[Producer]: ...
def _upgrade_into(home: type[Producer], obj: object, /, **options: Any) -> Producer: ...
def _options(producer: Producer, /) -> dict[str, Any]: ...
def _planned_type(producer: Producer, /) -> int: ...
def _true_device(address: int, device: tuple[int, int], /) -> tuple[int, int]: ...
def _dtype(value: Any, /) -> tuple[int, int, int, str, str]: ...
def _flags(tensor: Tensor, /) -> int: ...
def _view(
    tensor: Tensor,
    dtype: tuple[int, ...],
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    flags: int,
    /,
) -> Tensor: ...
def _compat() -> dict[str, bool]: ...
def _sync_rules() -> list[dict[str, str]]: ...
def _sync_action(
    task: int, known: int, p: int, s: int, policy: int, facts: tuple[bool, ...], /
) -> int: ...
