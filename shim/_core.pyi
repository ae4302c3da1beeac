from typing import Any, ClassVar, Literal, TypeAlias, final

from typing_extensions import CapsuleType

from .arrays import dtype as _dtype_class

# Names that begin with an underscore are for this package and its tests.

# Any: torch.device and the like; NumPy's and torch's dtypes.
_Device: TypeAlias = tuple[int, int] | str | Any
_DType: TypeAlias = tuple[int, int, int] | str | Any

class CopyRequiredError(BufferError, ValueError): ...
class ReadOnlyWarning(UserWarning): ...
class UnsupportedObjectError(TypeError, AttributeError): ...

@final
class device(tuple[int, int]): ...

_device_class = device

@final
class Producer:
    __dlpack_c_exchange_api__: ClassVar[CapsuleType]
    __c_dlpack_exchange_api__: ClassVar[int]
    @property
    def source(self) -> Any: ...
    def __dlpack__(
        self,
        stream: Any = None,
        *,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> CapsuleType: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...
    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any: ...

@final
class Tensor:
    __dlpack_c_exchange_api__: ClassVar[CapsuleType]
    __c_dlpack_exchange_api__: ClassVar[int]
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def strides(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> _dtype_class: ...
    @property
    def device(self) -> _device_class: ...
    @property
    def ndim(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def itemsize(self) -> int: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def byte_offset(self) -> int: ...
    @property
    def readonly(self) -> bool: ...
    @property
    def is_copied(self) -> bool: ...
    @property
    def version(self) -> tuple[int, int]: ...
    def data_ptr(self) -> int: ...
    def tobytes(self, order: Literal["C", "F"] = "C") -> bytes: ...
    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any: ...
    def __copy__(self) -> Tensor: ...
    def __deepcopy__(self, memo: Any, /) -> Tensor: ...
    def __reduce_ex__(self, protocol: Any, /) -> tuple[Any, ...]: ...
    # Each of these raises AttributeError where it does not apply.
    @property
    def __numpy_dtype__(self) -> Any: ...
    @property
    def __array_interface__(self) -> dict[str, Any]: ...
    @property
    def __cuda_array_interface__(self) -> dict[str, Any]: ...
    @property
    def __sycl_usm_array_interface__(self) -> dict[str, Any]: ...
    # Before 3.12 this says that the type has the buffer protocol.
    def __buffer__(self, flags: int, /) -> memoryview: ...
    def __dlpack__(
        self,
        stream: Any = None,
        *,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> CapsuleType: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...

def upgrade(
    obj: Any,
    /,
    *,
    stream: Any = ...,
    producer_stream: Any = None,
    unknown_stream: Literal["auto", "legacy", "same", "error"] = "auto",
    device: _Device | None = None,
    like: Any = None,
    copy: bool | None = None,
    readonly: bool | Literal["error", "copy", "share"] | None = None,
    order: Literal["K", "C"] | None = None,
    align: int | None = None,
    reinterpret: _DType | None = None,
    assume_device: _Device | None = None,
    detach: bool = False,
    on_release: Literal["contract", "guard"] = "contract",
) -> Producer:
    """Wrap an array, raw capsule or older-protocol object as a DLPack producer.

    It gives every consumer the DLPack version that it asks for, zero-copy unless an
    option or the consumer asks for a copy.  What concerns the data is found out, and
    raised, when a consumer asks.  A raw capsule is taken at once.  Options given for a
    Producer win over its own, one by one.

    stream: the consumer's stream, if it does not say it; "wait": the host waits
    producer_stream: the stream of the producer's work, if it does not say it
    unknown_stream: else "auto" waits for the device, "legacy" takes the default
        stream, "same" does nothing, "error" refuses
    device: deliver there: (type, id), "cpu", "cuda:1"
    like: deliver on the device of this array, by its allocator
    copy: True: always, False: never, None: if needed
    readonly: True: it is, False: it may be written; else, if it is read-only, for
        consumers that write all the same: "error", "copy" it, "share" it
    order: None: strides that the consumer takes, "K": all strides, "C": row-major
    align: alignment in bytes, copied if needed
    reinterpret: the same bits as another dtype: "bool", (code, bits, lanes)
    assume_device: where the memory is, if the producer's label is wrong
    detach: call obj.detach() first (autograd)
    on_release: "guard": the memory goes back after the consumer's work on the device
    """

def from_dlpack(
    x: Any,
    /,
    *,
    stream: Any = ...,
    producer_stream: Any = None,
    unknown_stream: Literal["auto", "legacy", "same", "error"] = "auto",
    device: _Device | None = None,
    like: Any = None,
    copy: bool | None = None,
    readonly: bool | Literal["error", "copy", "share"] | None = None,
    order: Literal["K", "C"] | None = None,
    align: int | None = None,
    reinterpret: _DType | None = None,
    assume_device: _Device | None = None,
    detach: bool = False,
    on_release: Literal["contract", "guard"] = "contract",
) -> Tensor: ...
def to_capsule(
    obj: Any,
    /,
    *,
    max_version: tuple[int, int] | None = None,
    stream: Any = ...,
    producer_stream: Any = None,
    unknown_stream: Literal["auto", "legacy", "same", "error"] = "auto",
    device: _Device | None = None,
    like: Any = None,
    copy: bool | None = None,
    readonly: bool | Literal["error", "copy", "share"] | None = None,
    order: Literal["K", "C"] | None = None,
    align: int | None = None,
    reinterpret: _DType | None = None,
    assume_device: _Device | None = None,
    detach: bool = False,
    on_release: Literal["contract", "guard"] = "contract",
) -> CapsuleType: ...
def _class_attributes() -> dict[str, Any]: ...
def _track(on: int, /) -> list[int]: ...

_c_api_v1: CapsuleType

def _counters() -> dict[str, int]: ...
def _hook(name: str, value: int = 0, /) -> None: ...
def _peek(capsule: CapsuleType, /) -> dict[str, Any]: ...
def _plan(obj: Any, /) -> dict[str, Any]: ...
def _options(producer: Producer, /) -> dict[str, Any]: ...
def _true_device(address: int, device: tuple[int, int], /) -> tuple[int, int]: ...
def _dtype(value: Any, /) -> tuple[int, int, int, str, str]: ...
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
