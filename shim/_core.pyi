import sys
from typing import Any, ClassVar, Literal, final

from typing_extensions import CapsuleType

# The C extension.  `dlshim` re-exports the public names; those that begin with an
# underscore are for this package's own modules and the tests, and may change in any release.

class CopyRequiredError(BufferError, ValueError): ...
class UnsupportedObjectError(TypeError, AttributeError): ...

@final
class dtype(tuple[int, int, int]): ...

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

@final
class Tensor:
    __dlpack_c_exchange_api__: ClassVar[CapsuleType]
    __c_dlpack_exchange_api__: ClassVar[int]
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def strides(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> tuple[int, int, int]: ...
    @property
    def device(self) -> tuple[int, int]: ...
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
    # Each of these raises AttributeError where it does not apply.
    @property
    def __array_interface__(self) -> dict[str, Any]: ...
    @property
    def __cuda_array_interface__(self) -> dict[str, Any]: ...
    @property
    def __sycl_usm_array_interface__(self) -> dict[str, Any]: ...
    if sys.version_info >= (3, 12):
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
    device: tuple[int, int] | str | None = None,
    like: Any = None,
    copy: bool | None = None,
    readonly: bool | None = None,
    legacy_readonly: Literal["error", "strip", "copy"] = "error",
    order: Literal["K", "C"] | None = None,
    align: int | None = None,
    reinterpret: str | tuple[int, int, int] | None = None,
    assume_device: tuple[int, int] | str | None = None,
    detach: bool = False,
    on_release: Literal["contract", "guard"] = "contract",
) -> Producer: ...
def from_dlpack(
    x: Any,
    /,
    *,
    device: tuple[int, int] | str | None = None,
    like: Any = None,
    copy: bool | None = None,
    stream: Any = ...,
) -> Tensor: ...
def to_capsule(
    obj: Any,
    /,
    *,
    max_version: tuple[int, int] | None = None,
    stream: Any = ...,
    producer_stream: Any = None,
    unknown_stream: Literal["auto", "legacy", "same", "error"] = "auto",
    device: tuple[int, int] | str | None = None,
    like: Any = None,
    copy: bool | None = None,
    readonly: bool | None = None,
    legacy_readonly: Literal["error", "strip", "copy"] = "error",
    order: Literal["K", "C"] | None = None,
    align: int | None = None,
    reinterpret: str | tuple[int, int, int] | None = None,
    assume_device: tuple[int, int] | str | None = None,
    detach: bool = False,
    on_release: Literal["contract", "guard"] = "contract",
) -> CapsuleType: ...
def _counters() -> dict[str, int]: ...
def _hook(name: str, value: int = 0, /) -> None: ...
def _peek(capsule: CapsuleType, /) -> dict[str, Any]: ...
def _plan(obj: Any, /) -> dict[str, Any]: ...
def _true_device(address: int, device: tuple[int, int], /) -> tuple[int, int]: ...
def _compat() -> dict[str, bool]: ...
def _sync_rules() -> list[dict[str, str]]: ...
def _sync_action(
    task: str, known: str, p: int, s: int, policy: str, facts: tuple[bool, ...], /
) -> str: ...
