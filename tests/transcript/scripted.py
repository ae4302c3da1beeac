"""A producer that does what it is told, by the form of the call and by the phase."""

from __future__ import annotations

import ctypes as C
from collections.abc import Callable
from typing import Any

from doubles import capsules as caps
from doubles.producers import (
    ALL_KEYWORDS,
    RAISES_FROM_BOOL,
    Array,
    TableMixin,
    c_table,
    table_capsule,
    wants_versioned,
)

from . import record

#: One of each class of errors that is decided upon, `Exception` for all others.
ERRORS: dict[str, Callable[[], BaseException]] = {
    cls.__name__: (lambda cls=cls: cls("told to"))  # type: ignore[misc]
    for cls in (
        TypeError,
        ValueError,
        RuntimeError,
        NotImplementedError,
        AssertionError,
        BufferError,
        AttributeError,
        Exception,
        OverflowError,
        RecursionError,
        MemoryError,
        KeyboardInterrupt,
        UserWarning,
    )
}
#: What libraries refuse with.
COMMON = tuple(ERRORS)[:8]

Answer = Callable[[Any, dict[str, Any]], Any]


def gives(generation: str = "asked", **fields: Any) -> Answer:
    """A struct with these fields, legacy, versioned or as asked."""

    def answer(self: Any, asked: dict[str, Any]) -> Any:
        versioned = generation == "versioned" or (
            generation == "asked" and wants_versioned(asked.get("max_version"))
        )
        more = dict(fields)
        version = more.pop("version", (1, 0)) if versioned else None
        if not versioned:
            more.pop("version", None)
            more.pop("flags", None)
        if "strides" in more or "shape" in more or "dtype" in more:
            # A layout of its own lies in memory of its own.
            more.setdefault("memory", None)
            more.setdefault("start", 0)
            more.setdefault("strides", "row-major")
        name, destructor = more.pop("name", None), more.pop("destructor", True)
        kept = more.pop("kept", False)
        made = self._export(version, **more)
        if name is not None and name not in caps._NAMES:
            made.capsule()
            made.handed_out = False
            return caps.new_capsule(made.address, name)
        capsule = made.capsule(name=name, destructor=destructor)
        if kept:
            self.kept = capsule
        return capsule

    return answer


def raises(name: str) -> Answer:
    def answer(self: Any, asked: dict[str, Any]) -> Any:
        raise ERRORS[name]()

    return answer


def returns(value: Any) -> Answer:
    return lambda self, asked: value


def when(has: Callable[[dict[str, Any]], bool], then: Answer, otherwise: Answer) -> Answer:
    return lambda self, asked: (then if has(asked) else otherwise)(self, asked)


FORMS: dict[str, Callable[[dict[str, Any]], bool]] = {
    "max_version": lambda asked: "max_version" in asked,
    "bare": lambda asked: not asked,
    "stream": lambda asked: "stream" in asked,
    "copy": lambda asked: "copy" in asked,
    "dl_device": lambda asked: "dl_device" in asked,
    "any": lambda asked: bool(asked),
    "always": lambda asked: True,
}


class Scripted(Array):
    """`TAKES` are the keywords that it knows; `ANSWER` decides."""

    TAKES: tuple[str, ...] = ALL_KEYWORDS
    ANSWER: Answer = staticmethod(gives())  # type: ignore[assignment]
    DEVICE: Any = (1, 0)

    def __dlpack__(self, *args: Any, **kwargs: Any) -> Any:
        asked = dict(zip(("stream",), args, strict=False)) | kwargs
        for name in asked:
            if name not in self.TAKES:
                raise TypeError(f"__dlpack__() got an unexpected keyword argument '{name}'")
        return self.ANSWER(self, asked)

    def table_answer(self) -> Any:
        return self._export((1, 3), flags=0)


class Questioned(Scripted):
    def __dlpack_device__(self) -> Any:
        if isinstance(self.DEVICE, BaseException):
            raise type(self.DEVICE)(*self.DEVICE.args)  # a fresh one: it keeps its frames
        return self.DEVICE


class Libraries:
    """Module and name by which rows of libraries are found, and what such objects have."""

    ROWS: dict[str, tuple[str, str, dict[str, Any]]] = {
        "unknown": ("made.up", "Scripted", {}),
        "numpy": ("numpy", "ndarray", {}),
        "torch": ("torch", "Tensor", {
            "requires_grad": False, "is_conj": lambda self: self.conj,
            "is_neg": lambda self: self.neg, "conj": False, "neg": False, "is_cpu": True,
        }),
        "jax": ("jaxlib._jax", "ArrayImpl", {}),
        "strict": ("array_api_strict._array_object", "Array", {}),
        "tensorflow": ("tensorflow.python.framework.ops", "EagerTensor", {"ndim": 2}),
        "pyarrow": ("pyarrow.lib", "Array", {}),
        "onnxruntime": ("onnxruntime.capi.onnxruntime_inference_collection", "OrtValue", {}),
        "nanobind": ("nanobind", "nb_ndarray", {}),
        "cupy": ("cupy", "ndarray", {}),
        "warp": ("warp._src.types", "array", {}),
        "tvm-ffi": ("tvm_ffi.core", "Tensor", {}),
    }  # fmt: skip


def scripted(
    answer: Answer | None = None, *, library: str = "unknown", question: bool = True,
    table: bool = False, bases: tuple[type, ...] = (), **members: Any,
) -> type:  # fmt: skip
    """A fresh type."""
    base: Any = Questioned if question else Scripted
    module, name, has = Libraries.ROWS[library]
    more: tuple[type, ...] = (TableMixin,) if table else ()
    cls: Any = type(name, (*more, *bases, base), dict(has) | members)
    if answer is not None:
        cls.ANSWER = staticmethod(answer)
    if table:
        cls.struct = c_table()
        cls.works = cls.struct.managed_tensor_from_py_object_no_sync
        cls.borrows = cls.struct.dltensor_from_py_object_no_sync
        cls.__dlpack_c_exchange_api__ = table_capsule(cls.struct)
        cls.table_export = lambda self: self.table_answer()
        cls.__bool__ = lambda self: raises(self.failure)(self, {})
    told = record.told(cls)
    told.__module__, told.__qualname__ = module, name
    return told


def table_fails(cls: Any, failure: str | None) -> None:
    """From now on the table's export raises this, or works again."""
    address = C.cast(RAISES_FROM_BOOL, C.c_void_p).value if failure else None
    cls.failure = failure
    cls.struct.managed_tensor_from_py_object_no_sync = address or cls.works
    cls.struct.dltensor_from_py_object_no_sync = address or cls.borrows
